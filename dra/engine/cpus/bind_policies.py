"""CPU bind policies and the texts of CPU allocation failures.

A pod may *require* a policy or *prefer* one; a node may force one on all pods. Whole cores (`FULL_PCPUS`) keep
neighbours off the second thread; spread threads (`SPREAD_BY_PCPUS`) give each thread as much of a core as possible.
A preferred policy gives way when it cannot be satisfied; a required policy then makes the allocation fail.

The texts are those of Koordinator's plugin nodenumaresource, which its users know; numbers are appended.
"""

from enum import StrEnum
from typing import Final

from dra.model.meta import Struct


class CpuBindPolicy(StrEnum):
    """The way in which the CPUs of one request are distributed over cores."""

    DEFAULT = "Default"  # the default of the component that decides
    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"
    CONSTRAINED_BURST = "ConstrainedBurst"  # no exclusive CPUs: bursts within the shared pool


class NodeCpuBindPolicy(StrEnum):
    """The policy that a node forces on all requests for whole CPUs."""

    NONE = "None"
    FULL_PCPUS_ONLY = "FullPCPUsOnly"
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
    DISTRIBUTE_EVENLY = "DistributeEvenly"  # on one machine the same as LeastAllocated

    @property
    def sign(self) -> int:
        """The factor for a number of free CPUs that makes the best place the smallest number."""
        return 1 if self is NumaAllocateStrategy.MOST_ALLOCATED else -1


class CpuFailureReason(StrEnum):
    """The reason why no CPUs are allocated."""

    NOT_INTEGER = "the requested CPUs must be integer"
    NOT_WHOLE_CORES = "node(s) requested cpus not multiple cpus per core"
    POLICY_CONFLICT = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
    NUMA_POLICY_CONFLICT = "node(s) NUMA Topology policy not match"
    SHORTAGE = "not enough cpus available to satisfy request"
    POLICY_UNSATISFIED = "insufficient CPUs to satisfy required cpu bind policy"
    NUMA_SHORTAGE = "Insufficient NUMA"
    NO_NUMA_INVENTORY = "insufficient resources on NUMA Node"


class CpuAllocationFailure(Struct, frozen=True):
    """A failure to allocate CPUs, with the reason."""

    reason: CpuFailureReason
    subject: str = ""
    """The end of the reason's text: a policy or a resource."""
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.reason} {self.subject}" if self.subject else str(self.reason)
        return f"{text}: {self.detail}" if self.detail else text


class EffectiveBindPolicy(Struct, frozen=True):
    """The bind policy that applies to a request."""

    policy: CpuBindPolicy
    required: bool = False


_NODE_BIND_POLICIES: Final = {
    NodeCpuBindPolicy.FULL_PCPUS_ONLY: CpuBindPolicy.FULL_PCPUS,
    NodeCpuBindPolicy.SPREAD_BY_PCPUS: CpuBindPolicy.SPREAD_BY_PCPUS,
}


def effective_bind_policy(
    *,
    required: CpuBindPolicy | None = None,
    preferred: CpuBindPolicy | None = None,
    node: NodeCpuBindPolicy = NodeCpuBindPolicy.NONE,
    default: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS,
) -> EffectiveBindPolicy | CpuAllocationFailure | None:
    """Return the policy that applies: the node's, else required, preferred or default; None if no CPUs are bound."""
    demanded = default if required is CpuBindPolicy.DEFAULT else required
    wished = demanded or (default if preferred in (None, CpuBindPolicy.DEFAULT) else preferred)
    forced = _NODE_BIND_POLICIES.get(node)
    if forced is not None:
        if demanded not in (None, forced):
            return CpuAllocationFailure(
                reason=CpuFailureReason.POLICY_CONFLICT,
                detail=f"the node has {node.value}, the pod requires {demanded}",
            )
        return EffectiveBindPolicy(policy=forced, required=True)
    if wished is CpuBindPolicy.CONSTRAINED_BURST or wished is None:
        return None
    return EffectiveBindPolicy(policy=wished, required=demanded is not None)


def parse_whole_cpus(milli: int) -> int | CpuAllocationFailure:
    """Return an amount in thousandths of a CPU as a number of CPUs, or a failure for a fraction."""
    if milli % 1000:
        return CpuAllocationFailure(reason=CpuFailureReason.NOT_INTEGER, detail=f"{milli}m is no whole number of CPUs")
    return milli // 1000


def merge_numa_topology_policies(*, node: str, pod: str) -> str | CpuAllocationFailure:
    """Return the NUMA topology policy of node and pod: the only one set, or the same of both; else a failure."""
    if node and pod and node != pod:
        return CpuAllocationFailure(
            reason=CpuFailureReason.NUMA_POLICY_CONFLICT, detail=f"the node has {node}, the pod asks for {pod}"
        )
    return pod or node
