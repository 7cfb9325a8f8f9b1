"""Policies for the choice of CPUs, in Koordinator's words: what users write in ``CpuConfig`` is what the engine reads.

Whole cores (`FULL_PCPUS`) keep other containers off the second thread; spread threads (`SPREAD_BY_PCPUS`) give each
thread as much of a core as possible.
"""

from enum import StrEnum
from typing import Final, NamedTuple


class CpuBindPolicy(StrEnum):
    """The way in which the CPUs of one request are distributed over cores."""

    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


class CpuExclusivePolicy(StrEnum):
    """The scope in which a request avoids CPUs of requests with the same policy: a preference, never a guarantee."""

    NONE = "None"
    PCPU_LEVEL = "PCPULevel"  # avoids each other's cores
    NUMA_NODE_LEVEL = "NUMANodeLevel"  # avoids each other's NUMA nodes


class NumaAllocateStrategy(StrEnum):
    """The order in which a request considers several NUMA nodes or sockets that fit."""

    MOST_ALLOCATED = "MostAllocated"  # the fullest first: leaves room for large requests
    LEAST_ALLOCATED = "LeastAllocated"  # the emptiest first: neighbours disturb less
    DISTRIBUTE_EVENLY = "DistributeEvenly"  # Koordinator's third word, for the same order as LeastAllocated


class CpuSharing(StrEnum):
    """The containers that may run on the CPUs of a request, besides the containers of the claim."""

    NONE = "None"
    BEST_EFFORT = "BestEffort"  # containers of pods with the QoS class BestEffort, beside Koordinator's LSR pods


class NoCpuConfig(NamedTuple):
    """The choice of CPUs for a claim without parameters: the defaults of `dra.api.parameters.cpu.CpuConfig`."""

    required_bind_policy: None = None
    bind_policy: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS
    exclusivity: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    strategy: NumaAllocateStrategy = NumaAllocateStrategy.MOST_ALLOCATED
    given_strategy: None = None
    shared_with: CpuSharing = CpuSharing.NONE
    prefers_isolated: bool = False


NO_CPU_CONFIG: Final = NoCpuConfig()
