"""ResourceSlices (``resource.k8s.io/v1``): the devices that a driver offers, on one node or for many."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from dra.kube.clock import second_time
from dra.local.kinds import capacities, causes, columns, devices, names, node_selectors
from dra.local.kinds.kind import Kind, WholeStrategy
from dra.local.objects import Object
from dra.local.refusals import Cause
from dra.local.schemas.releases import Traits

DEVICES: Final = 128
ADVANCED_DEVICES: Final = 64
"""Of a slice whose devices have taints, consume counters or have lists as attributes."""
FACTS: Final = 32
"""Attributes and capacities of a device."""
VALUES: Final = 48
TAINTS: Final = 16
COUNTER_SETS: Final = 8
COUNTERS: Final = 32
CONSUMPTIONS: Final = 2
VALUE_LENGTH: Final = 64

_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_SCALARS: Final = ("bool", "int", "string", "version")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_UNSET_OR_TRUE: Final = "must be either unset or set to true"
_KEY_LENGTH: Final = 63 + 1 + 32


class SliceStrategy(WholeStrategy):
    """A slice belongs to a pool of a driver; where it is never changes."""

    def __init__(self, *, by_pool: bool) -> None:
        """``by_pool``: slices can be selected by the name of their pool, too."""
        self._by_pool = by_pool

    def stamp(self, obj: Object, now: datetime) -> None:
        """Note since when devices are tainted."""
        for device in obj["spec"].get("devices") or ():
            for taint in device.get("taints") or ():
                if not taint.get("timeAdded"):
                    taint["timeAdded"] = second_time(now)

    def default(self, obj: Object) -> None:
        """Have a spec."""
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[Cause]:
        """Check driver, pool, place and devices."""
        return _spec(obj["spec"], None)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Keep driver, pool and node."""
        return _spec(new["spec"], old["spec"])

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return what can be selected by."""
        spec = obj["spec"]
        pool = {"spec.pool.name": (spec.get("pool") or {}).get("name", "")} if self._by_pool else {}
        return {"spec.nodeName": spec.get("nodeName", ""), "spec.driver": spec.get("driver", "")} | pool

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get resourceslices`` shows."""
        spec = obj["spec"]
        return {
            "Node": spec.get("nodeName", ""),
            "Driver": spec.get("driver", ""),
            "Pool": (spec.get("pool") or {}).get("name", ""),
            "Age": columns.age(obj, now),
        }


