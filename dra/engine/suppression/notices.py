"""What people are told about batch pods on a node: the reason and text of Events on the Node."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from dra.api.colocation.strategies import SuppressPolicy
from dra.engine.suppression.decide import Suppression, SuppressionLevel
from dra.model.meta import Struct

_NAMED_MAX: Final = 3


class NoticeReason(StrEnum):
    """The reason of an Event on the Node."""

    VALUES_RESET = "BatchPodValuesReset"
    WRITES_REFUSED = "BatchPodWritesRefused"
    MEMORY_OVER_LIMIT = "BatchMemoryOverLimit"
    AT_FLOOR = "BatchPodsAtFloor"
    BY_QUOTA = "BatchPodsHeldBackByQuota"
    SHARES_IDLE = "BatchPodSharesIdle"
    CPU_FRACTION = "BatchCPUFraction"
    OUTSIDE_CLASS = "BatchPodNotLimited"


class Notice(Struct, frozen=True):
    """One thing to tell; the text goes on after the name of the node."""

    reason: NoticeReason
    text: str


class BatchPodFacts(Struct, frozen=True):
    """What one round has met; texts name cgroups or pods."""

    suppression: Suppression = Suppression()
    policy: SuppressPolicy = SuppressPolicy.CFS_QUOTA
    """The policy of the strategy."""

    reset: Sequence[str] = ()
    refused: Sequence[str] = ()
    memory_over_limit: Sequence[str] = ()
    idle: Sequence[str] = ()
    fractions: Sequence[str] = ()
    outside: Sequence[str] = ()


def describe_facts(facts: BatchPodFacts) -> Iterator[Notice]:
    """Yield what is to be told."""
    if facts.reset:
        yield Notice(
            reason=NoticeReason.VALUES_RESET,
            text=f"cgroup {_names(facts.reset)}: another process replaced the CPU or memory values, which are written "
            "again each time; find the other writer: a second agent, or systemd at a daemon-reload",
        )
    if facts.refused:
        yield Notice(
            reason=NoticeReason.WRITES_REFUSED,
            text=f"cgroups of batch pods: the kernel refused writes, which are tried again: {_names(facts.refused)}",
        )
    if facts.memory_over_limit:
        yield Notice(
            reason=NoticeReason.MEMORY_OVER_LIMIT,
            text=f"cgroup {_names(facts.memory_over_limit)}: uses more memory than its batch-memory limit, which is "
            "not in force until it uses less; its processes are not ended",
        )
    if facts.suppression.level is SuppressionLevel.FLOOR:
        yield Notice(
            reason=NoticeReason.AT_FLOOR,
            text="pods of the class BestEffort are at the floor of CPUs: what the node uses was not sampled for a "
            "minute; see the plugin's log",
        )
    if facts.suppression.policy is SuppressPolicy.CFS_QUOTA and facts.policy is SuppressPolicy.CPUSET:
        yield Notice(
            reason=NoticeReason.BY_QUOTA,
            text="pods of the class BestEffort are held back by quota in place of cpuset: nobody writes cpusets here; "
            "run the plugin with its CPU driver and cpuManagerPolicy: none, or set cpuSuppressPolicy: cfsQuota",
        )
    if facts.idle:
        yield Notice(
            reason=NoticeReason.SHARES_IDLE,
            text=f"cgroup {_names(facts.idle)}: cpu.idle is set, so the kernel refuses CPU shares, and they stay",
        )
    if facts.fractions:
        yield Notice(
            reason=NoticeReason.CPU_FRACTION,
            text=f"pod {_names(facts.fractions)}: batch-cpu counts milli-CPUs and is rounded up to a whole number; "
            'write "200", not "200m"',
        )
    if facts.outside:
        yield Notice(
            reason=NoticeReason.OUTSIDE_CLASS,
            text=f"pod {_names(facts.outside)}: requests cpu or memory beside batch resources, so the kubelet keeps "
            "its cgroup outside of the class BestEffort: it is not held back, and counts as the pods that come first",
        )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
