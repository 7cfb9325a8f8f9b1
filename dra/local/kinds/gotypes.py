"""How Go shows the internal types of ``resource.k8s.io`` when it says that a field is immutable.

Internal types have no JSON names: ``{"Devices":{"Requests":[],"Constraints":null,"Config":null}}``. Each table lists
the fields of one type in their order; what is absent shows as the zero value of its type.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra.local.objects import Object

Shown: TypeAlias = Callable[[Any], Any]
"""Turns a JSON value, or None for an absent one, into what is shown."""


def _text(value: Any) -> Any:  # noqa: ANN401 - JSON
    return "" if value is None else value


def _number(value: Any) -> Any:  # noqa: ANN401
    return 0 if value is None else value


def _pointer(value: Any) -> Any:  # noqa: ANN401
    return value


@dataclass(frozen=True)
class _Struct:
    """Fields by their Go names; a name in lower case is that of an embedded type and stays as it is."""

    fields: Mapping[str, tuple[str, Shown]]

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        held = value or {}
        return {go: shown(held.get(json)) for go, (json, shown) in self.fields.items()}


@dataclass(frozen=True)
class _Maybe:
    """A pointer to a struct."""

    target: Shown

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else self.target(value)


@dataclass(frozen=True)
class _List:
    """A slice; nil is not empty."""

    item: Shown

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else [self.item(each) for each in value]


_REQUIREMENT: Final = _Struct({"Key": ("key", _text), "Operator": ("operator", _text), "Values": ("values", _pointer)})
_NODE_SELECTOR: Final = _Struct(
    {
        "NodeSelectorTerms": (
            "nodeSelectorTerms",
            _List(
                _Struct(
                    {
                        "MatchExpressions": ("matchExpressions", _List(_REQUIREMENT)),
                        "MatchFields": ("matchFields", _List(_REQUIREMENT)),
                    }
                )
            ),
        )
    }
)
_TOLERATIONS: Final = _List(
    _Struct(
        {
            "Key": ("key", _text),
            "Operator": ("operator", _text),
            "Value": ("value", _text),
            "Effect": ("effect", _text),
            "TolerationSeconds": ("tolerationSeconds", _pointer),
        }
    )
)
_SELECTORS: Final = _List(_Struct({"CEL": ("cel", _Maybe(_Struct({"Expression": ("expression", _text)})))}))
_CAPACITY: Final = _Maybe(_Struct({"Requests": ("requests", _pointer)}))
_OPAQUE: Final = _Maybe(_Struct({"Driver": ("driver", _text), "Parameters": ("parameters", _pointer)}))

_WANTED: Final[dict[str, tuple[str, Shown]]] = {
    "DeviceClassName": ("deviceClassName", _text),
    "Selectors": ("selectors", _SELECTORS),
    "AllocationMode": ("allocationMode", _text),
    "Count": ("count", _number),
}
_EXACTLY: Final = _Struct(
    _WANTED
    | {
        "AdminAccess": ("adminAccess", _pointer),
        "Tolerations": ("tolerations", _TOLERATIONS),
        "Capacity": ("capacity", _CAPACITY),
    }
)
_SUBREQUEST: Final = _Struct(
    {"Name": ("name", _text)}
    | _WANTED
    | {"Tolerations": ("tolerations", _TOLERATIONS), "Capacity": ("capacity", _CAPACITY)}
)
_REQUEST: Final = _Struct(
    {
        "Name": ("name", _text),
        "Exactly": ("exactly", _Maybe(_EXACTLY)),
        "FirstAvailable": ("firstAvailable", _List(_SUBREQUEST)),
    }
)
_CONSTRAINT: Final = _Struct(
    {
        "Requests": ("requests", _pointer),
        "MatchAttribute": ("matchAttribute", _pointer),
        "DistinctAttribute": ("distinctAttribute", _pointer),
    }
)
_CONFIG: Final = _Struct({"Requests": ("requests", _pointer), "Opaque": ("opaque", _OPAQUE)})
_DEVICES: Final = _Struct(
    {
        "Requests": ("requests", _List(_REQUEST)),
        "Constraints": ("constraints", _List(_CONSTRAINT)),
        "Config": ("config", _List(_CONFIG)),
    }
)
_CLAIM_SPEC: Final = _Struct({"Devices": ("devices", _DEVICES)})
_RESULT: Final = _Struct(
    {
        "Request": ("request", _text),
        "Driver": ("driver", _text),
        "Pool": ("pool", _text),
        "Device": ("device", _text),
        "AdminAccess": ("adminAccess", _pointer),
        "Tolerations": ("tolerations", _TOLERATIONS),
        "BindingConditions": ("bindingConditions", _pointer),
        "BindingFailureConditions": ("bindingFailureConditions", _pointer),
        "ShareID": ("shareID", _pointer),
        "ConsumedCapacity": ("consumedCapacity", _pointer),
    }
)
_ALLOCATED_CONFIG: Final = _Struct(
    {"Source": ("source", _text), "Requests": ("requests", _pointer), "Opaque": ("opaque", _OPAQUE)}
)
_ALLOCATION: Final = _Struct(
    {
        "Devices": (
            "devices",
            _Struct({"Results": ("results", _List(_RESULT)), "Config": ("config", _List(_ALLOCATED_CONFIG))}),
        ),
        "NodeSelector": ("nodeSelector", _Maybe(_NODE_SELECTOR)),
        "AllocationTimestamp": ("allocationTimestamp", _pointer),
    }
)
_REFERENCE: Final = _Struct(
    {"APIGroup": ("apiGroup", _text), "Resource": ("resource", _text), "Name": ("name", _text), "UID": ("uid", _text)}
)


def claim_spec(spec: Object) -> Object:
    """Return the spec of a claim as Go shows it."""
    shown: Object = _CLAIM_SPEC(spec)
    if "reservedFor" in spec:  # KEP-5194
        shown["ReservedFor"] = _REFERENCE(spec["reservedFor"])
    return shown


def template_spec(spec: Object) -> Object:
    """Return the spec of a claim template; its metadata is embedded, and has JSON names of its own."""
    return {**(spec.get("metadata") or {}), "Spec": claim_spec(spec.get("spec") or {})}


def allocation(value: Object) -> Object:
    """Return an allocation as Go shows it."""
    shown: Object = _ALLOCATION(value)
    if value.get("reservedForAnyPod"):  # KEP-5194
        shown["ReservedForAnyPod"] = True
    return shown
