"""The part of the agent for batch pods: each second it compares cgroups with what they are to have, and writes.

One decision (`dra.engine.suppression.decide`) and one plan of writes cover all CPU and memory files of the class
BestEffort, so that no file has two writers. CPUs go to the CPU driver, the writer of cpusets.

What is read each second is the quota of the class. All values of all cgroups are read when pods or containers have come
or gone, each `VALUES_INTERVAL` seconds, and after a refusal; the quotas of all cgroups when that of the class is to
change in cgroup v1, which keeps them consistent at each write.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from dra.api.colocation.strategies import SuppressPolicy, ThresholdStrategy
from dra.engine.cpus.cpusets import NO_CPUS
from dra.engine.instants import Instant
from dra.engine.reservations.node_reservation import effective_node_reservation
from dra.engine.suppression.budget import PodCpuUse, best_effort_budget
from dra.engine.suppression.decide import (
    Suppression,
    SuppressionView,
    decide_suppression,
)
from dra.engine.suppression.notices import BatchPodFacts, describe_facts
from dra.engine.suppression.quota import PERIOD_MICROS
from dra.engine.suppression.writes import CgroupFile, CgroupState, CgroupWrite, PlannedWrites, plan_writes
from dra.model import quantities
from dra.model.meta import Struct
from dra.model.node_pods import AgentNode
from dra.model.quantities import CPU, NANOS_PER_UNIT
from kubeletplugin.cgroups.cgroup_names import CgroupPath
from kubeletplugin.colocation.batch_pods.cgroup_values import ClassCgroups, Extent
from kubeletplugin.colocation.batch_pods.metrics import BatchPodMetrics
from kubeletplugin.colocation.batch_pods.pod_targets import PodTargets, container_ids, pod_targets
from kubeletplugin.colocation.batch_pods.suppression_mark import SuppressionMark
from kubeletplugin.colocation.batch_pods.written_values import WrittenValues
from kubeletplugin.colocation.node_state import NodeState, PodOnNode
from kubeletplugin.contract import BestEffortLimitable
from kubeletplugin.node_events import NodeAction, NodeEventRecorder

VALUES_INTERVAL: Final = 10.0
"""Seconds between two readings of all values, if no pod comes or goes."""

EVENT_INTERVAL: Final = 3600.0
"""Seconds between two Events for the same reason."""

_NANOS_PER_MILLI: Final = NANOS_PER_UNIT // 1000
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_NO_TARGETS: Final = PodTargets(targets={}, fractions=(), outside=(), pods=0)

_log: Final = logging.getLogger(__name__)


class _Round(Struct, frozen=True):
    """The values that one round has read and written."""

    planned: PlannedWrites = PlannedWrites(writes=())
    targets: PodTargets = _NO_TARGETS
    reset: tuple[CgroupPath, ...] = ()
    refused: tuple[str, ...] = ()
    partly_read: tuple[CgroupPath, ...] = ()


class BatchPods:
    """Writes the limits of batch pods, and holds the class BestEffort back."""

    name = "batch-pods"

    def __init__(
        self,
        *,
        node: str,
        writer: BestEffortLimitable | None,
        events: NodeEventRecorder,
        metrics: BatchPodMetrics,
        mark: SuppressionMark,
    ) -> None:
        """Create the part; nothing is read yet. `writer` writes cpusets; None: nobody does on this node."""
        self._node = node
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._mark = mark
        self._written = WrittenValues()
        self._period = PERIOD_MICROS
        """The period of the class when its quota was written last."""

        self._began: Instant | None = None
        self._values_at: Instant | None = None
        """When all values were read last; None: to be read at once."""

        self._seen: frozenset[object] = frozenset()
        self._capacity_milli = (os.cpu_count() or 1) * 1000
        self._reported_at: dict[str, Instant] = {}
        """Reason → when its last Event was recorded."""

        self.suppression = Suppression()

    async def step(self, state: NodeState, now: Instant) -> None:
        """Bring the cgroups of the class to what they are to have. Raises OSError for what is tried again."""
        self._began = now if self._began is None else self._began
        if state.hierarchies is None or state.strategies is None:
            return
        strategy = state.strategies.threshold
        cgroups = await asyncio.to_thread(ClassCgroups.find, state.hierarchies)
        if cgroups is None:
            return
        states = await asyncio.to_thread(cgroups.read, Extent.CLASS)
        if not states:
            return
        suppression = self.suppression = decide_suppression(self._view(state, strategy, states, now))
        if self._writer is not None:
            self._writer.limit_best_effort(suppression.cpus)
        extent = self._extent(state, suppression, states[0], now, is_v2=cgroups.is_v2)
        # Until the round has succeeded: if it raises or a write is refused, the next round reads all values again.
        self._values_at = None if extent is Extent.VALUES else self._values_at
        this = await asyncio.to_thread(self._bring, cgroups, extent, state.pods, states, suppression)
        if extent is Extent.VALUES and not this.refused:
            self._values_at = now
        self._metrics.observe(suppression, period=states[0].period)
        self._tell(this, suppression, now, policy=strategy.cpu_suppress_policy)

    def _view(
        self, state: NodeState, strategy: ThresholdStrategy, states: Sequence[CgroupState], now: Instant
    ) -> SuppressionView:
        of_class, above = states[0], states[-1]
        sample, class_path = state.sample, of_class.path
        self._capacity_milli = _capacity_milli(state.node) or self._capacity_milli
        in_class = {pod.pod.metadata.uid for pod in state.pods if _is_in(pod, class_path)}
        # Without any sample the age counts from the first step: use that is never measured has to be noticed, too.
        budget, sampled_at = None, self._began or now
        if sample is not None and sample.pods_at is not None and sample.system_cpu_milli is not None:
            sampled_at = min(sample.at, sample.pods_at)
            budget = best_effort_budget(
                capacity_milli=self._capacity_milli,
                pods=(
                    PodCpuUse(milli=use.cpu_milli, is_best_effort=uid in in_class) for uid, use in sample.pods.items()
                ),
                system_milli=sample.system_cpu_milli,
                reserved_milli=_reserved_milli(state.node),
                threshold_percent=strategy.cpu_suppress_threshold_percent,
                min_percent=strategy.cpu_suppress_min_percent,
            ).result
        # Another process may have changed the period: quotas are compared as shares of the same period.
        ours = self._written.get(class_path, CgroupFile.QUOTA)
        return SuppressionView(
            strategy=strategy,
            has_pods=bool(in_class),
            capacity_milli=self._capacity_milli,
            sample_age=now - sampled_at,
            budget_milli=budget,
            has_quotas=of_class.has_quota,
            quota=of_class.quota,
            ours=None if ours is None else ours * of_class.period // self._period,
            period=of_class.period,
            bound=None if above.path or above.quota is None else above.quota * of_class.period // above.period,
            candidates=None if self._writer is None else self._writer.best_effort_candidates(),
            cpus=NO_CPUS if self._writer is None else self._writer.best_effort_limit,
        )

    def _extent(
        self, state: NodeState, suppression: Suppression, of_class: CgroupState, now: Instant, *, is_v2: bool
    ) -> Extent:
        """Return what has to be read now."""
        seen = frozenset((pod.cgroup, pod.has_containers, *container_ids(pod.pod)) for pod in state.pods if pod.cgroup)
        if seen != self._seen or self._values_at is None or now - self._values_at >= VALUES_INTERVAL:
            self._seen = seen
            return Extent.VALUES
        is_as_wanted = suppression.quota == of_class.quota or (suppression.quota is None and not self._mark.is_set)
        return Extent.CLASS if is_v2 or is_as_wanted else Extent.QUOTAS

    def _bring(
        self,
        cgroups: ClassCgroups,
        extent: Extent,
        pods: Iterable[PodOnNode],
        states: tuple[CgroupState, ...],
        suppression: Suppression,
    ) -> _Round:
        """Read what is needed, plan, and write. Raises OSError."""
        targets, quotas_only = _NO_TARGETS, extent is not Extent.VALUES
        if extent is not Extent.CLASS:
            states, targets = cgroups.read(extent), pod_targets(pods, cgroups)
        if not states:
            return _Round()
        undone = tuple(self._written.reset_by_others(states, quotas_only=quotas_only))
        # A quota without the mark of this plugin is another's: it is planned as it stands, and so not lifted.
        is_foreign = suppression.quota is None and not self._mark.is_set
        planned = plan_writes(
            states,
            targets.of_quotas if quotas_only else targets.targets,
            class_path=cgroups.path,
            class_quota=states[0].quota if is_foreign else suppression.quota,
            unified=cgroups.is_v2,
            page_bytes=_PAGE_BYTES,
        )
        written = {(write.path, write.file) for write in planned.writes}
        reset = tuple(
            write
            for write in undone
            if (write.path, write.file) in written and not _is_lifted_by_kubelet(write, states[0])
        )
        for write in reset:
            self._metrics.reset_by_others.labels(write.file.value).inc()
        if suppression.quota is not None:
            # Before the quota: if this process ends in between, the next one finds the mark and lifts the quota.
            self._mark.set(cgroups.kubepods)
            if states[0].quota == suppression.quota:  # written by us before, or just as well by another instance
                self._written.record(CgroupWrite(path=cgroups.path, file=CgroupFile.QUOTA, value=suppression.quota))
        refused = self._write(cgroups, planned, ours={cgroups.path, *targets.targets})
        self._period = states[0].period
        if suppression.quota is None and not refused:
            self._written.forget(cgroups.path, CgroupFile.QUOTA)
            # Last: while a quota may be left, the mark has to stay.
            self._mark.remove()
        if not quotas_only:
            self._written.keep_only(state.path for state in states)
            self._metrics.limited_pods.set(targets.pods)
            self._metrics.memory_over_limit.set(len(planned.memory_in_use))
        return _Round(
            planned=planned,
            targets=targets,
            reset=tuple(write.path for write in reset),
            refused=tuple(refused),
            partly_read=cgroups.partly_read,
        )

    def _write(self, cgroups: ClassCgroups, planned: PlannedWrites, *, ours: set[CgroupPath]) -> list[str]:
        """Write what is planned; return a text about each refusal, except for memory that is in use (v1)."""
        refused = []
        for write in planned.writes:
            try:
                if cgroups.write(write) and write.path in ours:
                    self._written.record(write)
            except OSError as error:
                if write.file is CgroupFile.MEMORY and error.errno == errno.EBUSY:
                    continue
                self._metrics.refused.labels(write.file.value).inc()
                refused.append(f"{write.file} {write.value}: {error}")
        return refused

    def _tell(self, this: _Round, suppression: Suppression, now: Instant, *, policy: SuppressPolicy) -> None:
        """Record Events, the same reason once an hour."""
        facts = BatchPodFacts(
            suppression=suppression,
            policy=policy,
            reset=_names(this.reset),
            refused=this.refused,
            partly_read=_names(this.partly_read),
            memory_over_limit=_names(this.planned.memory_in_use),
            idle=_names(this.planned.idle),
            fractions=this.targets.fractions,
            outside=this.targets.outside,
        )
        for notice in describe_facts(facts):
            if now - self._reported_at.get(notice.reason, float("-inf")) >= EVENT_INTERVAL:
                self._reported_at[notice.reason] = now
                _log.warning("node %s: %s", self._node, notice.text)
                self._events.record_warning(notice.reason.value, notice.text, action=NodeAction.LIMIT)


def create_batch_pods(
    *,
    node: str,
    drivers: Iterable[object],
    events: NodeEventRecorder,
    registry: CollectorRegistry,
    marks: Path,
) -> BatchPods:
    """Return the part; raises ValueError if two drivers write cpusets, which undo each other's writes."""
    writers = [driver for driver in drivers if isinstance(driver, BestEffortLimitable)]
    if len(writers) > 1:
        raise ValueError(f"node {node}: {len(writers)} drivers write cpusets of pods; run one of them")
    return BatchPods(
        node=node,
        writer=writers[0] if writers else None,
        events=events,
        metrics=BatchPodMetrics(registry),
        mark=SuppressionMark(marks),
    )


