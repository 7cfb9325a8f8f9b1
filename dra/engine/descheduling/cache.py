"""The memory of the loop of rounds: when a round is due, and what plugins remember from one round to the next.

There is one key, `ROUND`: all profiles take part in a round, since the Deschedule plugins of all of them come before
the Balance plugins. A round is due at the end of the interval, and earlier after a change that triggers one. Rounds
after changes are `DEBOUNCE_SECONDS` apart, and further apart where rounds take long, so that whoever makes pods that no
node fits cannot keep the process busy.

The objects themselves are in the informers; only what no informer stores is kept here.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dra.api.migration.model import ENDED_PHASES, PodMigrationJob
from dra.engine.colocation.staleness import report_time
from dra.engine.colocation.watched import WatchedNodeMetric, reported_usage, trim_metric
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.triggers import (
    CompiledTriggers,
    NodeTraits,
    TriggerKind,
    is_hot,
    is_unschedulable,
    node_traits,
)
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER, Instant, WallTime
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import PartialObjectMetadata, Uid, UnstructuredObject
from dra.model.node_metrics import NodeMetric
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget, PriorityClass
from dra.model.scheduling import SchedulerNode
from dra.model.slices import ResourceSlice
from dra.model.volumes import PersistentVolume, PersistentVolumeClaim

ROUND: Final = "round"
"""The one key of the loop."""

DEBOUNCE_SECONDS: Final = 5.0
"""Minimum seconds from the end of a round to one that a change triggers."""

EXPIRATION_SECONDS: Final = 180.0
"""Age of a NodeMetric from which on it counts as expired in the metric, as by default in LowNodeLoad."""

REST: Final = 4.0
"""Minimum rest after a round, as a multiple of its duration."""


class DeschedulingCache(Cache[str]):
    """When the next round is due, and the memory of plugins."""

    def __init__(
        self,
        *,
        interval: float,
        thresholds: Mapping[str, float] | None = None,
        triggers: CompiledTriggers | None = None,
    ) -> None:
        """Create the cache of a loop that has run no round.

        ``interval``: seconds between rounds, 0 for one round alone; ``thresholds``: as in `is_hot`.
        """
        self.dirty: DirtyKeys[str] = DirtyKeys()
        self.memory: dict[str, Any] = {}
        """What plugins keep until the next round, by ``PROFILE/PLUGIN``."""
        self.node_metrics: dict[str, WatchedNodeMetric] = {}
        """Node → what it reports, trimmed to the amounts."""
        self._interval = interval
        self._thresholds = thresholds or {}
        self._triggers = triggers or CompiledTriggers()
        self._nodes: dict[str, NodeTraits] = {}
        self._unschedulable: set[Uid] = set()
        self._cause = ""
        """The change that makes a round due; empty if none has happened since the last round."""
        self._rounds = 0
        self._begun: Instant = -NEVER
        self._earliest: Instant = -NEVER
        """When a round may follow the last one."""

    # When a round is due

    def mark_all_dirty(self) -> None:
        """Make a round due at once: this replica begins to act."""
        self.dirty.add(ROUND)

    def settle(self, *, now: Instant) -> None:
        """Make a round due if a change has triggered one."""
        if self._cause and not self._is_over:
            self.dirty.add(ROUND, due=max(now, self._earliest))

    def discard_dirty(self) -> None:
        """Forget the changes that were seen: another replica acts on them."""
        super().discard_dirty()
        self._cause = ""

    @property
    def _is_over(self) -> bool:
        """Whether the one round is done that an interval of 0 allows."""
        return not self._interval and self._rounds > 0

    @property
    def rests_until(self) -> Instant:
        """When a round may begin at the earliest; never again after the one round of an interval of 0."""
        return NEVER if self._is_over else self._earliest

    def request_round(self, cause: str) -> None:
        """Make a round due at once; ``cause`` is the change that triggers it, the object first."""
        self._cause = self._cause or cause

    def begin_round(self, *, now: Instant) -> str:
        """Record that a round begins; return the change that triggered it, empty for the interval."""
        cause, self._cause = self._cause, ""
        self._begun = now
        return cause

    def end_round(self, *, now: Instant) -> Instant:
        """Record that a round has ended; return when the next one is due."""
        self._rounds += 1
        self._earliest = now + max(DEBOUNCE_SECONDS, REST * (now - self._begun))
        return NEVER if self._is_over else max(self._earliest, self._begun + self._interval)

    # Changes

    def observe_node(self, node: SchedulerNode) -> None:
        """Record a node; one that is new, or changed in what decides about pods, triggers a round."""
        name, traits = node.metadata.name, node_traits(node)
        if self._nodes.get(name) != traits:
            self.request_round(f"node {name}: {'changed' if name in self._nodes else 'new'}")
            self._nodes[name] = traits
        if self._triggers.fires(TriggerKind.NODE, node):
            self.request_round(f"node {name}: a plugin's trigger")

    def forget_node(self, node: SchedulerNode) -> None:
        """Remove a node that is gone."""
        self._nodes.pop(node.metadata.name, None)
        self._triggers.forget(TriggerKind.NODE, node.metadata.uid)

    def observe_pod(self, pod: DeschedulingPod) -> None:
        """Look at a pod; one that has just been found unschedulable triggers a round."""
        uid = pod.metadata.uid
        if not is_unschedulable(pod):
            self._unschedulable.discard(uid)
        elif uid not in self._unschedulable:
            self._unschedulable.add(uid)
            self.request_round(f"pod {'/'.join(pod.metadata.key)}: fits on no node")
        if self._triggers.fires(TriggerKind.POD, pod):
            self.request_round(f"pod {'/'.join(pod.metadata.key)}: a plugin's trigger")

    def forget_pod(self, pod: DeschedulingPod) -> None:
        """Forget a pod that is gone."""
        self._unschedulable.discard(pod.metadata.uid)
        self._triggers.forget(TriggerKind.POD, pod.metadata.uid)

    def observe_node_metric(self, metric: WatchedNodeMetric) -> None:
        """Record what a node reports; a new report above a threshold triggers a round.

        The report is trimmed in place, once the triggers of plugins have seen all of it: nobody else reads it.
        """
        fires = self._triggers.fires(TriggerKind.NODE_METRIC, metric)
        trim_metric(metric)
        name, before = metric.metadata.name, self.node_metrics.get(metric.metadata.name)
        self.node_metrics[name] = metric
        is_new = before is None or _updated(before) != _updated(metric)
        node = self._nodes.get(name)
        if is_new and node is not None and is_hot(metric, dict(node.allocatable), thresholds=self._thresholds):
            self.request_round(f"node {name}: its use is above a threshold")
        if fires:
            self.request_round(f"nodemetric {name}: a plugin's trigger")

    def forget_node_metric(self, metric: WatchedNodeMetric) -> None:
        """Remove the report of a node."""
        self.node_metrics.pop(metric.metadata.name, None)
        self._triggers.forget(TriggerKind.NODE_METRIC, metric.metadata.uid)

    def expired_metrics(self, *, now: WallTime) -> int:
        """Return the number of nodes without a report in time; 0 where no plugin reads reports."""
        if not self._thresholds:
            return 0
        return sum(not self._is_in_time(name, now=now) for name in self._nodes)

    def _is_in_time(self, node: str, *, now: WallTime) -> bool:
        metric = self.node_metrics.get(node)
        made = None if metric is None else report_time(_updated(metric))
        return made is not None and now - made < EXPIRATION_SECONDS


def _updated(metric: NodeMetric) -> str:
    """Return when a report was made; empty before the first report."""
    usage = reported_usage(metric)
    return "" if usage is None else usage.update_time


def cluster_objects(  # noqa: PLR0913 - keyword-only: the kinds that a snapshot reads
    *,
    nodes: Iterable[SchedulerNode],
    pods: Iterable[DeschedulingPod],
    reservations: Iterable[UnstructuredObject],
    jobs: Iterable[PodMigrationJob],
    disruption_budgets: Iterable[PodDisruptionBudget],
    unavailable_budgets: Iterable[PodUnavailableBudget],
    node_metrics: Iterable[NodeMetric],
    namespaces: Iterable[PartialObjectMetadata],
    priority_classes: Iterable[PriorityClass],
    volumes: Iterable[PersistentVolume],
    volume_claims: Iterable[PersistentVolumeClaim],
    claims: Iterable[ResourceClaim],
    slices: Iterable[ResourceSlice],
    device_classes: Iterable[DeviceClass],
    server: str,
) -> ClusterObjects:
    """Return the objects of a snapshot; they are referred to, not copied."""
    ended: list[PodMigrationJob] = []
    unfinished: list[PodMigrationJob] = []
    for job in jobs:
        (ended if job.status.phase in ENDED_PHASES else unfinished).append(job)
    return ClusterObjects(
        nodes=tuple(nodes),
        pods=tuple(pods),
        reservations=tuple(reservations),
        jobs=tuple(unfinished),
        ended_jobs=tuple(ended),
        disruption_budgets=tuple(disruption_budgets),
        unavailable_budgets=tuple(unavailable_budgets),
        node_metrics=tuple(node_metrics),
        namespaces={namespace.metadata.name: namespace.metadata.labels or {} for namespace in namespaces},
        priority_classes={priority_class.metadata.name: priority_class.value for priority_class in priority_classes},
        volumes=tuple(volumes),
        volume_claims=tuple(volume_claims),
        claims=tuple(claims),
        slices=tuple(slices),
        device_classes=tuple(device_classes),
        server=server,
    )
