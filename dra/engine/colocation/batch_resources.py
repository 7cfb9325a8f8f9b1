"""The batch resources of a node, with every line of the sum.

The rule is that of Koordinator's plugin ``batchresource``::

    batch = capacity - margin - max(system used, node reserved) - used by high-priority pods
    margin = capacity · (100 - reclaim %) / 100

A pod with a high priority is one whose class is neither batch nor free. One that is not in the report counts with its
request. What the report has of pods that are gone counts as well. An LSE pod's CPUs count as requested. Offered is the
greater of the sum, never below 0, and what batch pods hold.

Sums are exact. The lines are shown in whole milli-CPUs and bytes: amounts that are used are rounded up.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from dra.api.colocation.strategies import CalculatePolicy, ColocationStrategy
from dra.engine.colocation.batch_pod import BatchPod
from dra.engine.colocation.held_batch import AMOUNT_MAX, BatchAmounts, held_batch
from dra.engine.colocation.node_usage import NodeUsage, PodUsage
from dra.model.meta import Key, Struct

CPU_UNIT: Final = 10**6
"""Billionths of a CPU in a milli-CPU."""

MEMORY_UNIT: Final = 10**9
"""Billionths of a byte in a byte."""

NAMES_MAX: Final = 5
"""Names of pods that a sum shows."""


class ZeroReason(StrEnum):
    """Why nothing is computed, so that only what batch pods hold is offered."""

    DISABLED = "disabled"
    NO_REPORT = "no report"
    STALE = "stale"
    INCOMPLETE = "no system usage"


class NodeAmounts(Struct, frozen=True):
    """One resource of a node, in billionths."""

    capacity: int
    annotated: int = 0
    """Reserved by annotation ``node.koordinator.sh/reservation``."""

    kubelet: int = 0
    """Reserved by the kubelet: the capacity less what is allocatable."""


class BatchNode(Struct, frozen=True):
    """A node as the sum sees it."""

    cpu: NodeAmounts
    memory: NodeAmounts
    offered: BatchAmounts = BatchAmounts()
    """What the Node offers to batch pods now."""


class ResourceSum(Struct, frozen=True):
    """The sum of one resource line by line, in milli-CPUs or bytes."""

    policy: CalculatePolicy
    capacity: int
    margin: int
    """Kept back by the reclaim threshold; negative where it is above 100 %."""

    annotated: int
    """Reserved by the Node's annotation."""

    kubelet: int
    """Reserved by the kubelet."""

    offered: int
    """The result: the greater of `computed` and `held`."""

    held: int
    """Requested by batch pods on the node."""

    computed: int = 0
    """The sum, before what is held is looked at; 0 where there is a `zero_reason`."""

    system: int | None = None
    """Used by what runs in no pod; None if it is not known."""

    used: int = 0
    """High-priority pods by use (CPUs of LSE pods by request; the greater of both with maxUsageRequest)."""

    requested: int = 0
    """High-priority pods by request: with policy request all, else those without a report."""

    gone: int = 0
    """Used by pods that the report has and the cluster has no longer."""

    most: int | None = None
    """The limit of batchCPUThresholdPercent or batchMemoryThresholdPercent; None if there is none."""

    zero_reason: ZeroReason | None = None

    @property
    def reserved(self) -> int:
        """The node reservation in force: the greater of the kubelet's and the annotation's."""
        return max(self.annotated, self.kubelet)

    @property
    def system_or_reserved(self) -> int:
        """The amount that is subtracted for the system."""
        return self.reserved if self.policy is CalculatePolicy.REQUEST else max(self.system or 0, self.reserved)


class BatchSum(Struct, frozen=True):
    """The sums of both batch resources of a node."""

    cpu: ResourceSum
    memory: ResourceSum
    without_report: int = 0
    """High-priority pods that the report does not have."""

    without_report_names: tuple[str, ...] = ()
    """The first of these, as ``namespace/name``."""

    @property
    def offered(self) -> BatchAmounts:
        """The amounts for the Node's status."""
        return BatchAmounts(cpu=self.cpu.offered, memory=self.memory.offered)

    @property
    def held(self) -> BatchAmounts:
        """The amounts that batch pods hold."""
        return BatchAmounts(cpu=self.cpu.held, memory=self.memory.held)


def sum_batch(
    node: BatchNode,
    usage: NodeUsage | None,
    pods: Sequence[BatchPod],
    strategy: ColocationStrategy,
    *,
    is_stale: bool = False,
) -> BatchSum:
    """Return the batch resources of a node; `pods` are those that are bound to it and have not ended."""
    reason = _zero_reason(usage, strategy, is_stale=is_stale)
    held = held_batch(pods, offered=node.offered)
    tally = _Tally()
    if usage is not None and reason is None:
        tally.add_all(pods, usage.pods)
    cpu = _ResourceTerms(
        amounts=node.cpu,
        unit=CPU_UNIT,
        policy=strategy.cpu_calculate_policy,
        reclaim_percent=strategy.cpu_reclaim_threshold_percent,
        most_percent=strategy.batch_cpu_threshold_percent,
        held=held.cpu,
    )
    memory = _ResourceTerms(
        amounts=node.memory,
        unit=MEMORY_UNIT,
        policy=strategy.memory_calculate_policy,
        reclaim_percent=strategy.memory_reclaim_threshold_percent,
        most_percent=strategy.batch_memory_threshold_percent,
        held=held.memory,
    )
    system = None if usage is None else usage.system
    return BatchSum(
        cpu=_sum_resource(cpu, tally.cpu, system=None if system is None else system.cpu, reason=reason),
        memory=_sum_resource(memory, tally.memory, system=None if system is None else system.memory, reason=reason),
        without_report=tally.without_report,
        without_report_names=tuple(tally.names),
    )


