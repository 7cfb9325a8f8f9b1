"""Defines ResourceSlices (``resource.k8s.io/v1``), by which a driver publishes devices of one or many nodes."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from dra.kube.clock import rfc3339
from dra.model import name_validation
from dra.model.releases import Traits
from localplane.kinds import (
    columns,
    device_capacities,
    device_validation,
    field_errors,
    node_selectors,
    stricter_devices,
)
from localplane.kinds.kind import Kind, NoStatusStrategy
from localplane.objects import Object
from localplane.status_errors import FieldError

MAX_DEVICES: Final = 128
MAX_DEVICES_WITH_ADVANCED_FEATURES: Final = 64
"""Maximum number of devices in a slice if a device has taints, consumes counters or has list attributes."""
MAX_ATTRIBUTES_AND_CAPACITIES: Final = 32
"""Maximum number of attributes and capacities of a device."""
MAX_ATTRIBUTE_VALUES: Final = 48
MAX_TAINTS: Final = 16
MAX_COUNTER_SETS: Final = 8
MAX_COUNTERS: Final = 32
MAX_COUNTER_CONSUMPTIONS: Final = 2
MAX_ATTRIBUTE_VALUE_LENGTH: Final = 64

_NODE_SELECTION_FIELDS: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_SCALAR_TYPES: Final = ("bool", "int", "string", "version")
_LIST_TYPES: Final = ("bools", "ints", "strings", "versions")
_UNSET_OR_TRUE: Final = "must be either unset or set to true"
_MAX_SHOWN_KEY: Final = 63 + 1 + 32


class ResourceSliceStrategy(NoStatusStrategy):
    """The strategy of ResourceSlices, whose driver, pool name and node name are immutable."""

    def __init__(self, *, by_pool: bool, stricter: bool) -> None:
        """Create the strategy; `by_pool` also enables the field selector ``spec.pool.name``.

        `stricter`: devices are checked as since 1.38, too; those that an update leaves as they are pass unchecked,
        apart from their places when perDeviceNodeSelection changes.
        """
        self._select_by_pool = by_pool
        self._stricter = stricter

    def set_times(self, obj: Object, now: datetime) -> None:
        """Set ``timeAdded`` of device taints if absent."""
        for device in obj["spec"].get("devices") or ():
            for taint in device.get("taints") or ():
                if not taint.get("timeAdded"):
                    taint["timeAdded"] = rfc3339(now)

    def default(self, obj: Object) -> None:
        """Set an empty spec if absent."""
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of driver, pool, node selection and devices."""
        return _validate_spec(obj["spec"], None) + self._validate_contents(obj["spec"], None)

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update; driver, pool name and node name are immutable."""
        return _validate_spec(new["spec"], old["spec"]) + self._validate_contents(new["spec"], old["spec"])

    def _validate_contents(self, spec: Object, old: Object | None) -> list[FieldError]:
        causes = []
        if old is None or not self._stricter or spec.get("devices") != old.get("devices"):
            causes = _validate_devices(spec, old or {}, stricter=self._stricter)
        elif spec.get("perDeviceNodeSelection") != old.get("perDeviceNodeSelection"):
            causes = _validate_places(spec, stricter=True)
        return causes + _validate_counter_sets(spec.get("sharedCounters") or [])

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support."""
        spec = obj["spec"]
        pool = {"spec.pool.name": (spec.get("pool") or {}).get("name", "")} if self._select_by_pool else {}
        return {"spec.nodeName": spec.get("nodeName", ""), "spec.driver": spec.get("driver", "")} | pool

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get resourceslices``."""
        spec = obj["spec"]
        return {
            "Node": spec.get("nodeName", ""),
            "Driver": spec.get("driver", ""),
            "Pool": (spec.get("pool") or {}).get("name", ""),
            "Age": columns.age(obj, now),
        }


def _validate_spec(spec: Object, old: Object | None) -> list[FieldError]:
    pool = spec.get("pool") or {}
    causes = device_validation.validate_driver_name("spec.driver", spec.get("driver", "")) + _validate_pool(pool)
    if old is not None:
        causes += field_errors.validate_immutable(
            "spec.pool.name", pool.get("name", ""), (old.get("pool") or {}).get("name", "")
        )
        for name in ("driver", "nodeName"):
            causes += field_errors.validate_immutable(f"spec.{name}", spec.get(name), old.get(name))
    causes += _validate_node_selection(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        causes.append(field_errors.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    return causes


def _validate_pool(pool: Object) -> list[FieldError]:
    causes = device_validation.validate_pool_name("spec.pool.name", pool.get("name", ""))
    if (count := pool.get("resourceSliceCount", 0)) <= 0:
        causes.append(field_errors.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if (generation := pool.get("generation", 0)) < 0:
        causes.append(field_errors.invalid("spec.pool.generation", generation, "must be greater than or equal to zero"))
    return causes


def _validate_node_selection(spec: Object) -> list[FieldError]:
    causes = []
    chosen = []
    node, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if node is not None:
        if node:
            chosen.append("nodeName")
            causes += field_errors.invalid_for_each("spec.nodeName", node, name_validation.dns1123_subdomain(node))
        else:
            causes.append(
                field_errors.invalid("spec.nodeName", node, "must be either unset or set to a non-empty string")
            )
    if selector is not None:
        chosen.append("nodeSelector")
        causes += node_selectors.validate("spec.nodeSelector", selector)
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            detail = "must have exactly one node selector term"
            causes.append(field_errors.invalid("spec.nodeSelector.nodeSelectorTerms", terms or None, detail))
    for flag in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(flag):
            chosen.append(flag)
        elif spec.get(flag) is not None:
            causes.append(field_errors.invalid(f"spec.{flag}", False, _UNSET_OR_TRUE))  # noqa: FBT003 - the value that is shown
    one = f"exactly one of {', '.join(f'`{name}`' for name in _NODE_SELECTION_FIELDS)} is required"
    if not chosen:
        causes.append(field_errors.required("spec", one))
    elif len(chosen) > 1:
        listed = ", ".join(f"`{name}`" for name in chosen)
        causes.append(field_errors.invalid("spec", f"{{{listed}}}", f"{one}, but multiple fields are set"))
    return causes


def _validate_devices(spec: Object, old: Object, *, stricter: bool) -> list[FieldError]:
    listed = spec.get("devices") or []
    limit = MAX_DEVICES_WITH_ADVANCED_FEATURES if any(map(_uses_advanced_features, listed)) else MAX_DEVICES
    before = {device.get("name"): device for device in old.get("devices") or ()}
    causes = field_errors.validate_items(
        "spec.devices",
        listed,
        lambda at, device: _validate_device(at, device, before.get(device.get("name"))),
        limit=limit,
    )
    if len(listed) > limit:
        return causes
    causes += field_errors.validate_unique("spec.devices", listed, lambda device: device.get("name", ""))
    causes += stricter_devices.validate_devices(listed) if stricter else []
    return causes + _validate_places(spec, stricter=stricter)


def _validate_places(spec: Object, *, stricter: bool) -> list[FieldError]:
    """Return the errors of the node selection of each device, which depends on perDeviceNodeSelection."""
    has_place, causes = bool(spec.get("perDeviceNodeSelection")), []
    for index, device in enumerate(spec.get("devices") or ()):
        path = f"spec.devices[{index}]"
        causes += _validate_device_node_selection(path, device, has_place)
        if has_place and stricter:
            causes += stricter_devices.validate_node_selector(path, device)
    return causes


def _uses_advanced_features(device: Object) -> bool:
    attributes = (device.get("attributes") or {}).values()
    lists = any(attribute.get(name) is not None for attribute in attributes for name in _LIST_TYPES)
    return bool(device.get("taints") or device.get("consumesCounters") or lists)


def _validate_device(path: str, device: Object, old: Object | None) -> list[FieldError]:
    causes = device_validation.validate_device_name(f"{path}.name", device.get("name", ""))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (count := len(attributes) + len(capacity)) > MAX_ATTRIBUTES_AND_CAPACITIES:
        detail = f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        causes.append(field_errors.invalid(path, count, detail))
    values = sum(
        max(1, sum(len(attribute.get(name) or ()) for name in _LIST_TYPES)) for attribute in attributes.values()
    )
    if values > MAX_ATTRIBUTE_VALUES:
        causes.append(
            field_errors.invalid(
                path, values, f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
            )
        )
    causes += _validate_map(f"{path}.attributes", attributes, _validate_attribute)
    shared = bool(device.get("allowMultipleAllocations"))
    causes += _validate_map(f"{path}.capacity", capacity, partial(device_capacities.validate, shared=shared))
    if old is None or old.get("taints") != device.get("taints"):
        causes += field_errors.validate_items(
            f"{path}.taints", device.get("taints") or [], device_validation.validate_device_taint, limit=MAX_TAINTS
        )
    consumed = device.get("consumesCounters") or []
    causes += field_errors.validate_items(
        f"{path}.consumesCounters", consumed, _validate_counter_consumption, limit=MAX_COUNTER_CONSUMPTIONS
    )
    if len(consumed) <= MAX_COUNTER_CONSUMPTIONS:
        causes += field_errors.validate_unique(
            f"{path}.consumesCounters", consumed, lambda consumption: consumption.get("counterSet", "")
        )
    return causes + device_validation.validate_binding_conditions(path, device)


def _validate_device_node_selection(path: str, device: Object, has_place: bool) -> list[FieldError]:  # noqa: FBT001
    given = [name for name in ("nodeName", "nodeSelector", "allNodes") if device.get(name) is not None]
    if not has_place:
        if not given:
            return []
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
            "in the ResourceSlice spec"
        )
        return [field_errors.invalid(path, None, detail)]
    causes = []
    chosen = [name for name in given if device[name] or name == "nodeSelector"]
    if "nodeName" in given:
        node = device["nodeName"]
        causes += (
            field_errors.invalid_for_each(f"{path}.nodeName", node, name_validation.dns1123_subdomain(node))
            if node
            else [field_errors.invalid(f"{path}.nodeName", node, "must not be empty")]
        )
    if "nodeSelector" in given:
        causes += node_selectors.validate(f"{path}.nodeSelector", device["nodeSelector"])
    if "allNodes" in given and "allNodes" not in chosen:
        causes.append(field_errors.invalid(f"{path}.allNodes", False, _UNSET_OR_TRUE))  # noqa: FBT003
    if len(chosen) == 1:
        return causes
    detail = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    listed = ", ".join(f"`{name}`" for name in chosen)
    return [
        *causes,
        field_errors.invalid(path, f"{{{listed}}}", detail) if chosen else field_errors.required(path, detail),
    ]


def _validate_map(path: str, facts: Mapping[str, Object], check: Any) -> list[FieldError]:  # noqa: ANN401 - a check of one fact
    causes = []
    for name, fact in facts.items():
        causes += device_validation.validate_qualified_name(path, name)
        causes += check(f"{path}[{_truncate(name)}]", fact)
    return causes


def _truncate(name: str) -> str:
    if len(name) <= _MAX_SHOWN_KEY:
        return name
    kept = _MAX_SHOWN_KEY - len("...")
    return f"{name[: (kept + 1) // 2]}...{name[len(name) - kept // 2 :]}"


def _validate_attribute(path: str, attribute: Object) -> list[FieldError]:
    causes = []
    for name in ("string", "version"):
        if attribute.get(name) is not None:
            causes += _validate_attribute_value(f"{path}.{name}", attribute[name], version=name == "version")
    for name in _LIST_TYPES:
        items = attribute.get(name)
        if items is None:
            continue
        if not items:
            causes.append(field_errors.invalid(f"{path}.{name}", items, "must not be empty if specified"))
        if name in ("strings", "versions"):
            causes += field_errors.validate_items(
                f"{path}.{name}", items, partial(_validate_attribute_value, version=name == "versions")
            )
    given = [name for name in (*_SCALAR_TYPES, *_LIST_TYPES) if attribute.get(name) is not None]
    if len(given) != 1:
        causes.append(field_errors.invalid(path, attribute if given else "", "exactly one value must be specified"))
    return causes


def _validate_attribute_value(path: str, text: str, *, version: bool) -> list[FieldError]:
    causes = field_errors.invalid_for_each(path, text, name_validation.semver(text)) if version else []
    return (
        [*causes, field_errors.too_long(path, MAX_ATTRIBUTE_VALUE_LENGTH)]
        if len(text.encode()) > MAX_ATTRIBUTE_VALUE_LENGTH
        else causes
    )


def _validate_counter_sets(sets: list[Object]) -> list[FieldError]:
    causes = field_errors.validate_items(
        "spec.sharedCounters", sets, partial(_validate_counters, named="name"), limit=MAX_COUNTER_SETS
    )
    if len(sets) > MAX_COUNTER_SETS:
        return causes
    return causes + field_errors.validate_unique(
        "spec.sharedCounters", sets, lambda counter_set: counter_set.get("name", "")
    )


def _validate_counter_consumption(path: str, consumption: Object) -> list[FieldError]:
    return _validate_counters(path, consumption, named="counterSet")


def _validate_counters(path: str, holder: Object, *, named: str) -> list[FieldError]:
    name, counters = holder.get(named, ""), holder.get("counters") or {}
    causes = (
        field_errors.invalid_for_each(f"{path}.{named}", name, name_validation.dns1123_label(name))
        if name
        else [field_errors.required(f"{path}.{named}")]
    )
    if not counters:
        causes.append(field_errors.required(f"{path}.counters"))
    elif len(counters) > MAX_COUNTERS:
        causes.append(field_errors.too_many(f"{path}.counters", len(counters), MAX_COUNTERS))
    else:
        for key in counters:
            causes += field_errors.invalid_for_each(f"{path}.counters", key, name_validation.dns1123_label(key))
    return causes


def slice_kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kind of a release of Kubernetes."""
    return (
        Kind(
            group="resource.k8s.io",
            plural="resourceslices",
            name="ResourceSlice",
            namespaced=False,
            subresources=(),
            strategy=ResourceSliceStrategy(by_pool=traits.slice_pool_name_selectable, stricter=traits.stricter_devices),
            columns=(columns.NAME, *columns.strings("Node", "Driver", "Pool"), columns.AGE),
        ),
    )
