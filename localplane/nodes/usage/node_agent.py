"""The agent of one emulated node: samples what the node uses, and makes the report of its NodeMetric.

Pure; the caller passes objects and time.
"""

from collections.abc import Iterable
from typing import Any, Final

from dra.engine.instants import Instant
from dra.engine.usage.history import UsageHistory
from dra.engine.usage.report import CollectPolicy, ReportedPod, make_report
from dra.model.koordinator_classes import (
    PRIORITY_CLASS_NAMES,
    QosClass,
    effective_priority_class,
    effective_qos_class,
)
from dra.model.node_pods import AgentNode, NodePod
from dra.model.quantities import CPU, NANOS_PER_UNIT, from_validated_list
from localplane.nodes.usage.contention import PodDemand, node_usage
from localplane.nodes.usage.counters import EmulatedCounters
from localplane.nodes.usage.demand import (
    DEFAULT_SYSTEM_USAGE,
    MEMORY,
    MalformedUsageError,
    Usage,
    pod_demand,
    requested_demand,
    system_demand,
)

BEST_EFFORT: Final = "BestEffort"
_RUNNING: Final = "Running"
_NANOS_PER_MILLI: Final = NANOS_PER_UNIT // 1000
_PRIORITY_NAMES: Final = {priority: name for name, priority in PRIORITY_CLASS_NAMES.items()}


class EmulatedAgent:
    """The agent of one node."""

    def __init__(self, node: AgentNode, *, now: Instant) -> None:
        policy = CollectPolicy()
        self._counters = EmulatedCounters(memory=capacity(node).memory, at=now)
        self._history = UsageHistory(node_seconds=policy.longest_seconds, pod_seconds=policy.aggregate_seconds)
        self._reported_at: Instant | None = None
        self.best_effort_limit: int | None = None
        """The milli-CPUs that the pods of the QoS class BestEffort may use together; None without a limit."""

    def observe(self, node: AgentNode, pods: Iterable[NodePod], policy: CollectPolicy, *, now: Instant) -> None:
        """Let pods and system use what they want, as far as there is, since the last call, and sample it."""
        usage = node_usage(
            (_demand(pod) for pod in pods if pod.status.phase == _RUNNING),
            system=_system_demand(node),
            cpus=capacity(node).cpu,
            best_effort_limit=self.best_effort_limit,
        )
        counted = self._counters.advance(usage, now=now)
        self._history.keep(node_seconds=policy.longest_seconds, pod_seconds=policy.aggregate_seconds)
        self._history.observe_node(counted.node)
        self._history.observe_round(counted, known=usage.pods)

    def report(
        self, pods: Iterable[NodePod], policy: CollectPolicy, *, now: Instant, update_time: str
    ) -> dict[str, Any] | None:
        """Return the status of the NodeMetric; None if no report is due, or if there is too little to report."""
        if self._reported_at is not None and now < self._reported_at + policy.report_seconds:
            return None
        status = make_report(self._history, map(_reported, pods), policy, now=now, update_time=update_time)
        if status is not None:
            self._reported_at = now
        return status


def capacity(node: AgentNode) -> Usage:
    """Return the CPUs and the memory that a node has."""
    amounts = from_validated_list(node.status.capacity)
    return Usage(cpu=amounts.get(CPU, 0) // _NANOS_PER_MILLI, memory=amounts.get(MEMORY, 0) // NANOS_PER_UNIT)


def _system_demand(node: AgentNode) -> Usage:
    try:
        return system_demand(node)
    except MalformedUsageError:
        return DEFAULT_SYSTEM_USAGE


def _demand(pod: NodePod) -> PodDemand:
    try:
        demand = pod_demand(pod)
    except MalformedUsageError:
        demand = requested_demand(pod)
    return PodDemand(uid=pod.metadata.uid, demand=demand, best_effort=pod.status.qos_class == BEST_EFFORT)


def _reported(pod: NodePod) -> ReportedPod:
    kubernetes_qos = pod.status.qos_class
    qos = effective_qos_class(pod, kubernetes_qos=kubernetes_qos)
    priority = effective_priority_class(pod, kubernetes_qos=kubernetes_qos)
    return ReportedPod(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        priority=_PRIORITY_NAMES.get(priority, ""),
        qos=qos.name if qos is not QosClass.NONE else "",
    )
