"""Failures to allocate CPUs: reasons, their texts, and what to do about each.

The texts are those of Koordinator's plugin nodenumaresource, which its users know; numbers are appended.
"""

from dra.engine.messages.texts import ExplainedReason, explain
from dra.model.meta import Struct


class CpuFailureReason(ExplainedReason):
    """The reason why no CPUs are allocated."""

    NOT_INTEGER = explain(
        "the requested CPUs must be integer",
        "Exclusive CPUs are allocated whole.",
        "The amount is a fraction of a CPU, for example `1500m`.",
        "Request a whole number of CPUs.",
    )
    NOT_WHOLE_CORES = explain(
        "node(s) requested cpus not multiple cpus per core",
        "The claim requires whole cores, and the number of CPUs is not a multiple of the threads per core.",
        "`FullPCPUs` is required with an odd number of CPUs, on a machine with two threads per core.",
        "Request a multiple of the threads per core: `dra-reserve kubelet-plugin inspect --drivers cpu` shows them.",
    )
    SHORTAGE = explain(
        "not enough cpus available to satisfy request",
        "The node has too few CPUs left.",
        "Other claims have the CPUs, or the CPUs are reserved for the system.",
        "Wait for other claims, request fewer CPUs, or reserve fewer for the system: `--reserved-cpus`.",
    )
    INSUFFICIENT_NUMA_CPUS = explain(
        "Insufficient NUMA cpu",
        "The node has enough CPUs left, but not on the NUMA nodes that the policy allows.",
        "Claims without a NUMA policy were prepared first, or the Node's label "
        "`node.koordinator.sh/numa-topology-policy` was changed after the claim was allocated.",
        "Wait for other claims, or delete the pod, so that it is scheduled again.",
    )
    POLICY_CONFLICT = explain(
        "node(s) cpu bind policy conflicts with pod's required cpu bind policy",
        "The node forces another bind policy than the one that the claim requires.",
        "The Node's label `node.koordinator.sh/cpu-bind-policy` was changed after the claim was allocated, or the "
        "claim does not select nodes by the attribute `bindPolicy`.",
        "Delete the pod, so that it is scheduled again; select nodes by the attribute `bindPolicy` of the device.",
    )
    POLICY_UNSATISFIED = explain(
        "insufficient CPUs to satisfy required cpu bind policy",
        "Enough CPUs are free, but they do not satisfy the required policy.",
        "With individual devices, the scheduler chose CPUs that the policy does not allow.",
        "Prefer the policy instead of requiring it, add a constraint on `cpu.reserve.dra/core` to the claim, or use "
        "`--cpu-devices grouped`, where the driver chooses.",
    )


class CpuAllocationFailure(Struct, frozen=True):
    """A failure to allocate CPUs, with the reason."""

    reason: CpuFailureReason
    subject: str = ""
    """The end of the reason's text: a policy."""
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.reason} {self.subject}" if self.subject else str(self.reason)
        return f"{text}: {self.detail}" if self.detail else text
