"""What a request says about its CPUs, who has a say in it, and the texts of the refusals.

A pod may *require* a policy or *prefer* one; a node may force one on everybody. Whole cores (`FULL_PCPUS`) keep
neighbours off the second thread; spread threads (`SPREAD_BY_PCPUS`) give each thread as much of a core as there is.
What is preferred gives way when it cannot be had, what is required is refused.

The texts are those that users of Koordinator know (specs/koordinator.md C.3); numbers are put behind them.
"""

from enum import StrEnum
from typing import Final

from dra.model.meta import Struct


class CpuBindPolicy(StrEnum):
    """How the CPUs of one request lie on cores."""

    DEFAULT = "Default"  # whatever the one who decides has as its default
    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"
    CONSTRAINED_BURST = "ConstrainedBurst"  # no CPUs of its own: bursts within the shared pool


class NodeCpuBindPolicy(StrEnum):
    """What a node forces on all that asks it for whole CPUs."""

    NONE = "None"
    FULL_PCPUS_ONLY = "FullPCPUsOnly"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


class CpuExclusivePolicy(StrEnum):
    """From what others of the same wish are kept away, where there is room: a preference, never a promise."""

    NONE = "None"
    PCPU_LEVEL = "PCPULevel"  # from each other's cores
    NUMA_NODE_LEVEL = "NUMANodeLevel"  # from each other's NUMA nodes


class NumaAllocateStrategy(StrEnum):
    """Which of several places that fit."""

    MOST_ALLOCATED = "MostAllocated"  # the fullest: large requests find room later
    LEAST_ALLOCATED = "LeastAllocated"  # the emptiest: neighbours disturb less
    DISTRIBUTE_EVENLY = "DistributeEvenly"  # for one machine the same as the emptiest

    @property
    def sign(self) -> int:
        """What free CPUs are multiplied with, so that the best place is the smallest number."""
        return 1 if self is NumaAllocateStrategy.MOST_ALLOCATED else -1


class CpuFailureReason(StrEnum):
    """Why no CPUs are given."""

    NOT_INTEGER = "the requested CPUs must be integer"
    NOT_WHOLE_CORES = "node(s) requested cpus not multiple cpus per core"
    POLICY_CONFLICT = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
    NUMA_POLICY_CONFLICT = "node(s) NUMA Topology policy not match"
    SHORTAGE = "not enough cpus available to satisfy request"
    POLICY_UNSATISFIED = "insufficient CPUs to satisfy required cpu bind policy"
    NUMA_SHORTAGE = "Insufficient NUMA"
    NO_NUMA_INVENTORY = "insufficient resources on NUMA Node"


class CpuAllocationFailure(Struct, frozen=True):
    """That no CPUs are given, and why."""

    reason: CpuFailureReason
    subject: str = ""
    """What the reason's text ends with: a policy, a resource."""
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.reason} {self.subject}" if self.subject else str(self.reason)
        return f"{text}: {self.detail}" if self.detail else text


class EffectiveBindPolicy(Struct, frozen=True):
    """The policy that counts."""

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
    """Return the policy that counts: the node's, else the one required, preferred, default; None binds no CPUs."""
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
    """Return an amount of CPU as a number of whole ones."""
    if milli % 1000:
        return CpuAllocationFailure(reason=CpuFailureReason.NOT_INTEGER, detail=f"{milli}m is no whole number of CPUs")
    return milli // 1000


def merge_numa_topology_policies(*, node: str, pod: str) -> str | CpuAllocationFailure:
    """Return the NUMA topology policy of node and pod: either's, or both the same."""
    if node and pod and node != pod:
        return CpuAllocationFailure(
            reason=CpuFailureReason.NUMA_POLICY_CONFLICT, detail=f"the node has {node}, the pod asks for {pod}"
        )
    return pod or node
