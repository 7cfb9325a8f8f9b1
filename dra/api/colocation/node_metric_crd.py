"""The CustomResourceDefinition of NodeMetrics, generated from the one description of their fields.

As in Koordinator's definition, which may be installed instead, a NodeMetric has a status subresource. Fields of the
status that the definition does not know are kept: newer agents report more.
"""

from typing import Final

from dra.api.colocation.node_metric import GROUP, KIND, PLURAL, VERSION, NodeMetric
from dra.api.structural_schema import (
    PRESERVE_UNKNOWN_FIELDS,
    SchemaNode,
    cluster_scoped_definition,
    openapi_schema,
    printer_column,
)

PODS_MAX: Final = 1024
"""Pods and applications in a report at most: kubelets run up to 110 pods by default, and 500 where that is raised."""

_KEPT: Final[SchemaNode] = {PRESERVE_UNKNOWN_FIELDS: True}
_OVERLAYS: Final = {
    "status": _KEPT,
    "status.nodeMetric": _KEPT,
    "status.podsMetric": {"maxItems": PODS_MAX},
    "status.podsMetric[]": _KEPT,
    "status.hostApplicationMetric": {"maxItems": PODS_MAX},
    "status.hostApplicationMetric[]": _KEPT,
}


def custom_resource_definition() -> SchemaNode:
    """Return the manifest of the CustomResourceDefinition."""
    return cluster_scoped_definition(
        group=GROUP,
        plural=PLURAL,
        kind=KIND,
        version=VERSION,
        content={
            "schema": {"openAPIV3Schema": openapi_schema(NodeMetric, defaults={}, overlays=_OVERLAYS)},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [
                printer_column("CPU", ".status.nodeMetric.nodeUsage.resources.cpu", "CPUs in use"),
                printer_column("Memory", ".status.nodeMetric.nodeUsage.resources.memory", "bytes in use"),
                printer_column("Updated", ".status.updateTime", "time of the report", kind="date"),
                printer_column("Age", ".metadata.creationTimestamp", kind="date"),
            ],
        },
    )
