"""The agent of one emulated node: samples what the node uses, reports it, and holds best-effort pods back.

The decisions are those of the kubelet plugin; here they act on what pods use next, and there on cgroups. Pure; the
caller passes objects and time.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

from dra.api.colocation.strategies import ThresholdStrategy
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.engine.instants import Instant
from dra.engine.suppression.budget import PodCpuUse, best_effort_budget
from dra.engine.suppression.decide import (
    CpuCandidates,
    Suppression,
    SuppressionView,
    decide_suppression,
)
from dra.engine.suppression.quota import PERIOD_MICROS
from dra.engine.usage.history import UsageHistory
from dra.engine.usage.report import CollectPolicy, ReportedPod, make_report
from dra.engine.usage.samples import NodeSample
from dra.model.koordinator_classes import (
    PRIORITY_CLASS_NAMES,
    QosClass,
    effective_priority_class,
    effective_qos_class,
)
from dra.model.meta import Uid
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
        self._demands: dict[Uid, tuple[str, PodDemand]] = {}
        """The version of each pod, and what that version would use."""

        self._began_at = now
        self._reported_at: Instant | None = None
        self.suppression = Suppression()
        """How far the pods of the QoS class BestEffort are held back."""

    @property
    def sample(self) -> NodeSample | None:
        """Usage of the node and its pods in the last second; None before the second step."""
        return self._history.sample

    def observe(self, node: AgentNode, pods: Iterable[NodePod], policy: CollectPolicy, *, now: Instant) -> None:
        """Let pods and system use what they want, as far as there is, since the last call, and sample it."""
        usage = node_usage(
            self._running_demands(pods),
            system=_system_demand(node),
            cpus=capacity(node).cpu,
            best_effort_limit=_limit(self.suppression),
        )
        counted = self._counters.advance(usage, now=now)
        self._history.keep(node_seconds=policy.longest_seconds, pod_seconds=policy.aggregate_seconds)
        self._history.observe_node(counted.node)
        self._history.observe_round(counted, known=usage.pods)

    def _running_demands(self, pods: Iterable[NodePod]) -> Sequence[PodDemand]:
        """Return what the running pods would use; computed once for each version of a pod."""
        known, self._demands = self._demands, {}
        for pod in pods:
            if pod.status.phase == _RUNNING:
                uid, version = pod.metadata.uid, pod.metadata.resource_version
                before = known.get(uid)
                is_known = before is not None and before[0] == version
                self._demands[uid] = known[uid] if is_known else (version, _demand(pod))
        return [demand for _, demand in self._demands.values()]

    def hold_back(self, node: AgentNode, pods: Iterable[NodePod], strategy: ThresholdStrategy, *, now: Instant) -> None:
        """Decide how far the pods of the QoS class BestEffort are held back from now on."""
        best_effort = {pod.metadata.uid for pod in pods if pod.status.qos_class == BEST_EFFORT}
        sample, cpus = self._history.sample, capacity(node).cpu
        budget = None
        if sample is not None and sample.system_cpu_milli is not None:
            budget = best_effort_budget(
                capacity_milli=cpus,
                pods=[PodCpuUse(pod.cpu_milli, uid in best_effort) for uid, pod in sample.pods.items()],
                system_milli=sample.system_cpu_milli,
                threshold_percent=strategy.cpu_suppress_threshold_percent,
                min_percent=strategy.cpu_suppress_min_percent,
            ).result
        self.suppression = decide_suppression(
            SuppressionView(
                strategy=strategy,
                has_pods=bool(best_effort),
                capacity_milli=cpus,
                sample_age=now - (self._began_at if sample is None else sample.at),
                budget_milli=budget,
                quota=self.suppression.quota,
                ours=self.suppression.quota,
                candidates=_candidates(cpus // 1000),
                cpus=self.suppression.cpus,
            )
        )

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


def _limit(suppression: Suppression) -> int | None:
    """Return the milli-CPUs that a suppression leaves; None if it limits nothing."""
    if suppression.quota is not None:
        return suppression.quota * 1000 // PERIOD_MICROS
    return len(suppression.cpus) * 1000 or None


@cache
def _candidates(count: int) -> CpuCandidates | None:
    """Return the CPUs of an emulated node, all shared; None for a node with less than one."""
    if not count:
        return None
    topology = CpuTopology(cpus=tuple(Cpu(id=number, core=number, numa_node=0, socket=0) for number in range(count)))
    return CpuCandidates(topology=topology, shared=topology.online)


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
