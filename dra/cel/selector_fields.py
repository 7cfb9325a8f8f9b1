"""The fields of a device that a selector reads, so that equal devices are evaluated only once.

Nodes of one kind have thousands of devices that differ in names and UUIDs, while selectors read products and
capacities. An expression that spells out all its reads of ``device`` (``device.attributes["gpu.example.com"].model``)
has one result for all devices with the same values in these fields.
"""

import re
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple

from dra.model.slices import Device

DRIVER: Final = "driver"
ALLOW_MULTIPLE_ALLOCATIONS: Final = "allowMultipleAllocations"


class SelectorField(NamedTuple):
    """One field, or one domain of fields, that an expression reads."""

    kind: str
    """``driver``, ``allowMultipleAllocations``, ``attributes`` or ``capacity``."""

    domain: str = ""
    name: str | None = None
    """Name of the attribute or capacity; None: any name of the domain, or whether the domain has one."""


# A relevant token: a path that is spelled out, a string, or any identifier. A name before an opening parenthesis is a
# function of the whole map.
_TOKEN: Final = re.compile(
    r"""
    (?<![.\w]) device \s*\.\s* (?:
        (?P<plain> driver | allowMultipleAllocations ) \b
      | (?P<of> attributes | capacity ) \s*\[\s* (?P<quote> ["'] ) (?P<domain> [^"'\n]* ) (?P=quote) \s*\]
        (?: \s*\.\s* (?P<name> [A-Za-z_]\w* ) \b (?! \s*\( ) )?
    )
  | "[^"\n]*" | '[^'\n]*'
  | (?P<identifier> [A-Za-z_]\w* )
    """,
    re.VERBOSE,
)

_UNANALYSED: Final = ("\\", '"""', "'''", "//")
"""Escapes, long strings and comments: an expression with one of them is not analysed."""


def fields_read(expression: str) -> frozenset[SelectorField] | None:
    """Return all fields of ``device`` that an expression can read; None if the expression cannot be analysed."""
    if any(sign in expression for sign in _UNANALYSED):
        return None
    fields = set()
    for token in _TOKEN.finditer(expression):
        if token["plain"]:
            fields.add(SelectorField(token["plain"]))
        elif token["of"]:
            fields.add(SelectorField(token["of"], token["domain"], token["name"]))
        elif token["identifier"] == "device":
            return None
    return frozenset(fields)


def project_device(wanted: frozenset[SelectorField], driver: str, device: Device) -> Hashable:
    """Return the API's values of the given fields; a selector cannot distinguish devices with equal values."""
    return tuple(_field_value(read, driver, device) for read in wanted)


def _field_value(read: SelectorField, driver: str, device: Device) -> Hashable:
    if read.kind == DRIVER:
        return driver
    if read.kind == ALLOW_MULTIPLE_ALLOCATIONS:
        return device.allow_multiple_allocations
    named: Mapping[str, Any] = (device.attributes if read.kind == "attributes" else device.capacity) or {}
    own = read.domain == driver  # names without a domain belong to the driver's domain
    if read.name is not None:
        return repr((named.get(f"{read.domain}/{read.name}"), named.get(read.name) if own else None))
    prefix = f"{read.domain}/"
    return repr([pair for pair in named.items() if pair[0].startswith(prefix) or (own and "/" not in pair[0])])
