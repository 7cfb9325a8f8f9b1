"""What CPUs are chosen from: a machine, what may be given out of it, and who has CPUs already."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from dra.engine.cpus.bind_policies import CpuBindPolicy, CpuExclusivePolicy, NumaAllocateStrategy
from dra.engine.cpus.cpusets import CpuSet
from dra.engine.cpus.topology import CpuTopology
from dra.model.meta import Struct


class CpuAllocation(Struct, frozen=True):
    """CPUs that somebody has."""

    cpus: CpuSet
    exclusivity: CpuExclusivePolicy = CpuExclusivePolicy.NONE


class CpuRequest(Struct, frozen=True):
    """CPUs that somebody wants."""

    count: int
    policy: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS
    required: bool = False
    """Whether the policy must hold; else it gives way where it cannot."""
    exclusivity: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    strategy: NumaAllocateStrategy = NumaAllocateStrategy.MOST_ALLOCATED

    def of(self, count: int) -> "CpuRequest":
        """Return the same request for another number of CPUs."""
        return msgspec.structs.replace(self, count=count)


@dataclass(frozen=True, kw_only=True)
class CpuSnapshot:
    """A machine at one moment."""

    topology: CpuTopology
    allocatable: CpuSet
    """What may be given at all: without CPUs reserved for the system, or those somebody else manages."""
    holdings: tuple[CpuAllocation, ...] = ()
    max_ref_count: int = 1
    """How many may have the same CPU."""

    @cached_property
    def holders(self) -> Mapping[int, int]:
        """CPU → how many have it."""
        return Counter(cpu for holding in self.holdings for cpu in holding.cpus)

    @cached_property
    def available(self) -> CpuSet:
        """What can be given now."""
        online = self.allocatable & self.topology.online
        return CpuSet(cpu for cpu in online if self.holders.get(cpu, 0) < self.max_ref_count)

    def within(self, cpus: CpuSet) -> "CpuSnapshot":
        """Return the room when only these may be given."""
        return dataclasses.replace(self, allocatable=self.allocatable & cpus)

    def excluded_cpus(self, exclusivity: CpuExclusivePolicy) -> CpuSet:
        """Return the CPUs from which a request of that kind keeps away: they are near to holders of the same kind."""
        held = [
            self.topology.by_id[cpu]
            for holding in self.holdings
            if holding.exclusivity is exclusivity
            for cpu in holding.cpus & self.topology.online
        ]
        if exclusivity is CpuExclusivePolicy.PCPU_LEVEL:
            return CpuSet(cpu for core in {c.core for c in held} for cpu in self.topology.cores[core])
        if exclusivity is CpuExclusivePolicy.NUMA_NODE_LEVEL:
            return CpuSet(cpu for node in {c.numa for c in held} for cpu in self.topology.nodes[node])
        return CpuSet()
