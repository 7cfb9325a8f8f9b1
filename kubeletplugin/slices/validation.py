"""Validation of pools against the API server's rules for devices, before the ResourceSlices are written.

An API server refuses a slice as a whole, with an index in place of a name, and possibly after the pool's other slices
were written. So all rules that can be checked here are checked here, with the device's name in the error. The limits
are those of resource.k8s.io/v1 as of 1.36; API servers of 1.34 also accept a pool within these limits.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dra.model import quantities
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.contract import Pool

MAX_DRIVER_NAME_LENGTH: Final = 63
MAX_POOL_NAME_LENGTH: Final = 253
MAX_LABEL_LENGTH: Final = 63
MAX_DOMAIN_LENGTH: Final = 63
MAX_IDENTIFIER_LENGTH: Final = 32
MAX_ATTRIBUTE_VALUE_LENGTH: Final = 64
MAX_ATTRIBUTES_AND_CAPACITIES: Final = 32
"""Maximum number of attributes and capacities of a device together."""
MAX_ATTRIBUTE_VALUES: Final = 48
"""Maximum number of attribute values of a device; each value of a list counts."""
MAX_TAINTS: Final = 16
MAX_COUNTER_CONSUMPTIONS: Final = 2
MAX_COUNTERS: Final = 32
MAX_BINDING_CONDITIONS: Final = 4
MAX_PROBLEMS_SHOWN: Final = 5
"""Maximum number of problems that one error names; the first is usually the cause of all."""

TAINT_EFFECTS: Final = ("NoSchedule", "NoExecute", "None")
SCALAR_TYPES: Final = {"bool": bool, "int": int, "string": str, "version": str}
LIST_TYPES: Final = {"bools": bool, "ints": int, "strings": str, "versions": str}

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_IS_LABEL: Final = re.compile(_LABEL)
_IS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_IS_POOL: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*(?:/{_LABEL}(?:\.{_LABEL})*)*")
_IS_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_IS_KEY: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")
_PART: Final = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_IS_SEMVER: Final = re.compile(
    rf"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){{2}}(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


class MalformedPoolError(ValueError):
    """A pool is invalid for every API server; the text names pool, device and field."""


def validate_pool(pool: Pool, *, driver: str) -> None:
    """Raise MalformedPoolError unless the pool can be published."""
    problems = [*_pool_problems(pool, driver), *(text for device in pool.devices for text in _device_problems(device))]
    if not problems:
        return
    more = f"; and {len(problems) - MAX_PROBLEMS_SHOWN} more" if len(problems) > MAX_PROBLEMS_SHOWN else ""
    raise MalformedPoolError(
        f"pool {pool.name[:MAX_POOL_NAME_LENGTH]} of {driver}: {'; '.join(problems[:MAX_PROBLEMS_SHOWN])}{more}"
    )


def _pool_problems(pool: Pool, driver: str) -> Iterator[str]:
    if len(driver) > MAX_DRIVER_NAME_LENGTH or not _IS_SUBDOMAIN.fullmatch(driver):
        yield f"driver: {driver!r} is not a DNS subdomain of at most {MAX_DRIVER_NAME_LENGTH} characters"
    if len(pool.name) > MAX_POOL_NAME_LENGTH or not _IS_POOL.fullmatch(pool.name):
        yield f"name: must be DNS subdomains, separated by '/', of at most {MAX_POOL_NAME_LENGTH} characters together"
    twice = [name for name, count in Counter(device.name for device in pool.devices).items() if count > 1]
    for name in twice:
        yield f"device {name}: name: is not unique"


def _device_problems(device: Device) -> Iterator[str]:
    for field, text in _field_problems(device):
        yield f"device {device.name[:MAX_LABEL_LENGTH]}: {field}: {text}"


def _field_problems(device: Device) -> Iterator[tuple[str, str]]:
    """Yield the problems of a device, each with its field."""
    if len(device.name) > MAX_LABEL_LENGTH or not _IS_LABEL.fullmatch(device.name):
        yield "name", f"must be a DNS label of at most {MAX_LABEL_LENGTH} characters"
    attributes, capacity = device.attributes or {}, device.capacity or {}
    if (count := len(attributes) + len(capacity)) > MAX_ATTRIBUTES_AND_CAPACITIES:
        yield "attributes", f"{count} attributes and capacities, at most {MAX_ATTRIBUTES_AND_CAPACITIES} are allowed"
    if (count := sum(map(_count_values, attributes.values()))) > MAX_ATTRIBUTE_VALUES:
        yield "attributes", f"{count} values, at most {MAX_ATTRIBUTE_VALUES} are allowed"
    for name, value in attributes.items():
        yield from _name_problems(f"attributes[{name}]", name)
        yield from _attribute_problems(f"attributes[{name}]", value)
    for name, value in capacity.items():
        yield from _name_problems(f"capacity[{name}]", name)
        yield from _capacity_problems(f"capacity[{name}]", value)
    yield from _taint_problems(device.taints or ())
    yield from _consumption_problems(device.consumes_counters or ())
    for field in ("binding_conditions", "binding_failure_conditions"):
        if (count := len(getattr(device, field) or ())) > MAX_BINDING_CONDITIONS:
            yield field, f"{count} conditions, at most {MAX_BINDING_CONDITIONS} are allowed"


def _count_values(attribute: Mapping[str, Any]) -> int:
    return max(1, sum(len(attribute.get(name) or ()) for name in LIST_TYPES))


def _name_problems(field: str, name: str) -> Iterator[tuple[str, str]]:
    domain, slash, identifier = name.rpartition("/")
    if slash and (len(domain) > MAX_DOMAIN_LENGTH or not _IS_SUBDOMAIN.fullmatch(domain)):
        yield field, f"{domain!r} is not a DNS subdomain of at most {MAX_DOMAIN_LENGTH} characters"
    if len(identifier) > MAX_IDENTIFIER_LENGTH or not _IS_IDENTIFIER.fullmatch(identifier):
        yield field, f"{identifier!r} is not an identifier (letters, digits, _) of at most {MAX_IDENTIFIER_LENGTH}"


def _attribute_problems(field: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    types = SCALAR_TYPES | LIST_TYPES
    given = [name for name in types if value.get(name) is not None]
    if len(given) != 1 or len(value) != 1:
        yield field, f"must have exactly one of {', '.join(types)}; it has {', '.join(value) or 'none'}"
        return
    (name,) = given
    several = name in LIST_TYPES
    for single in value[name] if several else [value[name]]:
        if type(single) is not types[name]:
            yield f"{field}.{name}", f"{single!r} has the wrong type"
        elif isinstance(single, str) and len(single.encode()) > MAX_ATTRIBUTE_VALUE_LENGTH:
            yield (
                f"{field}.{name}",
                f"{single[:MAX_ATTRIBUTE_VALUE_LENGTH]!r}…: at most {MAX_ATTRIBUTE_VALUE_LENGTH} bytes are allowed",
            )
        elif name.startswith("version") and not _IS_SEMVER.fullmatch(str(single)):
            yield f"{field}.{name}", f"{single!r} is not a semantic version such as 1.2.3"
    if several and not value[name]:
        yield f"{field}.{name}", "must not be empty"


def _capacity_problems(field: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "value" not in value:
        yield field, "has no value"
        return
    try:
        quantities.parse(value["value"])
    except quantities.MalformedQuantityError as error:
        yield f"{field}.value", str(error)


def _taint_problems(taints: Iterable[DeviceTaint]) -> Iterator[tuple[str, str]]:
    listed = list(taints)
    if len(listed) > MAX_TAINTS:
        yield "taints", f"{len(listed)} taints, at most {MAX_TAINTS} are allowed"
    for at, taint in enumerate(listed):
        if not _IS_KEY.fullmatch(taint.key):
            yield f"taints[{at}].key", f"{taint.key!r} is not a qualified name such as example.com/unhealthy"
        if taint.effect not in TAINT_EFFECTS:
            yield f"taints[{at}].effect", f"{taint.effect!r} is none of {', '.join(TAINT_EFFECTS)}"


def _consumption_problems(consumptions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    listed = list(consumptions)
    if len(listed) > MAX_COUNTER_CONSUMPTIONS:
        yield "consumesCounters", f"{len(listed)} counter sets, at most {MAX_COUNTER_CONSUMPTIONS} are allowed"
    for at, consumption in enumerate(listed):
        if (count := len(consumption.get("counters") or ())) > MAX_COUNTERS:
            yield f"consumesCounters[{at}]", f"{count} counters, at most {MAX_COUNTERS} are allowed"
