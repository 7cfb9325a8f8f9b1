"""Events on the Node about its batch pods: reasons, texts and guidance."""

from collections.abc import Iterator, Sequence
from typing import Final

from dra.api.colocation.strategies import SuppressPolicy
from dra.engine.messages.documentation import page_url
from dra.engine.messages.texts import ExplainedReason, explain
from dra.engine.suppression.decide import Suppression, SuppressionLevel
from dra.model.meta import Struct

_NAMED_MAX: Final = 3
_HOW_TO: Final = page_url("how-to/colocation.md")


class NoticeReason(ExplainedReason):
    """The reason of an Event on the Node."""

    VALUES_RESET = explain(
        "BatchPodValuesReset",
        "CPU or memory values of batch pods were replaced by another process, and are written again each time.",
        "A second agent (koordlet, a script), or systemd: it writes all values of a slice when its units are reloaded.",
        "Stop the second writer. Resets at a `systemctl daemon-reload` need nothing; "
        "`dra_reserve_node_batch_values_reset_by_others_total` shows whether they go on.",
    )
    WRITES_REFUSED = explain(
        "BatchPodWritesRefused",
        "A part of the limits of batch pods is not in force yet; the writes are tried again each second.",
        "The kernel refused values, most often since a container was started at the same moment.",
        "If it lasts, the Event has the kernel's words and the file; compare the quotas above and below that cgroup.",
    )
    CGROUPS_UNREAD = explain(
        "BatchPodCgroupsUnread",
        "All pods of the class BestEffort together may use more CPUs than are left for them. Each of the other pods is "
        "held back by itself.",
        "A container of the pod makes more than 1,000 cgroups, or nests them deeply, which takes a privileged one in "
        "cgroup v1. A CPU quota in one of them that was not read keeps the kernel from taking a smaller one above.",
        "Delete the pod, or remove its right to write cgroups. In cgroup v2 such quotas do not stand in the way.",
    )
    MEMORY_OVER_LIMIT = explain(
        "BatchMemoryOverLimit",
        "A batch pod uses more memory than its `batch-memory` limit, which is therefore not in force.",
        "The limit is written when the pod is seen, and it had allocated more by then; or its limit was lowered.",
        "Nothing is ended for it. Raise the limit of the pod, or delete the pod: a new one gets its limit earlier.",
    )
    AT_FLOOR = explain(
        "BatchPodsAtFloor",
        "Pods of the class BestEffort have `cpuSuppressMinPercent` of the node's CPUs, or 10 %, whatever others use.",
        "What the node uses was not sampled for a minute.",
        "See the log of the kubelet plugin on the node, and whether `/proc` and cgroups of the host are mounted there.",
    )
    BY_QUOTA = explain(
        "BatchPodsHeldBackByQuota",
        "Pods of the class BestEffort are held back by a CPU quota in place of a cpuset.",
        "`cpuSuppressPolicy` is `cpuset` (its default), and cpusets are not written: the plugin runs without its CPU "
        "driver, or the kubelet writes them (`cpuManagerPolicy: static`).",
        "Set `cpuSuppressPolicy: cfsQuota` for these nodes, or run the CPU driver there.",
    )
    SHARES_IDLE = explain(
        "BatchPodSharesIdle",
        "CPU shares of a batch pod are not written.",
        "Another process has set `cpu.idle` of its cgroup, and the kernel refuses shares there.",
        "Write 0 to `cpu.idle` if the pod shall have the weight that it requests.",
    )
    CPU_FRACTION = explain(
        "BatchCPUFraction",
        "The `batch-cpu` of a pod is rounded up to a whole number of milli-CPUs.",
        "The resource counts milli-CPUs: `200m` is a fifth of one.",
        "Write `200` for a fifth of a CPU.",
    )
    OUTSIDE_CLASS = explain(
        "BatchPodNotLimited",
        "A batch pod is not held back, and its cgroup keeps the kubelet's values.",
        "A container of it requests `cpu` or `memory`, so Kubernetes' class of the pod is not BestEffort: an injected "
        "sidecar, or a LimitRange.",
        f"Give all containers batch resources alone; {_HOW_TO} shows how profiles do that.",
    )


class Notice(Struct, frozen=True):
    """One notice for the log and an Event; the text continues after the name of the node."""

    reason: NoticeReason
    text: str


class BatchPodFacts(Struct, frozen=True):
    """The facts that one round has met; texts name cgroups or pods."""

    suppression: Suppression = Suppression()
    policy: SuppressPolicy = SuppressPolicy.CFS_QUOTA
    """The policy of the strategy."""

    reset: Sequence[str] = ()
    refused: Sequence[str] = ()
    partly_read: Sequence[str] = ()
    """Pods with cgroups that were not read, which the plan of writes could not consider."""

    memory_over_limit: Sequence[str] = ()
    idle: Sequence[str] = ()
    fractions: Sequence[str] = ()
    outside: Sequence[str] = ()


def describe_facts(facts: BatchPodFacts) -> Iterator[Notice]:
    """Yield the notices about the facts of a round."""
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
    if facts.refused and facts.partly_read:
        yield Notice(
            reason=NoticeReason.CGROUPS_UNREAD,
            text=f"cgroup {_names(facts.partly_read)}: has more cgroups below it, or deeper ones, than are read, and "
            "the kernel refuses writes: the class BestEffort is perhaps not held back as a whole; delete the pod",
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
            text="pods of the class BestEffort are held back by quota in place of cpuset, which is not written here; "
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
