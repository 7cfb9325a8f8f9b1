"""Sets of CPUs, and the kernel's list format for them: ``0-3,8``.

One format serves sysfs, cgroups, kubelet configuration, annotations and messages. Written lists are always sorted and
joined (``0-1,4``); lists to be parsed may be unsorted and overlapping. Parsing is strict: a reversed range or a stray
character would silently stand for other CPUs than the writer intended.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

MAX_CPU: Final = 8191
"""The greatest number that a CPU can have: Linux is built for at most 8192 CPUs."""


class MalformedCpuListError(ValueError):
    """A text that is no list of CPUs."""

    def __init__(self, text: str, *, part: str, problem: str) -> None:
        super().__init__(f"CPU list {text!r}: {part!r} {problem}; write numbers and ranges such as 0-3,8")


class CpuSet(AbstractSet[int]):
    """An immutable set of CPU numbers; iterates in ascending order, prints as a list.

    >>> str(CpuSet([8, 0, 1]) | parse("2-3"))
    '0-3,8'
    """

    __slots__ = ("_cpus",)

    _cpus: frozenset[int]

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        self._cpus = frozenset(cpus)
        for cpu in self._cpus:
            if not 0 <= cpu <= MAX_CPU:
                raise ValueError(f"CPU {cpu}: CPUs have numbers from 0 to {MAX_CPU}")

    def __contains__(self, cpu: object) -> bool:
        return cpu in self._cpus

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._cpus))

    def __len__(self) -> int:
        return len(self._cpus)

    def __hash__(self) -> int:
        return self._hash()

    def __eq__(self, other: object) -> bool:
        return self._cpus == (other._cpus if isinstance(other, CpuSet) else other)

    def __and__(self, other: AbstractSet[Any]) -> "CpuSet":
        return CpuSet(self._cpus & frozenset(other))

    def __or__(self, other: AbstractSet[int]) -> "CpuSet":  # type: ignore[override]  # CPUs with CPUs only
        return CpuSet(self._cpus | frozenset(other))

    def __sub__(self, other: AbstractSet[Any]) -> "CpuSet":
        return CpuSet(self._cpus - frozenset(other))

    def __str__(self) -> str:
        return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in _ranges(self))

    def __repr__(self) -> str:
        return f"CpuSet({str(self)!r})"


NO_CPUS: Final = CpuSet()


def parse(text: str) -> CpuSet:
    """Return the CPUs of a list; an empty list (a kernel file with only a newline) has no CPUs."""
    stripped = text.strip()
    if not stripped:
        return NO_CPUS
    cpus: set[int] = set()
    for part in stripped.split(","):
        first, dash, last = part.partition("-")
        low = _parse_cpu(first, part=part, text=text)
        high = _parse_cpu(last, part=part, text=text) if dash else low
        if low > high:
            raise MalformedCpuListError(text, part=part, problem="runs backwards")
        cpus.update(range(low, high + 1))
    return CpuSet(cpus)


def _parse_cpu(digits: str, *, part: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise MalformedCpuListError(text, part=part, problem="is neither a CPU number nor a range")
    if len(digits) > len(str(MAX_CPU)) + 4 or int(digits) > MAX_CPU:  # a few leading zeros, but no endless number
        raise MalformedCpuListError(text, part=part, problem=f"is beyond the greatest CPU number, {MAX_CPU}")
    return int(digits)


def _ranges(cpus: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for cpu in cpus:
        if first >= 0 and cpu == last + 1:
            last = cpu
            continue
        if first >= 0:
            yield first, last
        first = last = cpu
    if first >= 0:
        yield first, last
