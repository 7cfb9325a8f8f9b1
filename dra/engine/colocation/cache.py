"""The nodes with their reports and pods, from which batch resources are computed.

What is offered is known from the Node's status, or from this process's own write until the watch shows it. What was
offered within the last minute still counts for pods that a scheduler binds by it; not so what was offered only for
pods that nobody has admitted, or pods that are created again and again would keep it for ever.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final

import msgspec

from dra.api.colocation.node_strategy import NodeStrategy, node_strategy
from dra.api.colocation.slo_configuration import SloConfiguration
from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.colocation.batch_node import batch_node
from dra.engine.colocation.batch_pod import BatchPod
from dra.engine.colocation.batch_resources import BatchNode, BatchSum, ZeroReason, sum_batch
from dra.engine.colocation.configuration_cache import SloConfigurationCache
from dra.engine.colocation.decide import PROMPT_REWRITES, BatchView, LastWrite, OfferedBatch, WriteBatch
from dra.engine.colocation.held_batch import NO_BATCH, BatchAmounts, started_batch
from dra.engine.colocation.node_events import NodeFacts, node_events
from dra.engine.colocation.node_usage import NodeUsage, PodUsage
from dra.engine.colocation.staleness import is_from_future, report_age
from dra.engine.colocation.watched import WatchedNodeMetric, WatchedPod
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import BIND_HORIZON, NEVER, Instant, Moment
from dra.model import quantities
from dra.model.meta import Key, ObjectMeta, Struct, Uid
from dra.model.node_pods import AgentNode, ConfigMap
from dra.model.quantities import MalformedQuantityError
from dra.model.resource_versions import is_older

_MINUTE: Final = 60.0
_SLACK: Final = 0.05
"""Seconds after a report becomes stale until this is checked."""


class _Report(Struct, frozen=True):
    """The last report of a node."""

    usage: NodeUsage
    seen: Instant
    """When this process saw it change."""

    is_first: bool
    """Whether this process has seen no other before, so that nobody knows how long it has not changed."""


class _NodeEntry:
    """The memory of one node."""

    def __init__(self) -> None:
        self.node: AgentNode | None = None
        self.sums: BatchNode | None = None
        """The amounts of the Node; None until they are needed."""
        self.report: _Report | None = None
        self.pods: dict[Uid, BatchPod] = {}
        self.last = LastWrite(at=NEVER)
        self.written_version = ""
        """Version of the Node after the last write of this process; the watch may show an older one."""
        self.recent: list[tuple[BatchAmounts, Instant]] = []
        """What was offered before each decrease of the last minute, and until when pods may be bound by it."""
        self.solid: BatchAmounts | None = None
        """What of the last write does not come from pods that nobody has admitted; None before the first write."""
        self.strategy: NodeStrategy | None = None
        """The strategy of the Node; None until it is needed."""
        self.strategy_by: SloConfiguration | None = None
        """The configuration that the strategy is by."""
        self.unreported: dict[Uid, Instant] = {}
        """Pods with a high priority that the report does not have, and since when."""
        self.offered = NO_BATCH
        """What is offered by the last sum."""
        self.zero_reason: ZeroReason | None = None
        """Why nothing is computed by the last sum; None before the first one, as on a replica that does not act."""

    @property
    def is_empty(self) -> bool:
        return self.node is None and self.report is None and not self.pods


class BatchCache(Cache[str]):
    """The nodes by name; ``dirty`` are those whose sum may have changed."""

    def __init__(self, configuration: SloConfigurationCache) -> None:
        self.dirty: DirtyKeys[str] = DirtyKeys()
        self._configuration = configuration
        self._seen: SloConfiguration | None = None
        """The configuration by which all were marked last."""

        self._nodes: dict[str, _NodeEntry] = {}

    def observe_node(self, node: AgentNode, *, now: Instant) -> None:
        """Record a Node; only what concerns the sum marks it."""
        entry = self._entry(node.metadata.name)
        before, entry.node = entry.node, node
        if before is None or before.metadata.uid != node.metadata.uid:
            entry.last, entry.written_version = LastWrite(at=now), ""
            entry.solid, entry.recent = None, []
        elif _facts(before) == _facts(node) and not is_older(before.metadata.resource_version, entry.written_version):
            return  # what follows a write is looked at: somebody may have undone it before the watch showed it
        elif entry.last.amounts is None:
            lately = offered_batch(before).amounts
            if not _covers(offered_batch(node).amounts, lately):
                self._record_offer(entry, lately, now=now)  # by another replica, which led
        entry.sums = entry.strategy = None
        self.dirty.add(node.metadata.name)

    def forget_node(self, node: AgentNode) -> None:
        """Forget a Node that is gone."""
        entry = self._nodes.get(node.metadata.name)
        if entry is not None:
            entry.node = entry.sums = entry.strategy = None
            entry.offered, entry.zero_reason = NO_BATCH, None
            self._drop_if_empty(node.metadata.name)

    def observe_metric(self, metric: WatchedNodeMetric, *, now: Instant) -> None:
        """Record the report of a node."""
        name, usage = metric.metadata.name, metric.usage
        entry = self._entry(name)
        if usage is None:
            entry.report = None
        elif entry.report is None or entry.report.usage != usage:
            before = entry.report
            is_new = before is None or before.usage.update_time != usage.update_time
            seen = now if is_new or before is None else before.seen
            is_first = before is None or (before.is_first and not is_new)
            entry.report = _Report(usage=usage, seen=seen, is_first=is_first)
        else:
            return
        self.dirty.add(name)

    def forget_metric(self, metric: WatchedNodeMetric) -> None:
        """Forget the report of a node."""
        entry = self._nodes.get(metric.metadata.name)
        if entry is not None:
            entry.report = None
            self._mark_or_drop(metric.metadata.name)

    def observe_pod(self, pod: WatchedPod) -> None:
        """Record a pod that is bound to a node."""
        if pod.sums is None:
            return
        pods = self._entry(pod.node).pods
        if pods.get(pod.metadata.uid) != pod.sums:
            pods[pod.metadata.uid] = pod.sums
            self.dirty.add(pod.node)

    def forget_pod(self, pod: WatchedPod) -> None:
        """Forget a pod that is gone or has ended."""
        for name in {pod.node, pod.spec.node_name} - {""}:
            entry = self._nodes.get(name)
            if entry is not None and entry.pods.pop(pod.metadata.uid, None) is not None:
                self._mark_or_drop(name)

    def observe_configuration(self, config_map: ConfigMap) -> None:  # noqa: ARG002 - the configuration has read it
        """Mark all nodes if the strategies may have changed."""
        if self._seen is not self._configuration.current:
            self._seen = self._configuration.current
            self.mark_all_dirty()

    def mark_all_dirty(self) -> None:
        """Mark all nodes as dirty."""
        self.dirty.update(self._nodes)

    def view(self, name: str, *, now: Moment) -> BatchView | None:
        """Return the view for a decision about a node; None if the node does not exist."""
        entry = self._nodes.get(name)
        if entry is None or entry.node is None:
            return None
        metadata = entry.node.metadata
        strategy = self._strategy(entry, metadata)
        offered = self._offered(entry, entry.node)
        stale_at = self._stale_at(entry.report, strategy, now=now)
        batch_sum = sum_batch(
            self._batch_node(entry, entry.node, offered, now=now.instant),
            None if entry.report is None else entry.report.usage,
            tuple(entry.pods.values()),
            strategy.strategy,
            is_stale=stale_at <= now.instant,
        )
        entry.offered, entry.zero_reason = batch_sum.offered, batch_sum.cpu.zero_reason
        facts = self._node_facts(entry, name, strategy, batch_sum, now=now)
        events, events_at = node_events(facts, now=now.instant)
        overlaps = strategy.matching[:2] if strategy.strategy.enable else ()
        if len(overlaps) > 1:
            events = (*events, self._configuration.overlap_event(*overlaps))
        times = (stale_at, events_at, *(until for _, until in entry.recent))
        return BatchView(
            node=name,
            uid=metadata.uid,
            sum=batch_sum,
            offered=offered,
            strategy=strategy.strategy,
            last=entry.last,
            wake_at=min((at for at in times if at > now.instant), default=NEVER),
            events=events,
        )

    def record_write(self, write: WriteBatch, *, version: str, now: Instant) -> None:
        """Record a write: what was offered before still counts for a while."""
        entry = self._nodes.get(write.node)
        if entry is None or entry.node is None:
            return
        before = self._offered(entry, entry.node).amounts
        lately = before if entry.solid is None else _lesser(before, entry.solid)
        if not _covers(write.amounts, before):
            self._record_offer(entry, lately, now=now)
        entry.solid = _lesser(write.amounts, _greater(write.computed, started_batch(entry.pods.values())))
        entry.last = LastWrite(at=now, amounts=write.amounts, undone=write.undone)
        entry.written_version = version
        self.dirty.add(write.node)

    def _record_offer(self, entry: _NodeEntry, lately: BatchAmounts, *, now: Instant) -> None:
        entry.recent = [offer for offer in entry.recent if offer[1] > now] + [(lately, now + BIND_HORIZON)]

    def totals(self) -> tuple[BatchAmounts, Mapping[ZeroReason, int]]:
        """Return what all nodes offer together, and the number of nodes by why nothing is computed."""
        cpu = memory = 0
        zero: dict[ZeroReason, int] = dict.fromkeys(ZeroReason, 0)
        for entry in self._nodes.values():
            if entry.node is None:
                continue
            cpu += entry.offered.cpu
            memory += entry.offered.memory
            if entry.zero_reason is not None:
                zero[entry.zero_reason] += 1
        return BatchAmounts(cpu=cpu, memory=memory), zero

    def _batch_node(self, entry: _NodeEntry, node: AgentNode, offered: OfferedBatch, *, now: Instant) -> BatchNode:
        if entry.sums is None:
            entry.sums = batch_node(node)
        believed = _greater(offered.amounts, self._recent(entry, now=now))
        return msgspec.structs.replace(entry.sums, offered=believed)

    def _recent(self, entry: _NodeEntry, *, now: Instant) -> BatchAmounts:
        return reduce(_greater, (amounts for amounts, until in entry.recent if now < until), NO_BATCH)

    def _strategy(self, entry: _NodeEntry, metadata: ObjectMeta) -> NodeStrategy:
        configuration = self._configuration.current
        if entry.strategy is None or entry.strategy_by is not configuration:
            labels, annotations = metadata.labels or {}, metadata.annotations or {}
            entry.strategy = node_strategy(configuration, labels=labels, annotations=annotations)
            entry.strategy_by = configuration
        return entry.strategy

    def _offered(self, entry: _NodeEntry, node: AgentNode) -> OfferedBatch:
        written = entry.last.amounts
        if written is not None and is_older(node.metadata.resource_version, entry.written_version):
            pair = (written.cpu, written.memory)
            return OfferedBatch(capacity=pair, allocatable=pair)
        return offered_batch(node)

    def _stale_at(self, report: _Report | None, strategy: NodeStrategy, *, now: Moment) -> Instant:
        """Return when the report becomes stale, or became so; never if there is none."""
        if report is None:
            return NEVER
        if report.is_first and is_from_future(report.usage.update_time, wall=now.wall):
            return -NEVER
        age = report_age(report.usage.update_time, wall=now.wall, unchanged=now.instant - report.seen)
        left = strategy.strategy.degrade_time_minutes * _MINUTE - age
        return now.instant + left + _SLACK if left >= 0 else -NEVER

    def _node_facts(
        self, entry: _NodeEntry, name: str, strategy: NodeStrategy, batch_sum: BatchSum, *, now: Moment
    ) -> NodeFacts:
        node = entry.node
        reported = entry.report is not None and batch_sum.cpu.zero_reason is None
        entry.unreported = _still_unreported(entry, now=now.instant) if reported else {}
        return NodeFacts(
            name=name,
            uid=Uid("") if node is None else node.metadata.uid,
            strategy=strategy,
            zero_reason=batch_sum.cpu.zero_reason,
            from_future=entry.report is not None and is_from_future(entry.report.usage.update_time, wall=now.wall),
            is_undone=entry.last.undone >= PROMPT_REWRITES,
            unreported_since=tuple(sorted(entry.unreported.values())),
        )

    def _entry(self, name: str) -> _NodeEntry:
        entry = self._nodes.get(name)
        if entry is None:
            entry = self._nodes[name] = _NodeEntry()
        return entry

    def _mark_or_drop(self, name: str) -> None:
        self.dirty.add(name)
        self._drop_if_empty(name)

    def _drop_if_empty(self, name: str) -> None:
        if self._nodes[name].is_empty:
            del self._nodes[name]


def offered_batch(node: AgentNode) -> OfferedBatch:
    """Return what a Node's status has of both batch resources."""
    return OfferedBatch(capacity=_pair(node.status.capacity), allocatable=_pair(node.status.allocatable))