def _names(paths: Iterable[CgroupPath]) -> tuple[str, ...]:
    return tuple("/".join(path) for path in paths)


def _is_lifted_by_kubelet(write: CgroupWrite, of_class: CgroupState) -> bool:
    """Report whether a kubelet with the systemd driver explains a lifted quota.

    Each minute it sets the shares of the class, and systemd then writes all CPU values of the slice, as it knows them
    (koordinator#1734, kubernetes#138431).
    """
    return write.path == of_class.path and of_class.quota is None and write.path[-1].endswith(".slice")


def _is_in(pod: PodOnNode, class_path: CgroupPath) -> bool:
    return pod.cgroup is not None and pod.cgroup[: len(class_path)] == class_path


def _capacity_milli(node: AgentNode | None) -> int | None:
    """Return the milli-CPUs of the Node's capacity; None while it is unknown."""
    capacity = quantities.from_validated_list(node.status.capacity if node is not None else None)
    return capacity.get(CPU, 0) // _NANOS_PER_MILLI or None


def _reserved_milli(node: AgentNode | None) -> int:
    """Return what the kubelet or the Node's annotation reserves for the system, whichever is more, in milli-CPUs."""
    if node is None:
        return 0
    capacity, allocatable = (
        quantities.from_validated_list(amounts).get(CPU) for amounts in (node.status.capacity, node.status.allocatable)
    )
    by_kubelet = 0 if capacity is None or allocatable is None else capacity - allocatable
    by_annotation = effective_node_reservation(node, before=None).reservation.amounts.get(CPU, 0)
    return max(by_kubelet, by_annotation, 0) // _NANOS_PER_MILLI
