"""Types of the API that the recording of Kubernetes 1.36 (structures.json, numbers.json) does not have.

DeviceTaintRule of resource.k8s.io/v1, as k8s.io/api v0.37.1 has it (resource/v1/types.go, generated.proto).
"""

from typing import Final

from dra.local.objects import Object
from dra.local.schemas.reading import REFERENCE

_RESOURCE: Final = "io.k8s.api.resource.v1."
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_RULE: Final = f"{_RESOURCE}DeviceTaintRule"
_TYPE_META: Final = {"type": "string", "x-go": "string empty TypeMeta"}


def _of(name: str, go: str) -> Object:
    return {"allOf": [{"$ref": REFERENCE + name}], "x-go": go}


def _kind(kind: str) -> list[Object]:
    return [{"group": "resource.k8s.io", "kind": kind, "version": "v1"}]


_NAME: Final = {"type": "string", "x-go": "*string empty"}

DEFINITIONS: Final[dict[str, Object]] = {
    _RULE: {
        "type": "object",
        "properties": {
            "apiVersion": _TYPE_META,
            "kind": _TYPE_META,
            "metadata": _of(f"{_META}ObjectMeta", "v1.ObjectMeta empty") | {"default": {}},
            "spec": _of(f"{_RULE}Spec", "v1.DeviceTaintRuleSpec always") | {"default": {}},
            "status": _of(f"{_RULE}Status", "v1.DeviceTaintRuleStatus empty") | {"default": {}},
        },
        "required": ["spec"],
        "x-kubernetes-group-version-kind": _kind("DeviceTaintRule"),
    },
    f"{_RULE}List": {
        "type": "object",
        "properties": {
            "apiVersion": _TYPE_META,
            "kind": _TYPE_META,
            "metadata": _of(f"{_META}ListMeta", "v1.ListMeta empty") | {"default": {}},
            "items": {
                "type": "array",
                "items": {"allOf": [{"$ref": REFERENCE + _RULE}], "default": {}},
                "x-go": "[]v1.DeviceTaintRule always",
            },
        },
        "required": ["items"],
        "x-kubernetes-group-version-kind": _kind("DeviceTaintRuleList"),
    },
    f"{_RULE}Spec": {
        "type": "object",
        "properties": {
            "deviceSelector": _of(f"{_RESOURCE}DeviceTaintSelector", "*v1.DeviceTaintSelector empty"),
            "taint": _of(f"{_RESOURCE}DeviceTaint", "v1.DeviceTaint always") | {"default": {}},
        },
        "required": ["taint"],
    },
    f"{_RULE}Status": {
        "type": "object",
        "properties": {
            "conditions": {
                "type": "array",
                "items": {"allOf": [{"$ref": f"{REFERENCE}{_META}Condition"}], "default": {}},
                "x-go": "[]v1.Condition empty",
                "x-kubernetes-list-map-keys": ["type"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "type",
                "x-kubernetes-patch-strategy": "merge",
            }
        },
    },
    f"{_RESOURCE}DeviceTaintSelector": {
        "type": "object",
        "properties": {"device": _NAME, "driver": _NAME, "pool": _NAME},
    },
}
"""OpenAPI, by name, in the form of structures.json."""

NUMBERS: Final[dict[str, dict[int, tuple[str, str]]]] = {
    _RULE: {1: ("metadata", ""), 2: ("spec", ""), 3: ("status", "")},
    f"{_RULE}List": {1: ("metadata", ""), 2: ("items", "")},
    f"{_RULE}Spec": {1: ("deviceSelector", ""), 2: ("taint", "")},
    f"{_RULE}Status": {1: ("conditions", "")},
    f"{_RESOURCE}DeviceTaintSelector": {2: ("driver", ""), 3: ("pool", ""), 4: ("device", "")},
}
"""Numbers of fields in protobuf, in the form of numbers.json."""
