"""What CPUs are chosen from: a machine, what may be given out of it, and who has CPUs already."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from dra.engine.cpus.binding import BindPolicy, Exclusivity, Strategy
from dra.engine.cpus.cpusets import CpuSet
from dra.engine.cpus.topology import Topology
from dra.model.meta import Struct


class Holding(Struct, frozen=True):
    """CPUs that somebody has."""

    cpus: CpuSet
    exclusivity: Exclusivity = Exclusivity.NONE


class Request(Struct, frozen=True):
    """CPUs that somebody wants."""

    count: int
    policy: BindPolicy = BindPolicy.FULL_PCPUS
    required: bool = False
    """Whether the policy must hold; else it gives way where it cannot."""
    exclusivity: Exclusivity = Exclusivity.NONE
    strategy: Strategy = Strategy.MOST_ALLOCATED

    def of(self, count: int) -> "Request":
        """Return the same request for another number of CPUs."""
        return msgspec.structs.replace(self, count=count)


@dataclass(frozen=True, kw_only=True)
class Room:
    """A machine at one moment."""

    topology: Topology
    allocatable: CpuSet
    """What may be given at all: without CPUs reserved for the system, or those somebody else manages."""
    holdings: tuple[Holding, ...] = ()
    max_holders: int = 1
    """How many may have the same CPU."""

    @cached_property
    def holders(self) -> Mapping[int, int]:
        """CPU → how many have it."""
        return Counter(cpu for holding in self.holdings for cpu in holding.cpus)

    @cached_property
    def available(self) -> CpuSet:
        """What can be given now."""
        online = self.allocatable & self.topology.online
        return CpuSet(cpu for cpu in online if self.holders.get(cpu, 0) < self.max_holders)

    def within(self, cpus: CpuSet) -> "Room":
        """Return the room when only these may be given."""
        return dataclasses.replace(self, allocatable=self.allocatable & cpus)

    def repelled(self, exclusivity: Exclusivity) -> CpuSet:
        """Return the CPUs from which a request of that kind keeps away: they are near to holders of the same kind."""
        held = [
            self.topology.by_id[cpu]
            for holding in self.holdings
            if holding.exclusivity is exclusivity
            for cpu in holding.cpus & self.topology.online
        ]
        if exclusivity is Exclusivity.PCPU_LEVEL:
            return CpuSet(cpu for core in {c.core for c in held} for cpu in self.topology.cores[core])
        if exclusivity is Exclusivity.NUMA_NODE_LEVEL:
            return CpuSet(cpu for node in {c.numa for c in held} for cpu in self.topology.nodes[node])
        return CpuSet()
