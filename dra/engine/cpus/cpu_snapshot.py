"""The input to the choice of CPUs: a machine at one moment, its allocatable CPUs, and the existing allocations."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy, NumaAllocateStrategy
from dra.engine.cpus.cpusets import CpuSet
from dra.engine.cpus.topology import CpuTopology
from dra.model.meta import Struct


class CpuAllocation(Struct, frozen=True):
    """CPUs that a request got, with its exclusive policy."""

    cpus: CpuSet
    exclusivity: CpuExclusivePolicy = CpuExclusivePolicy.NONE


class CpuRequest(Struct, frozen=True):
    """A request for a number of CPUs, with its policies."""

    count: int
    policy: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS
    required: bool = False
    """Whether the bind policy is required; a preferred policy gives way where it cannot be satisfied."""
    exclusivity: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    strategy: NumaAllocateStrategy = NumaAllocateStrategy.MOST_ALLOCATED


@dataclass(frozen=True, kw_only=True)
class CpuSnapshot:
    """The CPUs of a machine and their allocations at one moment."""

    topology: CpuTopology
    allocatable: CpuSet
    """CPUs that may be allocated at all: without CPUs reserved for the system, or managed by another component."""
    allocations: tuple[CpuAllocation, ...] = ()
    max_ref_count: int = 1
    """Maximum number of allocations that may have the same CPU."""

    @cached_property
    def ref_counts(self) -> Mapping[int, int]:
        """CPU → number of allocations that have the CPU."""
        return Counter(cpu for allocation in self.allocations for cpu in allocation.cpus)

    @cached_property
    def available(self) -> CpuSet:
        """CPUs that can be allocated now."""
        online = self.allocatable & self.topology.online
        return CpuSet(cpu for cpu in online if self.ref_counts.get(cpu, 0) < self.max_ref_count)

    def within(self, cpus: CpuSet) -> "CpuSnapshot":
        """Return the snapshot of a part of the machine, in which only these CPUs are allocatable."""
        return replace(self, allocatable=self.allocatable & cpus)

    def excluded_cpus(self, exclusivity: CpuExclusivePolicy) -> CpuSet:
        """Return the CPUs that a request with this policy avoids: near CPUs of allocations with the same policy."""
        allocated = [
            self.topology.by_id[cpu]
            for allocation in self.allocations
            if allocation.exclusivity is exclusivity
            for cpu in allocation.cpus & self.topology.online
        ]
        if exclusivity is CpuExclusivePolicy.PCPU_LEVEL:
            return CpuSet(cpu for core in {c.core for c in allocated} for cpu in self.topology.cores[core])
        if exclusivity is CpuExclusivePolicy.NUMA_NODE_LEVEL:
            return CpuSet(cpu for node in {c.numa_node for c in allocated} for cpu in self.topology.numa_nodes[node])
        return CpuSet()
