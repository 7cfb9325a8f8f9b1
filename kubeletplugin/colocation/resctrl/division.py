"""Divides L3 cache and memory bandwidth of the node between QoS classes, as the ConfigMap says.

A round reads the control groups and the threads of pods, asks `dra.engine.resctrl.decide` for the next steps, carries
them out, and starts over until nothing is left to do: threads are created while others are moved. Threads inherit the
group of the thread that creates them, so what a round misses is little, and the next round finds it.

Nothing is remembered between rounds but what was told. A plugin that stops gives all groups the full masks: its pod may
be deleted for good, and a plugin that is only restarted divides again in its first round.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Final

from dra.engine.instants import Instant
from dra.engine.resctrl.actions import MakeGroup, MoveTasks, RecordGroups, ResctrlAction, WriteLine, refusal
from dra.engine.resctrl.decide import ClassShare, ResctrlPlan, ResctrlView, decide
from dra.engine.resctrl.groups import ResctrlGroup, resctrl_group, runs_in_virtual_machine
from dra.engine.resctrl.reasons import ResctrlReason
from dra.engine.resctrl.shares import class_shares
from dra.engine.resctrl.tree import ResctrlTree
from kubeletplugin.colocation.node_state import NodeState, PodOnNode
from kubeletplugin.colocation.resctrl.group_record import GroupRecord
from kubeletplugin.colocation.resctrl.metrics import ResctrlMetrics
from kubeletplugin.colocation.resctrl.resctrl_files import ResctrlFiles
from kubeletplugin.colocation.resctrl.task_lists import read_pod_threads
from kubeletplugin.node_events import NodeAction, NodeEventRecorder

INTERVAL: Final = 5.0
"""Seconds between rounds while neither the strategy nor the cgroups of pods change."""

PASSES_MAX: Final = 8
"""Decisions of one round at most: a pod may create threads faster than they are moved."""

_log: Final = logging.getLogger(__name__)


class ResctrlDivision:
    """The part of the agent that divides cache and memory bandwidth."""

    name = "resctrl"

    def __init__(
        self, files: ResctrlFiles, record: GroupRecord, *, events: NodeEventRecorder, metrics: ResctrlMetrics
    ) -> None:
        self._files = files
        self._record = record
        self._events = events
        self._metrics = metrics
        self._told: frozenset[ResctrlReason] = frozenset()
        self._done: object = None
        self._due = float("-inf")

    async def step(self, state: NodeState, now: Instant) -> None:
        """Divide as the strategy says, or restore what was divided; raises OSError where files cannot be read."""
        shares = class_shares(state.strategies)
        if shares is None:
            return
        cause = (shares, tuple((pod.cgroup, pod.has_containers) for pod in state.pods))
        if cause == self._done and now < self._due:
            return
        self._due = now + INTERVAL
        self._report(await asyncio.to_thread(self._divide, state, shares))
        self._done = cause

    def restore(self) -> None:
        """Give all recorded groups the full masks, without waiting; what fails is logged."""
        try:
            for reason in self._divide(None, {}):
                _log.warning("%s", reason.text)
        except OSError as error:
            _log.warning("resctrl: control groups keep their limits: %s", error)

    def _divide(self, state: NodeState | None, shares: Mapping[ResctrlGroup, ClassShare]) -> tuple[ResctrlReason, ...]:
        """Return the reasons for what is not divided."""
        plan, refused = ResctrlPlan(), []
        for _ in range(PASSES_MAX):
            previous, plan = plan, decide(self._view(state, shares))
            if not plan.actions or plan == previous:
                break
            refused = list(self._carry_out(plan.actions))
        return (*plan.reasons, *(refused if plan.actions else ()))

    def _view(self, state: NodeState | None, shares: Mapping[ResctrlGroup, ClassShare]) -> ResctrlView:
        recorded = self._record.read()
        if not shares and not recorded:
            return ResctrlView(tree=ResctrlTree(), shares=shares)
        pods = [pod for pod in (state.pods if state is not None else ()) if _group(pod) in shares]
        excluded = [pod for pod in pods if runs_in_virtual_machine(pod.pod.spec.runtime_class_name)]
        return ResctrlView(
            tree=self._files.read_tree(),
            shares=shares,
            recorded=recorded,
            threads=_threads(state, (pod for pod in pods if pod not in excluded)),
            host_pids=self._files.sees_host_pids(),
            excluded_pods=tuple(sorted("/".join(pod.pod.metadata.key) for pod in excluded)),
        )

    def _carry_out(self, actions: Iterable[ResctrlAction]) -> Iterable[ResctrlReason]:
        """Yield the reasons for actions that fail; without a record of the groups, none of them is changed."""
        for action in actions:
            try:
                self._apply(action)
            except OSError as error:
                number = error.errno or 0
                text = ": ".join(filter(None, (os.strerror(number), self._files.last_status())))
                if reason := refusal(action, error=number, text=text):
                    yield reason
                if isinstance(action, RecordGroups):
                    return

    def _apply(self, action: ResctrlAction) -> None:
        match action:
            case RecordGroups(groups):
                self._record.write(groups)
            case MakeGroup(group):
                self._files.make_group(group)
            case WriteLine(group, line):
                self._files.write_line(group, line)
                self._metrics.lines.labels(group.value).inc()
                _log.info("resctrl group %s: %s", group, line.strip())
            case MoveTasks(group, tasks):
                self._metrics.threads.labels(group.value).inc(self._files.move_tasks(group, tasks))

    def _report(self, reasons: Iterable[ResctrlReason]) -> None:
        """Record an Event for each reason that was not there in the last round."""
        present = frozenset(reasons)
        for reason in sorted(present - self._told, key=lambda reason: reason.text):
            self._events.record_warning(reason.code, reason.text, action=NodeAction.DIVIDE)
        self._told = present
        self._metrics.show(present)


def _group(pod: PodOnNode) -> ResctrlGroup | None:
    return resctrl_group(pod.pod, kubernetes_qos=pod.pod.status.qos_class)


def _threads(state: NodeState | None, pods: Iterable[PodOnNode]) -> dict[ResctrlGroup, frozenset[int]]:
    """Return the ids of the threads of pods by group."""
    threads: dict[ResctrlGroup, frozenset[int]] = {}
    if state is None or state.hierarchies is None:
        return threads
    for pod in pods:
        group = _group(pod)
        if group is not None and pod.cgroup is not None:
            threads[group] = threads.get(group, frozenset()) | read_pod_threads(state.hierarchies, pod.cgroup)
    return threads
