"""The CPU topology of a machine: sockets, NUMA nodes, L3 caches, cores and threads.

A *CPU* is a hardware thread, as the kernel numbers it. Only CPUs that are online have a place; of offline CPUs, only
the numbers are known. Core and L3 numbers here are unique on the machine, and cores are numbered socket by socket. (The
kernel numbers them separately in every socket; `Cpu.core_id` keeps the kernel's number for display.)

The tree is socket → NUMA node → core → thread, with one exception on real machines: with interleaved memory, one NUMA
node spans the sockets. A *domain*, the part of a NUMA node in one socket, is therefore the unit of locality.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import gcd
from typing import TypeAlias, TypeVar

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.model.meta import Struct


class InvalidTopologyError(ValueError):
    """A description that no machine can have."""


class CoreType(StrEnum):
    """The purpose of a core's design; values are those of the attribute that other CPU drivers publish."""

    STANDARD = "standard"  # all cores of the machine are alike
    PERFORMANCE = "p-core"
    EFFICIENCY = "e-core"


class Cpu(Struct, frozen=True):
    """A CPU that is online, with its place in the topology."""

    id: int
    core: int
    numa_node: int
    socket: int
    core_id: int = 0
    l3: int | None = None
    """None: the kernel does not report an L3 cache (many virtual and ARM machines)."""
    core_type: CoreType = CoreType.STANDARD

    @property
    def domain(self) -> "NumaDomain":
        """The part of the CPU's NUMA node that lies in the CPU's socket."""
        return (self.numa_node, self.socket)


NumaDomain: TypeAlias = tuple[int, int]
"""A pair of NUMA node and socket."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class CpuTopology:
    """The CPUs of one machine with their places."""

    cpus: tuple[Cpu, ...]
    offline: CpuSet = NO_CPUS
    isolated: CpuSet = NO_CPUS
    """CPUs outside the kernel's load balancing (``isolcpus``): threads stay on the CPU where they are placed."""
    memory_only_numa_nodes: tuple[int, ...] = ()
    """NUMA nodes without a CPU: CXL memory, high-bandwidth memory, accelerators' memory."""

    def __post_init__(self) -> None:
        if not self.cpus:
            raise InvalidTopologyError("CPU topology: no CPU is online")
        if len(self.online) != len(self.cpus):
            raise InvalidTopologyError("CPU topology: a CPU is described twice")
        if both := self.online & self.offline:
            raise InvalidTopologyError(f"CPU topology: CPUs {both} are both online and offline")
        if unknown := self.isolated - self.online - self.offline:
            raise InvalidTopologyError(f"CPU topology: CPUs {unknown} are isolated, but neither online nor offline")
        if wrong := set(self.memory_only_numa_nodes) & set(self.numa_nodes):
            raise InvalidTopologyError(
                f"CPU topology: NUMA nodes {sorted(wrong)} are listed as memory-only, but have CPUs"
            )
        self._check_same("core", lambda c: c.core, within="socket", of=lambda c: c.socket)
        self._check_same("core", lambda c: c.core, within="NUMA node", of=lambda c: c.numa_node)
        self._check_same("core", lambda c: c.core, within="L3 cache", of=lambda c: c.l3)
        self._check_same("core", lambda c: c.core, within="type of core", of=lambda c: c.core_type)
        self._check_same("L3 cache", lambda c: c.l3, within="socket", of=lambda c: c.socket)

    def _check_same(
        self, what: str, key: Callable[[Cpu], int | None], *, within: str, of: Callable[[Cpu], Hashable]
    ) -> None:
        seen: dict[int, Cpu] = {}
        for cpu in self.cpus:
            if (number := key(cpu)) is None:
                continue
            first = seen.setdefault(number, cpu)
            if of(first) != of(cpu):
                raise InvalidTopologyError(
                    f"CPU topology: CPUs {first.id} and {cpu.id} share {what} {number}, "
                    f"but not their {within} ({of(first)} and {of(cpu)})"
                )

    @cached_property
    def online(self) -> CpuSet:
        """All CPUs that are online."""
        return CpuSet(c.id for c in self.cpus)

    @cached_property
    def by_id(self) -> Mapping[int, Cpu]:
        """CPU number → CPU, for all online CPUs."""
        return {c.id: c for c in self.cpus}

    @cached_property
    def cores(self) -> Mapping[int, CpuSet]:
        """Core → the CPUs of the core."""
        return self._grouped(lambda c: c.core)

    @cached_property
    def numa_nodes(self) -> Mapping[int, CpuSet]:
        """NUMA node → the CPUs of the node, without nodes that have no CPU."""
        return self._grouped(lambda c: c.numa_node)

    @cached_property
    def sockets(self) -> Mapping[int, CpuSet]:
        """Socket → the CPUs of the socket."""
        return self._grouped(lambda c: c.socket)

    @cached_property
    def domains(self) -> Mapping[NumaDomain, CpuSet]:
        """Part of a NUMA node in a socket → the CPUs of that part."""
        return self._grouped(lambda c: c.domain)

    @cached_property
    def caches(self) -> Mapping[int, CpuSet]:
        """L3 cache → the CPUs that share the cache, without CPUs whose cache is not known."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for cpu in self.cpus:
            if cpu.l3 is not None:
                groups[cpu.l3].append(cpu.id)
        return {cache: CpuSet(groups[cache]) for cache in sorted(groups)}

    @cached_property
    def housekeeping(self) -> CpuSet:
        """The online CPUs that are not isolated; all online CPUs if all are isolated."""
        return self.online - self.isolated or self.online

    @cached_property
    def threads_per_core(self) -> int:
        """The largest number of online threads of a core."""
        return max(map(len, self.cores.values()))

    @cached_property
    def whole_core_step(self) -> int:
        """The number that divides every count of CPUs made of whole cores: 2 if every core has two threads online."""
        return gcd(*map(len, self.cores.values()))

    @cached_property
    def has_equal_cores(self) -> bool:
        """Whether all cores have the same number of online threads."""
        return self.threads_per_core == self.whole_core_step

    def core_sizes(self, cpus: AbstractSet[int]) -> tuple[int, ...]:
        """Return how many CPUs of a set each core has that has any."""
        return tuple(Counter(self.by_id[cpu].core for cpu in cpus).values())

    def whole_cores(self, cpus: AbstractSet[int]) -> CpuSet:
        """Return the CPUs whose core is in the given set with all its online threads."""
        given = CpuSet(cpus)
        return CpuSet(
            c for core in {self.by_id[c].core for c in given} if (all_of := self.cores[core]) <= given for c in all_of
        )

    def _grouped(self, key: Callable[[Cpu], K]) -> dict[K, CpuSet]:
        groups: defaultdict[K, list[int]] = defaultdict(list)
        for cpu in self.cpus:
            groups[key(cpu)].append(cpu.id)
        return {k: CpuSet(groups[k]) for k in sorted(groups)}  # type: ignore[type-var]  # all keys are numbers or pairs
