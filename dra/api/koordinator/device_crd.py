"""The CustomResourceDefinition of Devices, generated from the one description of their fields.

As in Koordinator's definition, which may be installed instead, a Device has no status subresource: one write reports
devices and allocations together.
"""

from typing import Final

from dra.api.koordinator.device import GROUP, KIND, PLURAL, VERSION, Device
from dra.api.structural_schema import SchemaNode, cluster_scoped_definition, openapi_schema, printer_column

_DEFAULTS: Final = {"spec.devices[].health": False}


def custom_resource_definition() -> SchemaNode:
    """Return the manifest of the CustomResourceDefinition."""
    return cluster_scoped_definition(
        group=GROUP,
        plural=PLURAL,
        kind=KIND,
        version=VERSION,
        content={
            "schema": {"openAPIV3Schema": openapi_schema(Device, defaults=_DEFAULTS, overlays={})},
            "additionalPrinterColumns": [
                printer_column("Age", ".metadata.creationTimestamp", kind="date"),
                printer_column("IDs", ".spec.devices[*].id", "the devices of the node", wide=True),
            ],
        },
    )