def _pair(resources: Mapping[str, str | int] | None) -> tuple[int | None, int | None]:
    return _units(resources, BATCH_CPU), _units(resources, BATCH_MEMORY)


def _units(resources: Mapping[str, str | int] | None, name: str) -> int | None:
    text = (resources or {}).get(name)
    if text is None:
        return None
    try:
        return int(quantities.parse(text))
    except MalformedQuantityError:
        return None


def _greater(one: BatchAmounts, other: BatchAmounts) -> BatchAmounts:
    return BatchAmounts(cpu=max(one.cpu, other.cpu), memory=max(one.memory, other.memory))


def _covers(one: BatchAmounts, other: BatchAmounts) -> bool:
    return one.cpu >= other.cpu and one.memory >= other.memory


def _lesser(one: BatchAmounts, other: BatchAmounts) -> BatchAmounts:
    return BatchAmounts(cpu=min(one.cpu, other.cpu), memory=min(one.memory, other.memory))


def _facts(node: AgentNode) -> tuple[object, ...]:
    """Return what of a Node the sum and the write depend on."""
    return node.status.capacity, node.status.allocatable, node.metadata.labels, node.metadata.annotations


def _still_unreported(entry: _NodeEntry, *, now: Instant) -> dict[Uid, Instant]:
    reported = _reported(entry.report.usage.pods if entry.report is not None else ())
    return {
        uid: entry.unreported.get(uid, now)
        for uid, pod in entry.pods.items()
        if pod.has_started and not pod.is_batch and uid not in reported and (pod.namespace, pod.name) not in reported
    }


def _reported(pods: Iterable[PodUsage]) -> frozenset[str | Key]:
    """Return the uids of reported pods, and the keys of those that are reported without."""
    return frozenset(pod.uid or (pod.namespace, pod.name) for pod in pods)