def _spec(spec: Object, old: Object | None) -> list[Cause]:
    pool = spec.get("pool") or {}
    found = devices.driver("spec.driver", spec.get("driver", "")) + _pool(pool)
    if old is not None:
        found += causes.immutable("spec.pool.name", pool.get("name", ""), (old.get("pool") or {}).get("name", ""))
        for name in ("driver", "nodeName"):
            found += causes.immutable(f"spec.{name}", spec.get(name), old.get(name))
    found += _place(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        found.append(causes.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    return found + _devices(spec, old or {}) + _counter_sets(spec.get("sharedCounters") or [])


def _pool(pool: Object) -> list[Cause]:
    found = devices.pool("spec.pool.name", pool.get("name", ""))
    if (count := pool.get("resourceSliceCount", 0)) <= 0:
        found.append(causes.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if (generation := pool.get("generation", 0)) < 0:
        found.append(causes.invalid("spec.pool.generation", generation, "must be greater than or equal to zero"))
    return found


def _place(spec: Object) -> list[Cause]:
    found = []
    chosen = []
    node, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if node is not None:
        if node:
            chosen.append("nodeName")
            found += causes.texts("spec.nodeName", node, names.subdomain(node))
        else:
            found.append(causes.invalid("spec.nodeName", node, "must be either unset or set to a non-empty string"))
    if selector is not None:
        chosen.append("nodeSelector")
        found += node_selectors.validate("spec.nodeSelector", selector)
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            detail = "must have exactly one node selector term"
            found.append(causes.invalid("spec.nodeSelector.nodeSelectorTerms", terms or None, detail))
    for flag in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(flag):
            chosen.append(flag)
        elif spec.get(flag) is not None:
            found.append(causes.invalid(f"spec.{flag}", False, _UNSET_OR_TRUE))  # noqa: FBT003 - the value that is shown
    one = f"exactly one of {', '.join(f'`{name}`' for name in _PLACES)} is required"
    if not chosen:
        found.append(causes.required("spec", one))
    elif len(chosen) > 1:
        listed = ", ".join(f"`{name}`" for name in chosen)
        found.append(causes.invalid("spec", f"{{{listed}}}", f"{one}, but multiple fields are set"))
    return found


def _devices(spec: Object, old: Object) -> list[Cause]:
    listed = spec.get("devices") or []
    limit = ADVANCED_DEVICES if any(map(_advanced, listed)) else DEVICES
    before = {each.get("name"): each for each in old.get("devices") or ()}
    each_has_place = bool(spec.get("perDeviceNodeSelection"))
    found = causes.each(
        "spec.devices",
        listed,
        lambda at, each: _device(at, each, before.get(each.get("name")), each_has_place),
        limit=limit,
    )
    if len(listed) > limit:
        return found
    return found + causes.unique("spec.devices", listed, lambda each: each.get("name", ""))


def _advanced(device: Object) -> bool:
    attributes = (device.get("attributes") or {}).values()
    lists = any(each.get(name) is not None for each in attributes for name in _LISTS)
    return bool(device.get("taints") or device.get("consumesCounters") or lists)


def _device(path: str, device: Object, old: Object | None, has_place: bool) -> list[Cause]:  # noqa: FBT001
    found = devices.device(f"{path}.name", device.get("name", ""))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (count := len(attributes) + len(capacity)) > FACTS:
        detail = f"the total number of attributes and capacities must not exceed {FACTS}"
        found.append(causes.invalid(path, count, detail))
    values = sum(max(1, sum(len(each.get(name) or ()) for name in _LISTS)) for each in attributes.values())
    if values > VALUES:
        found.append(causes.invalid(path, values, f"the total number of attribute values must not exceed {VALUES}"))
    found += _facts(f"{path}.attributes", attributes, _attribute)
    shared = bool(device.get("allowMultipleAllocations"))
    found += _facts(f"{path}.capacity", capacity, partial(capacities.validate, shared=shared))
    if old is None or old.get("taints") != device.get("taints"):
        found += causes.each(f"{path}.taints", device.get("taints") or [], devices.taint, limit=TAINTS)
    consumed = device.get("consumesCounters") or []
    found += causes.each(f"{path}.consumesCounters", consumed, _consumption, limit=CONSUMPTIONS)
    if len(consumed) <= CONSUMPTIONS:
        found += causes.unique(f"{path}.consumesCounters", consumed, lambda each: each.get("counterSet", ""))
    return found + _device_place(path, device, has_place) + devices.binding_conditions(path, device)


def _device_place(path: str, device: Object, has_place: bool) -> list[Cause]:  # noqa: FBT001
    given = [name for name in ("nodeName", "nodeSelector", "allNodes") if device.get(name) is not None]
    if not has_place:
        if not given:
            return []
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
            "in the ResourceSlice spec"
        )
        return [causes.invalid(path, None, detail)]
    found = []
    chosen = [name for name in given if device[name] or name == "nodeSelector"]
    if "nodeName" in given:
        node = device["nodeName"]
        found += (
            causes.texts(f"{path}.nodeName", node, names.subdomain(node))
            if node
            else [causes.invalid(f"{path}.nodeName", node, "must not be empty")]
        )
    if "nodeSelector" in given:
        found += node_selectors.validate(f"{path}.nodeSelector", device["nodeSelector"])
    if "allNodes" in given and "allNodes" not in chosen:
        found.append(causes.invalid(f"{path}.allNodes", False, _UNSET_OR_TRUE))  # noqa: FBT003
    if len(chosen) == 1:
        return found
    detail = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    listed = ", ".join(f"`{name}`" for name in chosen)
    return [*found, causes.invalid(path, f"{{{listed}}}", detail) if chosen else causes.required(path, detail)]


def _facts(path: str, facts: Mapping[str, Object], check: Any) -> list[Cause]:  # noqa: ANN401 - a check of one fact
    found = []
    for name, fact in facts.items():
        found += devices.qualified_name(path, name)
        found += check(f"{path}[{_cut(name)}]", fact)
    return found


def _cut(name: str) -> str:
    if len(name) <= _KEY_LENGTH:
        return name
    kept = _KEY_LENGTH - len("...")
    return f"{name[: (kept + 1) // 2]}...{name[len(name) - kept // 2 :]}"


def _attribute(path: str, attribute: Object) -> list[Cause]:
    found = []
    for name in ("string", "version"):
        if attribute.get(name) is not None:
            found += _value(f"{path}.{name}", attribute[name], version=name == "version")
    for name in _LISTS:
        items = attribute.get(name)
        if items is None:
            continue
        if not items:
            found.append(causes.invalid(f"{path}.{name}", items, "must not be empty if specified"))
        if name in ("strings", "versions"):
            found += causes.each(f"{path}.{name}", items, partial(_value, version=name == "versions"))
    given = [name for name in (*_SCALARS, *_LISTS) if attribute.get(name) is not None]
    if len(given) != 1:
        found.append(causes.invalid(path, attribute if given else "", "exactly one value must be specified"))
    return found


def _value(path: str, text: str, *, version: bool) -> list[Cause]:
    found = causes.texts(path, text, names.semver(text)) if version else []
    return [*found, causes.too_long(path, VALUE_LENGTH)] if len(text.encode()) > VALUE_LENGTH else found


def _counter_sets(sets: list[Object]) -> list[Cause]:
    found = causes.each("spec.sharedCounters", sets, partial(_counters, named="name"), limit=COUNTER_SETS)
    if len(sets) > COUNTER_SETS:
        return found
    return found + causes.unique("spec.sharedCounters", sets, lambda each: each.get("name", ""))


def _consumption(path: str, consumption: Object) -> list[Cause]:
    return _counters(path, consumption, named="counterSet")


def _counters(path: str, holder: Object, *, named: str) -> list[Cause]:
    name, counters = holder.get(named, ""), holder.get("counters") or {}
    found = causes.texts(f"{path}.{named}", name, names.label(name)) if name else [causes.required(f"{path}.{named}")]
    if not counters:
        found.append(causes.required(f"{path}.counters"))
    elif len(counters) > COUNTERS:
        found.append(causes.too_many(f"{path}.counters", len(counters), COUNTERS))
    else:
        for key in counters:
            found += causes.texts(f"{path}.counters", key, names.label(key))
    return found


def kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kind as a version of Kubernetes has it."""
    return (
        Kind(
            group="resource.k8s.io",
            plural="resourceslices",
            name="ResourceSlice",
            namespaced=False,
            subresources=(),
            strategy=SliceStrategy(by_pool=traits.slices_by_pool),
            columns=(columns.NAME, *columns.plain("Node", "Driver", "Pool"), columns.AGE),
        ),
    )
