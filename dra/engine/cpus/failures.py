"""Failures to allocate CPUs: reasons, their texts, and what to do about each.

The texts are those of Koordinator's plugin nodenumaresource, which its users know; numbers are appended.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from dra.engine.messages.texts import Guidance
from dra.model.meta import Struct


class CpuFailureReason(StrEnum):
    """The reason why no CPUs are allocated."""

    NOT_INTEGER = "the requested CPUs must be integer"
    NOT_WHOLE_CORES = "node(s) requested cpus not multiple cpus per core"
    SHORTAGE = "not enough cpus available to satisfy request"
    INSUFFICIENT_NUMA_CPUS = "Insufficient NUMA cpu"
    POLICY_CONFLICT = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
    POLICY_UNSATISFIED = "insufficient CPUs to satisfy required cpu bind policy"


class CpuAllocationFailure(Struct, frozen=True):
    """A failure to allocate CPUs, with the reason."""

    reason: CpuFailureReason
    subject: str = ""
    """The end of the reason's text: a policy."""
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.reason} {self.subject}" if self.subject else str(self.reason)
        return f"{text}: {self.detail}" if self.detail else text


CPU_FAILURE_GUIDANCE: Final[Mapping[CpuFailureReason, Guidance]] = {
    CpuFailureReason.NOT_INTEGER: Guidance(
        "Exclusive CPUs are allocated whole.",
        "The amount is a fraction of a CPU, for example `1500m`.",
        "Request a whole number of CPUs.",
    ),
    CpuFailureReason.NOT_WHOLE_CORES: Guidance(
        "The claim requires whole cores, and the number of CPUs is not a multiple of the threads per core.",
        "`FullPCPUs` is required with an odd number of CPUs, on a machine with two threads per core.",
        "Request a multiple of the threads per core: `dra-reserve kubelet-plugin inspect --drivers cpu` shows them.",
    ),
    CpuFailureReason.SHORTAGE: Guidance(
        "The node has too few CPUs left.",
        "Other claims have the CPUs, or the CPUs are reserved for the system.",
        "Wait for other claims, request fewer CPUs, or reserve fewer for the system: `--reserved-cpus`.",
    ),
    CpuFailureReason.INSUFFICIENT_NUMA_CPUS: Guidance(
        "The node has enough CPUs left, but not on the NUMA nodes that the policy allows.",
        "Claims without a NUMA policy were prepared first, or the Node's label "
        "`node.koordinator.sh/numa-topology-policy` was changed after the claim was allocated.",
        "Wait for other claims, or delete the pod, so that it is scheduled again.",
    ),
    CpuFailureReason.POLICY_CONFLICT: Guidance(
        "The node forces another bind policy than the one that the claim requires.",
        "The Node's label `node.koordinator.sh/cpu-bind-policy` was changed after the claim was allocated, or the "
        "claim does not select nodes by the attribute `bindPolicy`.",
        "Delete the pod, so that it is scheduled again; select nodes by the attribute `bindPolicy` of the device.",
    ),
    CpuFailureReason.POLICY_UNSATISFIED: Guidance(
        "Enough CPUs are free, but they do not satisfy the required policy.",
        "With individual devices, the scheduler chose CPUs that the policy does not allow.",
        "Prefer the policy instead of requiring it, add a constraint on `cpu.reserve.dra/core` to the claim, or use "
        "`--cpu-devices grouped`, where the driver chooses.",
    ),
}
