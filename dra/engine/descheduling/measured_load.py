"""The measured load of nodes, as their NodeMetrics report it, with what has changed since.

A report is a minute old, and an average of five minutes. So a node has two loads: what it was *measured* to use, by
which it is found to be overutilized, and what is *expected* of it, by which it may receive pods. Pods that move away
count in neither. What is expected contains in addition the pods that are to move to the node, pods that are younger
than the report (both by what they use, or else by what they request), and what Reservations hold for pods to come.

A report that is expired, from the future, or without the use of the system, does not count: nobody knows its node.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.api.reservations.well_known import MalformedAnnotationError, decode_annotation
from dra.engine.colocation.node_usage import NodeUsage, PodUsage
from dra.engine.colocation.staleness import is_from_future, report_age
from dra.engine.descheduling.node_classification import MEMORY
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.engine.instants import WallTime
from dra.model.koordinator_classes import PriorityClass, effective_priority_class
from dra.model.meta import Uid
from dra.model.quantities import (
    CPU,
    NANOS_PER_UNIT,
    PODS,
    Amounts,
    MalformedAmountsError,
    add,
    parse_resource_list,
)

ANNOTATION_RAW_ALLOCATABLE: Final = "node.koordinator.sh/raw-allocatable"
"""The allocatable of a node before Koordinator amplifies it, in JSON."""

_ONE_POD: Final = {PODS: NANOS_PER_UNIT}

REPORT_WINDOW: Final = 300.0
"""Seconds over which a report averages: an older pod that it does not name is within the use of the system."""


@dataclass(slots=True)
class Load:
    """The use of a node by all pods and its system, and by the pods of priority class koord-prod."""

    node: dict[str, int] = field(default_factory=lambda: {CPU: 0, MEMORY: 0, PODS: 0})
    prod: dict[str, int] = field(default_factory=lambda: {CPU: 0, MEMORY: 0, PODS: 0})

    def add(self, amounts: Amounts, *, is_prod: bool) -> None:
        """Add the load of a pod, or of the system."""
        node, prod = self.node, self.prod
        for name, amount in amounts.items():
            node[name] += amount
            if is_prod:
                prod[name] += amount


@dataclass(slots=True)
class MeasuredNode:
    """A node with a report that counts."""

    node: SnapshotNode
    update_time: str
    measured: Load = field(default_factory=Load)
    expected: Load = field(default_factory=Load)
    pods: dict[Uid, dict[str, int]] = field(default_factory=dict)
    """The use of each pod that the report names and that stays, one of ``pods`` included: the pods that may go."""


def is_current(usage: NodeUsage, *, now: WallTime, expiration: float) -> bool:
    """Return whether a report counts at a time: ``expiration`` is the age in seconds from which on it does not."""
    return (
        usage.is_complete
        and not is_from_future(usage.update_time, wall=now)
        and report_age(usage.update_time, wall=now, unchanged=0.0) < expiration
    )


def is_prod(pod: DeschedulingPod) -> bool:
    """Return whether the priority class of a pod is koord-prod, by label, priority or QoS class."""
    return effective_priority_class(pod, kubernetes_qos=pod.status.qos_class) is PriorityClass.PROD


def measured_capacity(snapshot: Snapshot, host: SnapshotNode) -> dict[str, int]:
    """Return what a node has for pods, without what Koordinator's amplification adds to its allocatable.

    With twice the CPUs in its allocatable, a machine that is busy would look half idle (koordinator#2817).
    """
    capacity = dict(snapshot.capacity(host.name))
    text = host.node.metadata.annotation(ANNOTATION_RAW_ALLOCATABLE)
    if text is None:
        return capacity
    try:
        raw = parse_resource_list(
            decode_annotation(ANNOTATION_RAW_ALLOCATABLE, text, dict[str, Any]), path=ANNOTATION_RAW_ALLOCATABLE
        )
    except (MalformedAnnotationError, MalformedAmountsError):
        return capacity
    allocatable = host.allocatable
    for name, amount in raw.items():
        if name in capacity:
            reserved = allocatable.get(name, 0) - capacity[name]
            capacity[name] = min(capacity[name], max(0, amount - reserved))
    return capacity


def requested_load(snapshot: Snapshot, pod: DeschedulingPod) -> dict[str, int]:
    """Return what a pod is expected to use before it is measured: its requests, in batch resources as well."""
    requests = snapshot.requests(pod)
    return {
        CPU: requests.get(CPU, 0) + requests.get(BATCH_CPU, 0) // 1000,
        MEMORY: requests.get(MEMORY, 0) + requests.get(BATCH_MEMORY, 0),
        PODS: NANOS_PER_UNIT,
    }


class MeasuredLoads:
    """The measured loads of nodes, with the moves of the round so far."""

    def __init__(self, snapshot: Snapshot, nodes: Iterable[SnapshotNode], *, expiration: float) -> None:
        """Read the reports of all nodes, and sum the loads of the given ones."""
        self._snapshot = snapshot
        self._use: dict[Uid, dict[str, int]] = {}
        self._leaving: dict[str, list[DeschedulingPod]] = {}
        for pod in snapshot.moves_since(0):
            self._leaving.setdefault(pod.spec.node_name, []).append(pod)
        current = []
        for host in snapshot.nodes.values():
            if host.usage is not None and is_current(host.usage, now=snapshot.now, expiration=expiration):
                self._read_pods(host, host.usage)
                current.append(host.name)
        known = frozenset(current)
        self.nodes: dict[str, MeasuredNode] = {
            host.name: self._measure(host, host.usage)
            for host in nodes
            if host.name in known and host.usage is not None
        }
        """Node → its load; nodes whose reports do not count are absent."""

    def load_of(self, pod: DeschedulingPod) -> dict[str, int]:
        """Return what a pod uses, or else what it requests; one of ``pods`` included."""
        return self._use.get(pod.metadata.uid) or requested_load(self._snapshot, pod)

    def _read_pods(self, host: SnapshotNode, usage: NodeUsage) -> None:
        """Remember what the pods of a report use, those that move away from its node included."""
        by_uid: dict[str, PodUsage] = {}
        by_name: dict[tuple[str, str], PodUsage] = {}
        for reported in usage.pods:
            by_name[reported.namespace, reported.name] = reported
            if reported.uid:
                by_uid[reported.uid] = reported
        for pod in (*host.pods.values(), *self._leaving.get(host.name, ())):
            known = by_uid.get(pod.metadata.uid) or by_name.get(pod.metadata.key)
            if known is None or (known.uid and known.uid != pod.metadata.uid):
                continue
            cpu, memory = known.usage.cpu, known.usage.memory
            if cpu is not None and memory is not None:
                self._use[pod.metadata.uid] = {CPU: cpu, MEMORY: memory, PODS: NANOS_PER_UNIT}

    def _measure(self, host: SnapshotNode, usage: NodeUsage) -> MeasuredNode:
        """Sum the loads of a node: what its report names counts twice, and what it cannot name is expected alone."""
        node, young = MeasuredNode(node=host, update_time=usage.update_time), []
        node.measured.add({CPU: usage.system.cpu or 0, MEMORY: usage.system.memory or 0}, is_prod=False)
        window_start = _seconds(usage.update_time) - REPORT_WINDOW
        for uid, pod in host.pods.items():
            if pod.terminal:
                continue
            use = self._use.get(uid)
            if use is not None:
                node.pods[uid] = use
            elif _seconds(pod.status.start_time or pod.metadata.creation_timestamp) > window_start:
                young.append(pod)
            node.measured.add(_ONE_POD if use is None else use, is_prod=is_prod(pod))
        node.expected.add(node.measured.node, is_prod=False)
        node.expected.prod.update(node.measured.prod)
        for pod in young:
            requested = requested_load(self._snapshot, pod)
            node.expected.add({CPU: requested[CPU], MEMORY: requested[MEMORY]}, is_prod=is_prod(pod))
        for pod in host.arriving.values():
            node.expected.add(self.load_of(pod), is_prod=is_prod(pod))
        held = self._snapshot.held(host.name)
        node.expected.add({name: held.get(name, 0) for name in (CPU, MEMORY)}, is_prod=False)
        return node


def _seconds(text: str | None) -> WallTime:
    """Return the time of a text; the beginning of time if it is none."""
    try:
        return datetime.fromisoformat(text[:64]).timestamp() if text else 0.0
    except (ValueError, OverflowError):
        return 0.0


def with_requests(load: Mapping[str, int], requested: Amounts, resources: Iterable[str]) -> dict[str, int]:
    """Return a measured load with the requests of resources that nobody measures."""
    return add(load, {name: requested.get(name, 0) for name in resources if name not in load})
