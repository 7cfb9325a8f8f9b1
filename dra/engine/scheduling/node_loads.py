"""The real load of nodes for the scheduler: what NodeMetrics report, and an estimate for pods placed since.

A report is up to a minute old, and an average of minutes; a pod that it does not name yet counts with a part of its
requests, as soon as its binding is decided: or all pods of a minute would go to the node that was empty. A node whose
report is missing, expired or from the future is neither refused nor favored. The model is Koordinator's
LoadAwareScheduling.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.colocation.node_usage import NodeUsage as ReportedUsage
from dra.engine.colocation.staleness import is_from_future, report_age
from dra.engine.colocation.watched import WatchedNodeMetric
from dra.engine.instants import WallTime
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.engine.reservations.node_usage import NodeUsage
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.extender_protocol import MAX_EXTENDER_PRIORITY, ExtenderFilterResult, HostPriority
from dra.model.meta import Struct
from dra.model.quantities import CPU, NANOS_PER_UNIT, Amounts
from dra.model.scheduling import SchedulerPod

MEMORY: Final = "memory"

NO_REQUEST: Final = {CPU: NANOS_PER_UNIT // 4, MEMORY: 200 * 2**20 * NANOS_PER_UNIT}
"""Estimate for a pod without requests: a quarter of a CPU, 200 MiB; as Koordinator."""

RETRY_SECONDS: Final = 60.0
"""Seconds after which a pod with refused nodes is tried again: the time between two reports."""

_DAEMON_SET: Final = "DaemonSet"


class LoadPolicy(Struct, frozen=True):
    """The thresholds and weights of load-aware scheduling, by resource: cpu and memory."""

    thresholds: Mapping[str, float]
    """Percent of what a node has for pods, above which the node is refused."""
    weights: Mapping[str, int]
    scaling: Mapping[str, float]
    """Percent of its requests that a pod is estimated to use."""
    expiration: float
    """Age in seconds from which on a report does not count."""


class _Memo(Struct, frozen=True):
    """The load of a node with the two values that it was computed from."""

    report: ReportedUsage
    node: NodeUsage
    load: Amounts


class NodeLoads:
    """The loads of all nodes, computed when they are asked for and kept until a report or a pod changes."""

    def __init__(self, cache: SchedulerCache, policy: LoadPolicy) -> None:
        """Create the loads of the nodes in a cache; nothing is reported yet."""
        self._cache = cache
        self.policy = policy
        self._reports: dict[str, ReportedUsage] = {}
        self._memos: dict[str, _Memo] = {}

    def observe(self, metric: WatchedNodeMetric) -> None:
        """Take the report of a node."""
        name = metric.metadata.name
        if metric.usage is None:
            self._reports.pop(name, None)
        else:
            self._reports[name] = metric.usage

    def forget(self, metric: WatchedNodeMetric) -> None:
        """Drop the report of a node."""
        self._reports.pop(metric.metadata.name, None)
        self._memos.pop(metric.metadata.name, None)

    def load(self, node: str, *, now: WallTime) -> tuple[Amounts, Amounts] | None:
        """Return the load and the capacity of a node, in billionths; None if its load is not known."""
        report, usage = self._reports.get(node), self._cache.accounting.node(node)
        if report is None or usage is None or not report.is_complete or is_from_future(report.update_time, wall=now):
            return None
        if report_age(report.update_time, wall=now, unchanged=0.0) >= self.policy.expiration:
            return None
        memo = self._memos.get(node)
        if memo is None or memo.report is not report or memo.node is not usage:
            memo = self._memos[node] = _Memo(report=report, node=usage, load=self._sum(node, report))
        return memo.load, usage.capacity

    def estimate(self, requests: Amounts) -> dict[str, int]:
        """Return what a pod with these requests is expected to use."""
        known = {
            CPU: requests.get(CPU, 0) + requests.get(BATCH_CPU, 0) // 1000,
            MEMORY: requests.get(MEMORY, 0) + requests.get(BATCH_MEMORY, 0),
        }
        return {
            name: int(amount * self.policy.scaling.get(name, 100.0) / 100) if amount else NO_REQUEST[name]
            for name, amount in known.items()
        }

    def _sum(self, node: str, report: ReportedUsage) -> Amounts:
        load = {CPU: report.system.cpu or 0, MEMORY: report.system.memory or 0}
        by_uid = {reported.uid: reported for reported in report.pods if reported.uid}
        by_name = {(reported.namespace, reported.name): reported for reported in report.pods if not reported.uid}
        for assignment in self._cache.accounting.pods_on_node(node):
            pod = assignment.pod
            reported = by_uid.get(pod.uid) or by_name.get(pod.key)
            used = self.estimate(pod.amounts)
            if reported is not None:
                for name, amount in ((CPU, reported.usage.cpu), (MEMORY, reported.usage.memory)):
                    used[name] = used[name] if amount is None else amount
            for name, amount in used.items():
                load[name] += amount
        return load


def filter_nodes(loads: NodeLoads, pod: SchedulerPod, names: Sequence[str], *, now: WallTime) -> ExtenderFilterResult:
    """Return the nodes that are not loaded above a threshold, and why the others are refused.

    A pod of a DaemonSet is refused nowhere: it runs on its node or not at all.
    """
    owners = pod.metadata.owner_references or ()
    if any(owner.controller and owner.kind == _DAEMON_SET for owner in owners):
        return ExtenderFilterResult(node_names=list(names))
    refused = {name: text for name in names if (text := _refusal(loads, name, now=now))}
    return ExtenderFilterResult(node_names=[name for name in names if name not in refused], failed_nodes=refused)


def prioritize_nodes(loads: NodeLoads, pod: SchedulerPod, names: Sequence[str], *, now: WallTime) -> list[HostPriority]:
    """Return the scores of nodes by the headroom that is left with the pod; a node of unknown load has none."""
    estimate = loads.estimate(pod_requests(pod))
    scores = ((name, _score(loads, name, estimate, now=now)) for name in names)
    return [HostPriority(host=name, score=score) for name, score in scores if score]


def _refusal(loads: NodeLoads, node: str, *, now: WallTime) -> str:
    known = loads.load(node, now=now)
    if known is None:
        return ""
    load, capacity = known
    for name, threshold in loads.policy.thresholds.items():
        there = capacity.get(name, 0)
        if there and load[name] * 100 > there * threshold:
            return f"node(s) {name} usage exceed threshold ({load[name] * 100 / there:.0f}% > {threshold:g}%)"
    return ""


def _score(loads: NodeLoads, node: str, estimate: Amounts, *, now: WallTime) -> int:
    known = loads.load(node, now=now)
    if known is None:
        return 0
    load, capacity = known
    total = sum(loads.policy.weights.values())
    headroom = 0.0
    for name, weight in loads.policy.weights.items():
        there = capacity.get(name, 0)
        left = max(0, there - load[name] - estimate[name])
        headroom += weight * left / there if there else 0.0
    return int(MAX_EXTENDER_PRIORITY * headroom / total) if total else 0
