"""RemovePodsUnderPressure: a pod that waits for CPUs leaves a node whose batch pods are held back already.

On a node with colocation, batch pods get the CPUs that others leave. When these are held back to their floor and a pod
of QoS class LS, LSR or LSE still waits for CPUs, report after report, nothing on the node can help the pod: it, or by
argument the batch pods, go to a node without pressure. (Koordinator's article on QoS-aware descheduling announces this;
no release has it.)

One pod leaves a node at a time, and the next one only when the move is over: the pressure may be gone by then. A pod
that uses all that its own limit allows waits for its limit, and stays. Reports without pressure or suppression, of
other agents or kernels without PSI, make no pod go.
"""

from collections.abc import Generator, Mapping
from typing import ClassVar, Final

from dra.api.descheduler.load_plugin_args import PressureTarget, RemovePodsUnderPressureArgs
from dra.engine.colocation.node_usage import NodeUsage, PodUsage
from dra.engine.descheduling.anomaly import mark_reports
from dra.engine.descheduling.measured_load import is_current
from dra.engine.descheduling.plugin import Evict, Verdict
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.koordinator_classes import QosClass, effective_qos_class
from dra.model.quantities import CPU, from_validated_list

LATENCY_SENSITIVE: Final = frozenset({QosClass.LS, QosClass.LSR, QosClass.LSE})

AT_LIMIT_PERCENT: Final = 90
"""Percent of its own CPU limit from which on a pod waits for its limit."""


class RemovePodsUnderPressure:
    """Moves pods that wait for CPUs although batch pods are held back."""

    name: ClassVar[str] = "RemovePodsUnderPressure"
    Args: ClassVar[type[RemovePodsUnderPressureArgs]] = RemovePodsUnderPressureArgs

    def balance(self, snapshot: Snapshot, args: RemovePodsUnderPressureArgs) -> Generator[Evict, Verdict, str]:
        """Yield, for each node under pressure, pods until one goes; the node under most pressure comes first."""
        reports = {
            host.name: (host, _pressures(host, host.usage))
            for host in snapshot.selected_nodes()
            if host.usage is not None
            and is_current(host.usage, now=snapshot.now, expiration=args.node_metric_expiration_seconds)
        }
        disturbed: dict[str, dict[str, float]] = {}
        above: dict[str, str] = {}
        for name, (host, pressures) in reports.items():
            if host.usage is None or not host.usage.batch_at_floor:
                continue
            there = {uid: percent for uid, percent in pressures.items() if percent >= args.cpu_pressure_percent}
            disturbed[name] = there
            above |= dict.fromkeys(there, host.usage.update_time)
        marks = snapshot.own_memory.setdefault("marks", {})
        mark_reports(marks, above)
        for name, there in disturbed.items():
            disturbed[name] = {uid: there[uid] for uid in there if marks[uid].count >= args.consecutive_reports}
        receivers = frozenset(name for name, (host, _) in reports.items() if _may_receive(host, args))
        busy = {pod.spec.node_name for uid in snapshot.moved if (pod := snapshot.pod(uid)) is not None}
        for name in sorted(disturbed, key=lambda name: (-max(disturbed[name].values(), default=0.0), name)):
            if not disturbed[name] or name in busy:
                continue
            reason = _reason(disturbed[name], node=name, reports=args.consecutive_reports)
            for pod in _candidates(reports[name][0], disturbed[name], args):
                verdict = yield Evict(pod, reason=reason, receivers=receivers)
                if verdict.accepted:
                    break
        return "" if any(disturbed.values()) else "no pod waits for CPUs on a node whose batch pods are at their floor"


def _pressures(host: SnapshotNode, usage: NodeUsage) -> dict[str, float]:
    """Return uid → percent of the last minute, of latency-sensitive pods that wait for more than their own limit."""
    return {
        pod.metadata.uid: reported.cpu_pressure_percent
        for pod, reported in _reported(host, usage)
        if reported.cpu_pressure_percent is not None and _is_sensitive(pod) and not _is_at_limit(pod, reported)
    }


def _reported(host: SnapshotNode, usage: NodeUsage) -> list[tuple[DeschedulingPod, PodUsage]]:
    """Return the pods of a node that its report names by uid."""
    by_uid = {reported.uid: reported for reported in usage.pods if reported.uid}
    return [(pod, by_uid[uid]) for uid, pod in host.pods.items() if uid in by_uid and not pod.terminal]


def _is_sensitive(pod: DeschedulingPod) -> bool:
    return effective_qos_class(pod, kubernetes_qos=pod.status.qos_class) in LATENCY_SENSITIVE


def _is_at_limit(pod: DeschedulingPod, reported: PodUsage) -> bool:
    """Return whether a pod uses nearly all CPUs that its limits allow."""
    limits = [from_validated_list(container.resources.limits).get(CPU) for container in pod.spec.containers or ()]
    given = [limit for limit in limits if limit]
    if not given or len(given) < len(limits) or reported.usage.cpu is None:
        return False
    return reported.usage.cpu * 100 >= sum(given) * AT_LIMIT_PERCENT


def _may_receive(host: SnapshotNode, args: RemovePodsUnderPressureArgs) -> bool:
    """Return whether a node is known to be without pressure: each of its reported latency-sensitive pods is."""
    if host.usage is None or host.usage.batch_at_floor or not host.is_schedulable:
        return False
    percents = [reported.cpu_pressure_percent for pod, reported in _reported(host, host.usage) if _is_sensitive(pod)]
    return all(percent is not None and percent <= args.low_pressure_percent for percent in percents)


def _candidates(
    host: SnapshotNode, disturbed: Mapping[str, float], args: RemovePodsUnderPressureArgs
) -> list[DeschedulingPod]:
    """Return the pods that may leave a node under pressure, in the order in which they are asked for."""
    if host.usage is None:
        return []
    namespaces = args.evictable_namespaces
    pods = [
        (pod, reported)
        for pod, reported in _reported(host, host.usage)
        if not pod.metadata.deleting
        and pod.metadata.namespace not in namespaces.exclude
        and (not namespaces.include or pod.metadata.namespace in namespaces.include)
    ]
    if args.target is PressureTarget.DISTURBED:
        ranked = [(-disturbed[pod.metadata.uid], pod) for pod, _ in pods if pod.metadata.uid in disturbed]
    else:
        ranked = [(-(reported.usage.cpu or 0), pod) for pod, reported in pods if _is_batch(pod)]
    return [pod for _, pod in sorted(ranked, key=lambda rank: (rank[0], rank[1].metadata.key))]


def _is_batch(pod: DeschedulingPod) -> bool:
    return effective_qos_class(pod, kubernetes_qos=pod.status.qos_class) is QosClass.BE


def _reason(disturbed: Mapping[str, float], *, node: str, reports: int) -> str:
    percent = max(disturbed.values())
    return (
        f"a pod of node {node} waits for CPUs ({percent:.2f}% of the last minute, {reports} reports in a row), and the "
        "batch pods there are held back to their floor"
    )