def _zero_reason(usage: NodeUsage | None, strategy: ColocationStrategy, *, is_stale: bool) -> ZeroReason | None:
    if not strategy.enable:
        return ZeroReason.DISABLED
    if usage is None:
        return ZeroReason.NO_REPORT
    if is_stale:
        return ZeroReason.STALE
    return None if usage.is_complete else ZeroReason.INCOMPLETE


class _ResourceTally:
    """The sums of what high-priority pods use and request of a resource, in billionths."""

    def __init__(self) -> None:
        self.used = 0
        """By pods of the report, by use."""
        self.greater = 0
        """By pods of the report, by the greater of use and request."""
        self.unreported = 0
        """By other pods, by request."""
        self.requested = 0
        """By all pods, by request."""
        self.gone = 0

    def add(self, *, request: int, used: int | None, by_request: bool) -> None:
        """Count a pod; `used` is None if it is not known."""
        self.requested += request
        if used is None:
            self.unreported += request
            return
        self.used += request if by_request else used
        self.greater += max(request, used)


class _Tally:
    """The sums over the pods of a node, for both resources."""

    def __init__(self) -> None:
        self.cpu = _ResourceTally()
        self.memory = _ResourceTally()
        self.without_report = 0
        self.names: list[str] = []

    def add_all(self, pods: Iterable[BatchPod], reported: Iterable[PodUsage]) -> None:
        """Count all pods, and what is reported of pods that are gone."""
        left = _by_key(reported)
        for pod in pods:
            usage = _take(left, pod)
            if not pod.is_batch:
                self._add(pod, usage)
        for gone in left.values():
            if not gone.is_batch:
                self.cpu.gone += gone.usage.cpu or 0
                self.memory.gone += gone.usage.memory or 0

    def _add(self, pod: BatchPod, reported: PodUsage | None) -> None:
        cpu = memory = None
        if reported is None:
            self.without_report += 1
            if len(self.names) < NAMES_MAX:
                self.names.append(f"{pod.namespace}/{pod.name}")
        else:
            cpu, memory = reported.usage.cpu, reported.usage.memory
        self.cpu.add(request=pod.cpu, used=cpu, by_request=pod.is_lse)
        self.memory.add(request=pod.memory, used=memory, by_request=False)


def _by_key(reported: Iterable[PodUsage]) -> dict[tuple[Key, str], PodUsage]:
    """Return the pods of a report by key and uid; of two of one identity, the one that uses more counts."""
    by_identity: dict[tuple[Key, str], PodUsage] = {}
    for pod in reported:
        identity = ((pod.namespace, pod.name), pod.uid)
        before = by_identity.get(identity)
        if before is None or (pod.usage.cpu or 0, pod.usage.memory or 0) > (
            before.usage.cpu or 0,
            before.usage.memory or 0,
        ):
            by_identity[identity] = pod
    return by_identity


def _take(left: dict[tuple[Key, str], PodUsage], pod: BatchPod) -> PodUsage | None:
    """Remove and return the report of a pod: by its uid, or by its name where the report has no uid."""
    usage = left.pop((pod.key, pod.uid), None)
    return left.pop((pod.key, ""), None) if usage is None else usage


class _ResourceTerms(Struct, frozen=True):
    """The input of the sum of one resource."""

    amounts: NodeAmounts
    unit: int
    policy: CalculatePolicy
    reclaim_percent: int
    most_percent: int | None
    held: int


def _sum_resource(
    terms: _ResourceTerms, tally: _ResourceTally, *, system: int | None, reason: ZeroReason | None
) -> ResourceSum:
    amounts, unit = terms.amounts, terms.unit
    capacity = amounts.capacity // unit
    margin = _cut(capacity * (100 - terms.reclaim_percent), 100)
    most = None if terms.most_percent is None else capacity * terms.most_percent // 100
    if reason is None and system is None:
        reason = ZeroReason.INCOMPLETE
    used, requested, gone = _pod_lines(terms.policy, tally)
    computed = 0
    if reason is None:
        reserved = max(amounts.annotated, amounts.kubelet)
        taken = reserved if terms.policy is CalculatePolicy.REQUEST else max(system or 0, reserved)
        left = amounts.capacity - margin * unit - taken - used - requested - gone
        computed = max(0, -(-left // unit))
        computed = min(computed, AMOUNT_MAX if most is None else most)
    return ResourceSum(
        policy=terms.policy,
        capacity=capacity,
        margin=margin,
        annotated=_up(amounts.annotated, unit),
        kubelet=_up(amounts.kubelet, unit),
        offered=max(computed, terms.held),
        held=terms.held,
        computed=computed,
        system=None if system is None else _up(system, unit),
        used=_up(used, unit),
        requested=_up(requested, unit),
        gone=_up(gone, unit),
        most=most,
        zero_reason=reason,
    )


def _pod_lines(policy: CalculatePolicy, tally: _ResourceTally) -> tuple[int, int, int]:
    """Return what is subtracted for pods: used, requested, and used by pods that are gone."""
    match policy:
        case CalculatePolicy.REQUEST:
            return 0, tally.requested, 0
        case CalculatePolicy.MAX_USAGE_REQUEST:
            return tally.greater, tally.unreported, tally.gone
        case CalculatePolicy.USAGE:
            return tally.used, tally.unreported, tally.gone


def _cut(number: int, divisor: int) -> int:
    """Return a quotient without its fraction, towards 0."""
    return number // divisor if number >= 0 else -(-number // divisor)


def _up(nanos: int, unit: int) -> int:
    return -(-nanos // unit)
