"""Divides L3 cache and memory bandwidth of the node between QoS classes, as the ConfigMap says.

A round reads the control groups and the threads of pods, asks `dra.engine.resctrl.decide` for the next steps, carries
them out, and starts over until nothing is left to do: threads are created while others are moved. Threads inherit the
group of the thread that creates them, so what a round misses is little, and the next round finds it.

Only the reported reasons are remembered between rounds. A plugin that stops gives all groups the full masks: its pod
may be deleted for good, and a plugin that is only restarted divides again in its first round.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from dra.engine.instants import Instant
from dra.engine.resctrl.decide import ClassShare, ResctrlView, class_shares
from dra.engine.resctrl.groups import ResctrlGroup, resctrl_group, runs_in_virtual_machine
from dra.engine.resctrl.reasons import ResctrlReason
from dra.engine.resctrl.tree import ResctrlTree
from kubeletplugin.cgroups.pod_cgroups import PodHierarchies
from kubeletplugin.colocation.node_state import NodeState, PodOnNode
from kubeletplugin.colocation.resctrl.group_writer import GroupWriter
from kubeletplugin.colocation.resctrl.metrics import ResctrlMetrics
from kubeletplugin.colocation.resctrl.task_lists import read_pod_threads
from kubeletplugin.node_events import NodeAction, NodeEventRecorder

INTERVAL: Final = 10.0
"""Seconds between rounds while neither the strategy nor the cgroups of pods change."""


class ResctrlDivision:
    """The part of the agent that divides cache and memory bandwidth."""

    name = "resctrl"

    def __init__(self, writer: GroupWriter, *, events: NodeEventRecorder, metrics: ResctrlMetrics) -> None:
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._reported: frozenset[ResctrlReason] = frozenset()
        self._done: object = None
        self._due = float("-inf")

    async def step(self, state: NodeState, now: Instant) -> None:
        """Divide as the strategy says, or restore what was divided; raises OSError where files cannot be read."""
        if state.strategies is None:
            return  # not read yet, which is not the same as switched off
        shares = class_shares(state.strategies.qos)
        cause = (shares, tuple((pod.cgroup, pod.has_containers) for pod in state.pods))
        if cause == self._done and now < self._due:
            return
        self._done, self._due = cause, now + INTERVAL
        self._report(await asyncio.to_thread(self._writer.settle, partial(self._view, state, shares)))

    def restore(self) -> None:
        """Give all groups of ours the full masks before the plugin stops."""
        self._writer.restore()

    def _view(self, state: NodeState, shares: Mapping[ResctrlGroup, ClassShare]) -> ResctrlView:
        recorded = self._writer.record.read()
        if not shares and not recorded:
            return ResctrlView(tree=ResctrlTree(), shares=shares)
        pods = [pod for pod in state.pods if _group(pod) in shares]
        excluded = [pod for pod in pods if runs_in_virtual_machine(pod.pod.spec.runtime_class_name)]
        tree = self._writer.files.read_tree()
        threads, unread = _read_threads(state.hierarchies, (pod for pod in pods if pod not in excluded))
        return ResctrlView(
            tree=tree,
            shares=shares,
            recorded=recorded,
            threads=threads,
            host_pids=self._writer.files.sees_host_pids(),
            excluded_pods=tuple(sorted("/".join(pod.pod.metadata.key) for pod in excluded)),
            unread_pods=tuple(unread),
        )

    def _report(self, reasons: Iterable[ResctrlReason]) -> None:
        """Record an Event for each reason that was not there in the last round."""
        present = frozenset(reasons)
        for reason in sorted(present - self._reported, key=lambda reason: reason.text):
            self._events.record_warning(reason.code, reason.text, action=NodeAction.DIVIDE)
        self._reported = present
        self._metrics.show(present)


def _group(pod: PodOnNode) -> ResctrlGroup | None:
    return resctrl_group(pod.pod, kubernetes_qos=pod.pod.status.qos_class)


def _read_threads(
    hierarchies: PodHierarchies | None, pods: Iterable[PodOnNode]
) -> tuple[dict[ResctrlGroup, set[int]], list[str]]:
    """Return the ids of the threads of pods by group, and the names of pods of which not all cgroups were read."""
    threads: dict[ResctrlGroup, set[int]] = defaultdict(set)
    unread = []
    for pod in pods:
        group = _group(pod)
        if hierarchies is not None and group is not None and pod.cgroup is not None:
            of_pod = read_pod_threads(hierarchies, pod.cgroup)
            threads[group] |= of_pod.ids
            unread += [] if of_pod.is_whole else ["/".join(pod.pod.metadata.key)]
    return threads, sorted(unread)
