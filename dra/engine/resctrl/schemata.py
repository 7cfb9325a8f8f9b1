"""Text of ``schemata`` files: what a control group may use of each resource, by domain.

::

        MB:0=2048;1=  48
        L3:0=00f;1=00f
      SMBA:0=2048;1=2048

The kernel pads names and numbers, and lists resources in any order. Domains are those that the machine has: on AMD's
their ids may be 0-7 and 16-23. A write changes the domains that it names and no others, so a line is written with the
domains that differ, and lines of other resources are never written.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias


class SchemataError(ValueError):
    """A ``schemata`` file is not in the kernel's form; the text names the line."""


class SchemataResource(StrEnum):
    """A resource that is divided; mounts with the option ``cdp`` have L3CODE and L3DATA in place of L3."""

    L3 = "L3"
    L3_CODE = "L3CODE"
    L3_DATA = "L3DATA"
    MB = "MB"


CACHES = (SchemataResource.L3, SchemataResource.L3_CODE, SchemataResource.L3_DATA)
"""The resources whose numbers are masks of cache ways, in hexadecimal digits."""

Domains: TypeAlias = Mapping[int, int]
"""Numbers by the id of a domain."""

Schemata: TypeAlias = Mapping[SchemataResource, Domains]


def parse_schemata(text: str) -> Schemata:
    """Return the lines of the resources that are divided; raises SchemataError. Other lines are not looked at."""
    lines = (line.partition(":") for line in text.splitlines())
    known = {resource.value: resource for resource in SchemataResource}
    return {
        known[name.strip()]: _parse_domains(rest, resource=known[name.strip()])
        for name, _, rest in lines
        if name.strip() in known
    }


def print_line(resource: SchemataResource, domains: Domains) -> str:
    """Return the line that sets numbers of domains, with the line feed without which the kernel refuses it."""
    numbers = (f"{domain}={_print_number(number, resource)}" for domain, number in sorted(domains.items()))
    return f"{resource}:{';'.join(numbers)}\n"


def changed_domains(current: Domains, number: int) -> Domains:
    """Return the domains that have another number, with the wanted one."""
    return {domain: number for domain, present in current.items() if present != number}


def _parse_domains(text: str, *, resource: SchemataResource) -> Domains:
    try:
        pairs = [part.split("=") for part in text.strip().strip(";").split(";")]
        return {int(domain): int(number, 16 if resource in CACHES else 10) for domain, number in pairs}
    except ValueError as error:
        raise SchemataError(f"line {resource}:{text.strip()[:80]!r} has no number for a domain") from error


def _print_number(number: int, resource: SchemataResource) -> str:
    return f"{number:x}" if resource in CACHES else str(number)
