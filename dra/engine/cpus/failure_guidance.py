"""Meaning, cause and remedy of each reason for which no CPUs are allocated."""

from collections.abc import Mapping
from typing import Final

from dra.engine.cpus.bind_policies import CpuFailureReason
from dra.engine.messages.texts import Guidance

CPU_FAILURE_GUIDANCE: Final[Mapping[CpuFailureReason, Guidance]] = {
    CpuFailureReason.NOT_INTEGER: Guidance(
        "CPUs of one's own come whole.",
        "The amount is a fraction, say `1500m`.",
        "Ask for a whole number.",
    ),
    CpuFailureReason.NOT_WHOLE_CORES: Guidance(
        "Whole cores are required, and the number does not make any.",
        "`FullPCPUs` with an odd number, on a machine with two threads a core.",
        "Ask for a multiple of the threads of a core: `dra-reserve kubelet-plugin inspect --drivers cpu` shows them.",
    ),
    CpuFailureReason.POLICY_CONFLICT: Guidance(
        "The node forces another policy than the pod requires.",
        "The node's own CPU bind policy.",
        "Prefer the policy instead of requiring it, or choose other nodes.",
    ),
    CpuFailureReason.NUMA_POLICY_CONFLICT: Guidance(
        "The node's NUMA policy is another than the pod's.",
        "The node's own topology policy.",
        "Drop the pod's policy, or choose other nodes.",
    ),
    CpuFailureReason.SHORTAGE: Guidance(
        "The node has not enough CPUs left.",
        "Other claims have them, or they are reserved for the system.",
        "Wait for other claims, ask for fewer, or reserve fewer for the system: `--reserved-cpus`.",
    ),
    CpuFailureReason.POLICY_UNSATISFIED: Guidance(
        "There are CPUs, but not such as the required policy wants.",
        "With single devices: the scheduler chose others than the policy needs.",
        "Prefer the policy instead of requiring it, add a constraint on `cpu.reserve.dra/core` to the claim, or use "
        "`--cpu-devices grouped`, where the driver chooses.",
    ),
    CpuFailureReason.NUMA_SHORTAGE: Guidance(
        "No NUMA node has enough of a resource.",
        "What is free is spread over several.",
        "Ask for less, or allow more than one NUMA node.",
    ),
    CpuFailureReason.NO_NUMA_INVENTORY: Guidance(
        "Nothing is known of the amounts of the NUMA nodes.",
        "The node has not reported them.",
        "See what the plugin sees: `dra-reserve kubelet-plugin inspect --drivers cpu`.",
    ),
}

REPORTED_REASONS: Final = (
    CpuFailureReason.NOT_INTEGER,
    CpuFailureReason.NOT_WHOLE_CORES,
    CpuFailureReason.SHORTAGE,
    CpuFailureReason.POLICY_UNSATISFIED,
)
"""Reasons that a process of dra-reserve reports. Only functions that reproduce Koordinator's test vectors return the
other reasons; no process calls these functions as long as Koordinator's requests are not translated."""
