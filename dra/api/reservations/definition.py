"""The CustomResourceDefinition of Reservations, made from their model: there is one description of them, the model.

pydantic's JSON schema is turned into a structural one: references are resolved, optional is not nullable, defaults are
only those that Koordinator's schema has (what is absent must stay absent: whether `ttl` was given decides about the
24 h). Rules in CEL refuse what the engine could only answer with a condition. Each begins with what is wrong, since the
API server puts the path of the field before it.

Koordinator's own definition may be installed instead; all that is read here is in both.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.reservations.model import GROUP, KIND, PLURAL, VERSION, Reservation

Node = dict[str, Any]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"
_KEPT: Final = (
    *("type", "format", "enum", "description", "required", "minItems", "maxItems", "maxLength"),
    *(PRESERVE, "x-kubernetes-int-or-string"),
)
_DEFAULTS: Final = {
    "spec.allocateOnce": True,
    "spec.preAllocationPolicy.mode": "Default",
    "spec.preAllocationPolicy.enableMultiple": False,
    "status.phase": "Pending",
}


def _rule(rule: str, message: str) -> Node:
    return {"rule": rule, "message": message}


_DURATION: Final = "^[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|ms|s|m|h))+$|^[+]?0$"
_PLACES: Final[Mapping[str, Node]] = {
    "spec.ttl": {
        _RULES: [
            _rule(
                f"self.matches('{_DURATION}')",
                "is no duration that lies ahead; write it as in: 24h, 90m, 1h30m, or 0s: ends by expires alone",
            )
        ]
    },
    "spec.owners[]": {
        _RULES: [
            _rule(
                "has(self.object) || has(self.controller) || has(self.labelSelector)",
                "an owner that says nothing would be every pod; give object, controller or labelSelector",
            )
        ]
    },
    "spec.owners[].object": {
        _RULES: [
            _rule(
                "(has(self.name) && self.name != '') || (has(self.uid) && self.uid != '') || "
                "(has(self.__namespace__) && self.__namespace__ != '')",
                "names nothing that is compared; give name, namespace or uid of the pod",
            )
        ]
    },
    "spec.owners[].controller": {
        _RULES: [
            _rule(
                "(has(self.name) && self.name != '') || (has(self.uid) && self.uid != '')",
                "names no workload; give kind and name, or uid",
            )
        ]
    },
    "spec.owners[].labelSelector": {
        _RULES: [
            _rule(
                "(has(self.matchLabels) && size(self.matchLabels) > 0) || "
                "(has(self.matchExpressions) && size(self.matchExpressions) > 0)",
                "an empty selector would be every pod; give matchLabels or matchExpressions",
            )
        ]
    },
    "spec.owners[].labelSelector.matchExpressions[]": {
        "required": ["key", "operator"],
        _RULES: [
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
            "metadata": {"type": "object", PRESERVE: True},
            "spec": {
                "type": "object",
                PRESERVE: True,
                "properties": {
                    "containers": {"type": "array", "items": {"type": "object", PRESERVE: True}},
                },
            },
        },
        _RULES: [
            _rule(
                "has(self.spec) && has(self.spec.containers) && size(self.spec.containers) > 0",
                "reserves nothing: what is reserved is what spec.containers request",
            )
        ],
    },
}
"""What a place's schema has beyond the model: what is refused at admission and tolerated in reading."""


def definition() -> Node:
    """Return the manifest."""
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
                    "schema": {"openAPIV3Schema": schema()},
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


def schema() -> Node:
    """Return the structural schema."""
    described = Reservation.model_json_schema(by_alias=True)
    found = _structural(described, described.get("$defs", {}), "")
    found["properties"]["metadata"] = {"type": "object"}
    return {
        **found,
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, **found["properties"]},
    }


def _column(name: str, path: str, text: str = "", *, kind: str = "string", wide: bool = False) -> Node:
    column = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"description": text} if text else {}) | ({"priority": 1} if wide else {})


def _structural(given: Node, named: Node, path: str) -> Node:
    if "$ref" in given:
        given = named[given["$ref"].rpartition("/")[2]] | {k: v for k, v in given.items() if k != "$ref"}
    if "anyOf" in given:  # optional: absent, not null
        (wanted,) = (each for each in given["anyOf"] if each.get("type") != "null")
        outer = {key: value for key, value in given.items() if key not in ("anyOf", "default")}
        return _structural(wanted | outer, named, path)
    found: Node = {key: given[key] for key in _KEPT if key in given}
    if path in _DEFAULTS:
        found["default"] = _DEFAULTS[path]
    if "properties" in given:
        found["properties"] = {
            name: _structural(each, named, f"{path}.{name}" if path else name)
            for name, each in given["properties"].items()
        }
    elif isinstance(others := given.get("additionalProperties"), dict):
        found["additionalProperties"] = _structural(others, named, f"{path}{{}}")
    if "items" in given:
        found["items"] = _structural(given["items"], named, f"{path}[]")
    found |= _PLACES.get(path, {})
    if "description" in found:
        found["description"] = " ".join(found["description"].replace("`", "").split())
    return found
