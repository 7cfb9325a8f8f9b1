"""What a selector reads of a device, so that alike devices are asked about once.

Nodes of one kind offer thousands of devices that differ in names and uuids, and selectors ask for products and
capacities. An expression whose reads of ``device`` are all spelled out (``device.attributes["gpu.example.com"].model``)
has one answer for all devices with the same values there.
"""

import re
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple

from dra.model.slices import Device

DRIVER: Final = "driver"
ALLOW_MULTIPLE_ALLOCATIONS: Final = "allowMultipleAllocations"


class SelectorField(NamedTuple):
    """One thing that an expression reads."""

    of: str
    """``driver``, ``allowMultipleAllocations``, ``attributes`` or ``capacity``."""

    domain: str = ""
    name: str | None = None
    """None: any name of the domain, or whether there is one."""


# A token that concerns us: a path that is spelled out, a string, or any identifier. What follows a name and an opening
# parenthesis is a function of the whole map.
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
"""Escapes, long strings and comments: an expression that has one is not analysed."""


def fields_read(expression: str) -> frozenset[SelectorField] | None:
    """Return all that an expression can read of ``device``; None where that cannot be told."""
    if any(sign in expression for sign in _UNANALYSED):
        return None
    found = set()
    for token in _TOKEN.finditer(expression):
        if token["plain"]:
            found.add(SelectorField(token["plain"]))
        elif token["of"]:
            found.add(SelectorField(token["of"], token["domain"], token["name"]))
        elif token["identifier"] == "device":
            return None
    return frozenset(found)


def project_device(wanted: frozenset[SelectorField], driver: str, device: Device) -> Hashable:
    """Return what is read of a device as the API has it: devices for which it is equal cannot be told apart."""
    return tuple(_field_value(read, driver, device) for read in wanted)


def _field_value(read: SelectorField, driver: str, device: Device) -> Hashable:
    if read.of == DRIVER:
        return driver
    if read.of == ALLOW_MULTIPLE_ALLOCATIONS:
        return device.allow_multiple_allocations
    named: Mapping[str, Any] = (device.attributes if read.of == "attributes" else device.capacity) or {}
    own = read.domain == driver  # names without a domain are in the driver's
    if read.name is not None:
        return repr((named.get(f"{read.domain}/{read.name}"), named.get(read.name) if own else None))
    prefix = f"{read.domain}/"
    return repr([each for each in named.items() if each[0].startswith(prefix) or (own and "/" not in each[0])])
