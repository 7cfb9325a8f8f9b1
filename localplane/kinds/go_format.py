"""Formats internal types of ``resource.k8s.io`` as Go prints the types in errors about immutable fields.

Internal types have no JSON names: ``{"Devices":{"Requests":[],"Constraints":null,"Config":null}}``. Each table lists
the fields of one type in order; an absent field is printed as the zero value of its type.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from localplane.objects import Object

GoFormatter: TypeAlias = Callable[[Any], Any]
"""Function that converts a JSON value, or None if absent, to the printed value."""


def _string(value: Any) -> Any:  # noqa: ANN401 - JSON
    return "" if value is None else value


def _number(value: Any) -> Any:  # noqa: ANN401
    return 0 if value is None else value


def _pointer(value: Any) -> Any:  # noqa: ANN401
    return value


@dataclass(frozen=True)
class _GoStruct:
    """Formats a Go struct: fields by Go name; a name in lower case belongs to an embedded type and stays unchanged."""

    fields: Mapping[str, tuple[str, GoFormatter]]

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        held = value or {}
        return {go: shown(held.get(json)) for go, (json, shown) in self.fields.items()}


@dataclass(frozen=True)
class _GoPointer:
    """Formats a pointer to a struct."""

    target: GoFormatter

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else self.target(value)


@dataclass(frozen=True)
class _GoSlice:
    """Formats a slice; a nil slice differs from an empty one."""

    item: GoFormatter

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        return None if value is None else [self.item(each) for each in value]


_REQUIREMENT: Final = _GoStruct(
    {"Key": ("key", _string), "Operator": ("operator", _string), "Values": ("values", _pointer)}
)
_NODE_SELECTOR: Final = _GoStruct(
    {
        "NodeSelectorTerms": (
            "nodeSelectorTerms",
            _GoSlice(
                _GoStruct(
                    {
                        "MatchExpressions": ("matchExpressions", _GoSlice(_REQUIREMENT)),
                        "MatchFields": ("matchFields", _GoSlice(_REQUIREMENT)),
                    }
                )
            ),
        )
    }
)
_TOLERATIONS: Final = _GoSlice(
    _GoStruct(
        {
            "Key": ("key", _string),
            "Operator": ("operator", _string),
            "Value": ("value", _string),
            "Effect": ("effect", _string),
            "TolerationSeconds": ("tolerationSeconds", _pointer),
        }
    )
)
_SELECTORS: Final = _GoSlice(
    _GoStruct({"CEL": ("cel", _GoPointer(_GoStruct({"Expression": ("expression", _string)})))})
)
_CAPACITY: Final = _GoPointer(_GoStruct({"Requests": ("requests", _pointer)}))
_OPAQUE: Final = _GoPointer(_GoStruct({"Driver": ("driver", _string), "Parameters": ("parameters", _pointer)}))

_REQUEST_FIELDS: Final[dict[str, tuple[str, GoFormatter]]] = {
    "DeviceClassName": ("deviceClassName", _string),
    "Selectors": ("selectors", _SELECTORS),
    "AllocationMode": ("allocationMode", _string),
    "Count": ("count", _number),
}
_EXACTLY: Final = _GoStruct(
    _REQUEST_FIELDS
    | {
        "AdminAccess": ("adminAccess", _pointer),
        "Tolerations": ("tolerations", _TOLERATIONS),
        "Capacity": ("capacity", _CAPACITY),
    }
)
_SUBREQUEST: Final = _GoStruct(
    {"Name": ("name", _string)}
    | _REQUEST_FIELDS
    | {"Tolerations": ("tolerations", _TOLERATIONS), "Capacity": ("capacity", _CAPACITY)}
)
_REQUEST: Final = _GoStruct(
    {
        "Name": ("name", _string),
        "Exactly": ("exactly", _GoPointer(_EXACTLY)),
        "FirstAvailable": ("firstAvailable", _GoSlice(_SUBREQUEST)),
    }
)
_CONSTRAINT: Final = _GoStruct(
    {
        "Requests": ("requests", _pointer),
        "MatchAttribute": ("matchAttribute", _pointer),
        "DistinctAttribute": ("distinctAttribute", _pointer),
    }
)
_CONFIG: Final = _GoStruct({"Requests": ("requests", _pointer), "Opaque": ("opaque", _OPAQUE)})
_DEVICES: Final = _GoStruct(
    {
        "Requests": ("requests", _GoSlice(_REQUEST)),
        "Constraints": ("constraints", _GoSlice(_CONSTRAINT)),
        "Config": ("config", _GoSlice(_CONFIG)),
    }
)
_CLAIM_SPEC: Final = _GoStruct({"Devices": ("devices", _DEVICES)})
_RESULT: Final = _GoStruct(
    {
        "Request": ("request", _string),
        "Driver": ("driver", _string),
        "Pool": ("pool", _string),
        "Device": ("device", _string),
        "AdminAccess": ("adminAccess", _pointer),
        "Tolerations": ("tolerations", _TOLERATIONS),
        "BindingConditions": ("bindingConditions", _pointer),
        "BindingFailureConditions": ("bindingFailureConditions", _pointer),
        "ShareID": ("shareID", _pointer),
        "ConsumedCapacity": ("consumedCapacity", _pointer),
    }
)
_ALLOCATED_CONFIG: Final = _GoStruct(
    {"Source": ("source", _string), "Requests": ("requests", _pointer), "Opaque": ("opaque", _OPAQUE)}
)
_ALLOCATION: Final = _GoStruct(
    {
        "Devices": (
            "devices",
            _GoStruct({"Results": ("results", _GoSlice(_RESULT)), "Config": ("config", _GoSlice(_ALLOCATED_CONFIG))}),
        ),
        "NodeSelector": ("nodeSelector", _GoPointer(_NODE_SELECTOR)),
        "AllocationTimestamp": ("allocationTimestamp", _pointer),
    }
)
_REFERENCE: Final = _GoStruct(
    {
        "APIGroup": ("apiGroup", _string),
        "Resource": ("resource", _string),
        "Name": ("name", _string),
        "UID": ("uid", _string),
    }
)


def format_claim_spec(spec: Object) -> Object:
    """Return the spec of a claim as Go prints it."""
    shown: Object = _CLAIM_SPEC(spec)
    if "reservedFor" in spec:  # KEP-5194
        shown["ReservedFor"] = _REFERENCE(spec["reservedFor"])
    return shown


def format_template_spec(spec: Object) -> Object:
    """Return the spec of a claim template as Go prints it; the embedded metadata has JSON names."""
    return {**(spec.get("metadata") or {}), "Spec": format_claim_spec(spec.get("spec") or {})}


def format_allocation(value: Object) -> Object:
    """Return an allocation as Go prints it."""
    shown: Object = _ALLOCATION(value)
    if value.get("reservedForAnyPod"):  # KEP-5194
        shown["ReservedForAnyPod"] = True
    return shown
