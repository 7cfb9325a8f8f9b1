"""What an API server takes as a device, checked before it is asked.

A slice is refused as a whole, with an index in place of a name, and only after the pool's other slices were written.
So whatever can be known here is said here, by the device's name. The numbers are those of resource.k8s.io/v1 as of 1.36
(specs/dra-upstream.md §8); a pool that keeps them is taken by 1.34, too.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dra.model import quantities
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.contract import Pool

DRIVER_LENGTH: Final = 63
POOL_LENGTH: Final = 253
LABEL_LENGTH: Final = 63
DOMAIN_LENGTH: Final = 63
IDENTIFIER_LENGTH: Final = 32
TEXT_LENGTH: Final = 64
FACTS: Final = 32
"""Attributes and capacities of a device together."""
VALUES: Final = 48
"""Attribute values of a device, those of lists counted one by one."""
TAINTS: Final = 16
CONSUMPTIONS: Final = 2
COUNTERS: Final = 32
CONDITIONS: Final = 4
SHOWN: Final = 5
"""Problems that one error names; the first is as a rule the cause of all."""

EFFECTS: Final = ("NoSchedule", "NoExecute", "None")
SCALARS: Final = {"bool": bool, "int": int, "string": str, "version": str}
LISTS: Final = {"bools": bool, "ints": int, "strings": str, "versions": str}

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
    """A pool that no API server takes; the text names pool, device and field."""


def check(pool: Pool, *, driver: str) -> None:
    """Return if the pool can be published; else raise MalformedPoolError."""
    found = [*_of_pool(pool, driver), *(text for device in pool.devices for text in _of_device(device))]
    if not found:
        return
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise MalformedPoolError(f"pool {pool.name[:POOL_LENGTH]} of {driver}: {'; '.join(found[:SHOWN])}{more}")


def _of_pool(pool: Pool, driver: str) -> Iterator[str]:
    if len(driver) > DRIVER_LENGTH or not _IS_SUBDOMAIN.fullmatch(driver):
        yield f"driver: {driver!r} is not a DNS subdomain of at most {DRIVER_LENGTH} characters"
    if len(pool.name) > POOL_LENGTH or not _IS_POOL.fullmatch(pool.name):
        yield f"name: must be DNS subdomains, separated by '/', of at most {POOL_LENGTH} characters together"
    twice = [name for name, count in Counter(device.name for device in pool.devices).items() if count > 1]
    for name in twice:
        yield f"device {name}: name: there are several of this name"


def _of_device(device: Device) -> Iterator[str]:
    for field, text in _problems(device):
        yield f"device {device.name[:LABEL_LENGTH]}: {field}: {text}"


def _problems(device: Device) -> Iterator[tuple[str, str]]:
    """Yield field and problem."""
    if len(device.name) > LABEL_LENGTH or not _IS_LABEL.fullmatch(device.name):
        yield "name", f"must be a DNS label of at most {LABEL_LENGTH} characters"
    attributes, capacity = device.attributes or {}, device.capacity or {}
    if (count := len(attributes) + len(capacity)) > FACTS:
        yield "attributes", f"{count} attributes and capacities, at most {FACTS} are allowed"
    if (count := sum(map(_values, attributes.values()))) > VALUES:
        yield "attributes", f"{count} values, at most {VALUES} are allowed"
    for name, value in attributes.items():
        yield from _of_name(f"attributes[{name}]", name)
        yield from _of_attribute(f"attributes[{name}]", value)
    for name, value in capacity.items():
        yield from _of_name(f"capacity[{name}]", name)
        yield from _of_capacity(f"capacity[{name}]", value)
    yield from _of_taints(device.taints or ())
    yield from _of_consumptions(device.consumes_counters or ())
    for field in ("binding_conditions", "binding_failure_conditions"):
        if (count := len(getattr(device, field) or ())) > CONDITIONS:
            yield field, f"{count} conditions, at most {CONDITIONS} are allowed"


def _values(attribute: Mapping[str, Any]) -> int:
    return max(1, sum(len(attribute.get(name) or ()) for name in LISTS))


def _of_name(field: str, name: str) -> Iterator[tuple[str, str]]:
    domain, slash, identifier = name.rpartition("/")
    if slash and (len(domain) > DOMAIN_LENGTH or not _IS_SUBDOMAIN.fullmatch(domain)):
        yield field, f"{domain!r} is not a DNS subdomain of at most {DOMAIN_LENGTH} characters"
    if len(identifier) > IDENTIFIER_LENGTH or not _IS_IDENTIFIER.fullmatch(identifier):
        yield field, f"{identifier!r} is not an identifier (letters, digits, _) of at most {IDENTIFIER_LENGTH}"


def _of_attribute(field: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    types = SCALARS | LISTS
    given = [name for name in types if value.get(name) is not None]
    if len(given) != 1 or len(value) != 1:
        yield field, f"must have exactly one of {', '.join(types)}; it has {', '.join(value) or 'none'}"
        return
    (name,) = given
    several = name in LISTS
    for each in value[name] if several else [value[name]]:
        if type(each) is not types[name]:
            yield f"{field}.{name}", f"{each!r} is of another type"
        elif isinstance(each, str) and len(each.encode()) > TEXT_LENGTH:
            yield f"{field}.{name}", f"{each[:TEXT_LENGTH]!r}…: at most {TEXT_LENGTH} bytes are allowed"
        elif name.startswith("version") and not _IS_SEMVER.fullmatch(str(each)):
            yield f"{field}.{name}", f"{each!r} is not a semantic version such as 1.2.3"
    if several and not value[name]:
        yield f"{field}.{name}", "must not be empty"


def _of_capacity(field: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "value" not in value:
        yield field, "has no value"
        return
    try:
        quantities.parse(value["value"])
    except quantities.MalformedQuantityError as error:
        yield f"{field}.value", str(error)


def _of_taints(taints: Iterable[DeviceTaint]) -> Iterator[tuple[str, str]]:
    listed = list(taints)
    if len(listed) > TAINTS:
        yield "taints", f"{len(listed)} taints, at most {TAINTS} are allowed"
    for at, taint in enumerate(listed):
        if not _IS_KEY.fullmatch(taint.key):
            yield f"taints[{at}].key", f"{taint.key!r} is not a qualified name such as example.com/unhealthy"
        if taint.effect not in EFFECTS:
            yield f"taints[{at}].effect", f"{taint.effect!r} is none of {', '.join(EFFECTS)}"


def _of_consumptions(consumptions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    listed = list(consumptions)
    if len(listed) > CONSUMPTIONS:
        yield "consumesCounters", f"{len(listed)} counter sets, at most {CONSUMPTIONS} are allowed"
    for at, consumption in enumerate(listed):
        if (count := len(consumption.get("counters") or ())) > COUNTERS:
            yield f"consumesCounters[{at}]", f"{count} counters, at most {COUNTERS} are allowed"
