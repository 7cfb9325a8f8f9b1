"""The CustomResourceDefinition of ClusterColocationProfiles, generated from the one description of their fields.

Manifests for Koordinator pass as they are; what no policy can do is reported in the status.
"""

from dra.api.profiles.model import GROUP, KIND, PLURAL, VERSION, ClusterColocationProfile
from dra.api.structural_schema import SchemaNode, cluster_scoped_definition, openapi_schema, printer_column


def custom_resource_definition() -> SchemaNode:
    """Return the manifest of the CustomResourceDefinition."""
    return cluster_scoped_definition(
        group=GROUP,
        plural=PLURAL,
        kind=KIND,
        version=VERSION,
        content={
            "schema": {"openAPIV3Schema": openapi_schema(ClusterColocationProfile, defaults={}, overlays={})},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [
                printer_column("QoS", ".spec.qosClass", "the QoS class that pods get"),
                printer_column("PriorityClass", ".spec.priorityClassName", "the PriorityClass that pods get"),
                printer_column("Ready", '.status.conditions[?(@.type=="Ready")].status', "whether new pods get it"),
                printer_column("Conflict", '.status.conditions[?(@.type=="Conflict")].status', wide=True),
                printer_column("Age", ".metadata.creationTimestamp", kind="date"),
            ],
        },
    )
