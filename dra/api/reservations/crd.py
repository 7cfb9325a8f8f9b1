"""The CustomResourceDefinition of Reservations, generated from the one description of their fields.

The pydantic model is that description. Its JSON schema is turned into a structural schema: references are resolved,
optional fields are not nullable, and defaults of the spec are only those of Koordinator's schema (an absent field must
stay absent: whether `ttl` was given decides about the default of 24 h). CEL rules reject what the engine could only
report in a condition. Each message begins with the error, since the API server puts the path of the field before it.

Koordinator's own CustomResourceDefinition may be installed instead; it has all fields that are read here.
"""

from collections.abc import Mapping
from typing import Final

from dra.api.reservations.model import GROUP, KIND, PLURAL, VERSION, Reservation
from dra.api.structural_schema import (
    DURATION_PATTERN,
    PRESERVE_UNKNOWN_FIELDS,
    VALIDATIONS,
    SchemaNode,
    cluster_scoped_definition,
    openapi_schema,
    printer_column,
    validation_rule,
)

_DEFAULTS: Final = {
    "spec.allocateOnce": True,
    "spec.preAllocationPolicy.mode": "Default",
    "spec.preAllocationPolicy.enableMultiple": False,
    "status": {"phase": "Pending"},
    "status.phase": "Pending",
}
"""Defaults by path. The default of ``status`` is not Koordinator's: phase Pending is shown from the creation on, also
where no controller and no scheduler has seen the Reservation."""


SCHEMA_OVERLAYS: Final[Mapping[str, SchemaNode]] = {
    "spec.ttl": {
        VALIDATIONS: [
            validation_rule(
                f"self.matches('{DURATION_PATTERN}')",
                "must be a duration of 0s or more, for example 24h, 90m or 1h30m; with 0s, only expires counts",
            )
        ]
    },
    "spec.owners[]": {
        VALIDATIONS: [
            validation_rule(
                "has(self.object) || has(self.controller) || has(self.labelSelector)",
                "an owner that says nothing would be every pod; give object, controller or labelSelector",
            )
        ]
    },
    "spec.owners[].object": {
        VALIDATIONS: [
            validation_rule(
                "(has(self.name) && self.name != '') || (has(self.uid) && self.uid != '') || "
                "(has(self.__namespace__) && self.__namespace__ != '')",
                "names nothing that is compared; give name, namespace or uid of the pod",
            )
        ]
    },
    "spec.owners[].controller": {
        VALIDATIONS: [
            validation_rule(
                "(has(self.name) && self.name != '') || (has(self.uid) && self.uid != '')",
                "names no workload; give kind and name, or uid",
            )
        ]
    },
    "spec.owners[].labelSelector": {
        VALIDATIONS: [
            validation_rule(
                "(has(self.matchLabels) && size(self.matchLabels) > 0) || "
                "(has(self.matchExpressions) && size(self.matchExpressions) > 0)",
                "an empty selector would be every pod; give matchLabels or matchExpressions",
            )
        ]
    },
    "spec.owners[].labelSelector.matchExpressions[]": {
        "required": ["key", "operator"],
        VALIDATIONS: [
            validation_rule(
                "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
                "In and NotIn need values",
            ),
            validation_rule(
                "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
                "Exists and DoesNotExist take no values",
            ),
        ],
    },
    "spec.owners[].labelSelector.matchExpressions[].operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    "spec.template": {
        "properties": {
            "metadata": {"type": "object", PRESERVE_UNKNOWN_FIELDS: True},
            "spec": {
                "type": "object",
                PRESERVE_UNKNOWN_FIELDS: True,
                "properties": {
                    "containers": {"type": "array", "items": {"type": "object", PRESERVE_UNKNOWN_FIELDS: True}},
                },
            },
        },
        VALIDATIONS: [
            validation_rule(
                "has(self.spec) && has(self.spec.containers) && size(self.spec.containers) > 0",
                "reserves nothing: what is reserved is what spec.containers request",
            )
        ],
    },
}
"""Additions to the schema of a path: admission rejects more than the parser, which must read what exists already."""


def custom_resource_definition() -> SchemaNode:
    """Return the manifest of the CustomResourceDefinition."""
    return cluster_scoped_definition(
        group=GROUP,
        plural=PLURAL,
        kind=KIND,
        short_names=["rsv"],
        version=VERSION,
        content={
            "schema": {"openAPIV3Schema": openapi_schema(Reservation, defaults=_DEFAULTS, overlays=SCHEMA_OVERLAYS)},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [
                printer_column("Phase", ".status.phase", "Pending, Available, Succeeded or Failed"),
                printer_column("Age", ".metadata.creationTimestamp", kind="date"),
                printer_column(
                    "Claims",
                    '.status.conditions[?(@.type=="ClaimsHeld")].reason',
                    "reason of the condition ClaimsHeld, such as ClaimsHeldAsWhole; empty if claims need no remark",
                ),
                printer_column("Node", ".status.nodeName", "name of the node that holds the capacity", wide=True),
                printer_column("TTL", ".spec.ttl", "time to live; 24h if EXPIRES is empty, too", wide=True),
                printer_column("Expires", ".spec.expires", "time at which the reservation expires", wide=True),
            ],
        },
    )
