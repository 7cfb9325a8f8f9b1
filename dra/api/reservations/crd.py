"""The CustomResourceDefinition of Reservations, generated from the one description of their fields.

The pydantic model is that description. Its JSON schema is turned into a structural schema: references are
resolved, optional fields are not nullable, and defaults are only those of Koordinator's schema (an absent field must
stay absent: whether `ttl` was given decides about the default of 24 h). CEL rules reject what the engine could only
report in a condition. Each message begins with the error, since the API server puts the path of the field before it.

Koordinator's own CustomResourceDefinition may be installed instead; it has all fields that are read here.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.reservations.model import GROUP, KIND, PLURAL, VERSION, Reservation

SchemaNode = dict[str, Any]

PRESERVE_UNKNOWN_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
_VALIDATIONS: Final = "x-kubernetes-validations"
_KEPT_KEYWORDS: Final = (
    *("type", "format", "enum", "description", "required", "minItems", "maxItems", "maxLength"),
    *(PRESERVE_UNKNOWN_FIELDS, "x-kubernetes-int-or-string"),
)
_DEFAULTS: Final = {
    "spec.allocateOnce": True,
    "spec.preAllocationPolicy.mode": "Default",
    "spec.preAllocationPolicy.enableMultiple": False,
    "status.phase": "Pending",
}


def _rule(rule: str, message: str) -> SchemaNode:
    return {"rule": rule, "message": message}


_DURATION_PATTERN: Final = "^[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|ms|s|m|h))+$|^[+]?0$"
_SCHEMA_OVERLAYS: Final[Mapping[str, SchemaNode]] = {
    "spec.ttl": {
        _VALIDATIONS: [
            _rule(
                f"self.matches('{_DURATION_PATTERN}')",
                "must be a duration of 0s or more, for example 24h, 90m or 1h30m; with 0s, only expires counts",
            )
        ]
    },
    "spec.owners[]": {
        _VALIDATIONS: [
            _rule(
                "has(self.object) || has(self.controller) || has(self.labelSelector)",
                "an owner that says nothing would be every pod; give object, controller or labelSelector",
            )
        ]
    },
    "spec.owners[].object": {
        _VALIDATIONS: [
            _rule(
                "(has(self.name) && self.name != '') || (has(self.uid) && self.uid != '') || "
                "(has(self.__namespace__) && self.__namespace__ != '')",
                "names nothing that is compared; give name, namespace or uid of the pod",
            )
        ]
    },
    "spec.owners[].controller": {
        _VALIDATIONS: [
            _rule(
                "(has(self.name) && self.name != '') || (has(self.uid) && self.uid != '')",
                "names no workload; give kind and name, or uid",
            )
        ]
    },
    "spec.owners[].labelSelector": {
        _VALIDATIONS: [
            _rule(
                "(has(self.matchLabels) && size(self.matchLabels) > 0) || "
                "(has(self.matchExpressions) && size(self.matchExpressions) > 0)",
                "an empty selector would be every pod; give matchLabels or matchExpressions",
            )
        ]
    },
    "spec.owners[].labelSelector.matchExpressions[]": {
        "required": ["key", "operator"],
        _VALIDATIONS: [
            _rule(
                "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
                "In and NotIn need values",
            ),
            _rule(
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
        _VALIDATIONS: [
            _rule(
                "has(self.spec) && has(self.spec.containers) && size(self.spec.containers) > 0",
                "reserves nothing: what is reserved is what spec.containers request",
            )
        ],
    },
}
"""Additions to the schema of a path: admission rejects more than the parser, which must read what exists already."""


def custom_resource_definition() -> SchemaNode:
    """Return the manifest of the CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "plural": PLURAL,
                "singular": KIND.lower(),
                "kind": KIND,
                "listKind": f"{KIND}List",
                "shortNames": ["rsv"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": openapi_schema()},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        _column("Phase", ".status.phase", "where it is in its life"),
                        _column("Age", ".metadata.creationTimestamp", kind="date"),
                        _column("Node", ".status.nodeName", "where it is", wide=True),
                        _column("TTL", ".spec.ttl", "how long it lives; 24h if EXPIRES is empty, too", wide=True),
                        _column("Expires", ".spec.expires", "when it ends, at the latest", wide=True),
                    ],
                }
            ],
        },
    }


def openapi_schema() -> SchemaNode:
    """Return the structural schema of a Reservation."""
    described = Reservation.model_json_schema(by_alias=True)
    found = _structural_schema(described, described.get("$defs", {}), "")
    found["properties"]["metadata"] = {"type": "object"}
    return {
        **found,
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, **found["properties"]},
    }


def _column(name: str, path: str, text: str = "", *, kind: str = "string", wide: bool = False) -> SchemaNode:
    column = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"description": text} if text else {}) | ({"priority": 1} if wide else {})


def _structural_schema(given: SchemaNode, named: SchemaNode, path: str) -> SchemaNode:
    if "$ref" in given:
        given = named[given["$ref"].rpartition("/")[2]] | {k: v for k, v in given.items() if k != "$ref"}
    if "anyOf" in given:  # optional: absent, not null
        (wanted,) = (each for each in given["anyOf"] if each.get("type") != "null")
        outer = {key: value for key, value in given.items() if key not in ("anyOf", "default")}
        return _structural_schema(wanted | outer, named, path)
    found: SchemaNode = {key: given[key] for key in _KEPT_KEYWORDS if key in given}
    if path in _DEFAULTS:
        found["default"] = _DEFAULTS[path]
    if "properties" in given:
        found["properties"] = {
            name: _structural_schema(each, named, f"{path}.{name}" if path else name)
            for name, each in given["properties"].items()
        }
    elif isinstance(others := given.get("additionalProperties"), dict):
        found["additionalProperties"] = _structural_schema(others, named, f"{path}{{}}")
    if "items" in given:
        found["items"] = _structural_schema(given["items"], named, f"{path}[]")
    found |= _SCHEMA_OVERLAYS.get(path, {})
    if "description" in found:
        found["description"] = " ".join(found["description"].replace("`", "").split())
    return found
