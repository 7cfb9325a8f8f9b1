"""Filter and score nodes for a pod, in the order and the words of kube-scheduler.

kube-scheduler knows no Reservations, so neither the nodes nor the pods have any here. Who must count what Reservations
hold asks `dra.engine.reservations.filters`, which builds on the same amounts (`node_resources`).
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.engine.devices.allocator_releases import RELEASE_1_37, AllocatorRelease
from dra.engine.kube_scheduler import node_resources
from dra.engine.kube_scheduler.host_ports import (
    HOST_PORTS_TAKEN,
    NO_HOST_PORTS,
    HostPorts,
    have_conflict,
    pod_host_ports,
)
from dra.engine.kube_scheduler.node_resources import node_capacity
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.engine.reservations.node_reservation import NO_NODE_RESERVATION, NodeReservation, effective_node_reservation
from dra.model import quantities
from dra.model.meta import Key, Uid
from dra.model.nodes import UNSCHEDULABLE_TAINT, Taint
from dra.model.quantities import CPU, NO_AMOUNTS, PODS, Amounts
from dra.model.scheduling import SchedulerNode, SchedulerPod, Toleration

_MEMORY: Final = "memory"
_SCORED_UNITS: Final = {CPU: 10**6, _MEMORY: 10**9}
"""Billionths of the units in which kube-scheduler scores a resource: millicores and bytes."""

_NONZERO_REQUESTS: Final = {CPU: 100, _MEMORY: 200 * 1024 * 1024}
"""Requests that scoring assumes for a pod without requests, so that such pods spread, too."""

NO_PODS: Final[AbstractSet[Uid]] = frozenset()


def _scored_requests(amounts: Amounts) -> tuple[int, ...]:
    return tuple(_scored(amounts, resource) or default for resource, default in _NONZERO_REQUESTS.items())


def _scored(amounts: Amounts, resource: str) -> int:
    return -(-amounts.get(resource, 0) // _SCORED_UNITS[resource])


@dataclass(frozen=True, slots=True)
class PodRequests:
    """The requests of a pod to a node, computed once."""

    pod: SchedulerPod
    amounts: Amounts
    """Amounts that the pod requests."""
    scored_requests: tuple[int, ...]
    """Requests as scoring counts them."""
    tolerations: tuple[Toleration, ...]
    host_ports: HostPorts = NO_HOST_PORTS

    @classmethod
    def from_pod(cls, pod: SchedulerPod, *, release: AllocatorRelease = RELEASE_1_37) -> "PodRequests":
        """Return the requests of a pod; ``release`` as in `pod_requests`."""
        amounts = pod_requests(pod, release=release)
        return cls(
            pod, amounts, _scored_requests(amounts), tuple(pod.spec.tolerations or ()), host_ports=pod_host_ports(pod)
        )

    def without(self, resources: AbstractSet[str]) -> "PodRequests":
        """Return the requests without some resources, such as extended resources that devices serve."""
        if resources.isdisjoint(self.amounts):
            return self
        left = {resource: amount for resource, amount in self.amounts.items() if resource not in resources}
        return replace(self, amounts=left)


@dataclass(slots=True, eq=False)
class NodeInfo:
    """A node and the pods on it; pods may be known before their node."""

    name: str
    key: Key = ("", "")
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    known: bool = False
    """Whether the node is observed, and not deleted."""
    capacity: Amounts = field(default_factory=dict)
    """Amounts for pods, without the amounts that the node reserves."""
    requested: Amounts = field(default_factory=dict)
    """Sum of what the pods on the node take."""
    reserved: dict[str, int] = field(default_factory=dict)
    """Amounts that the node reserves by its annotation ``node.koordinator.sh/reservation``."""
    reservation: NodeReservation | None = None
    """The last valid node reservation."""
    reservation_error: str = ""
    """The present error of that annotation; empty if it is valid."""
    scored_used: list[int] = field(default_factory=lambda: [0] * len(_NONZERO_REQUESTS))
    """Used amounts as scoring counts them."""
    unit_shares: tuple[float, ...] = (0.0,) * len(_NONZERO_REQUESTS)
    """Fraction of the node that one unit of each scored resource is."""
    pods: dict[Uid, Amounts] = field(default_factory=dict)
    host_ports: dict[Uid, HostPorts] = field(default_factory=dict)
    """Host ports of the pods that use any."""

    def free(self, resource: str) -> int:
        """Return what no pod takes of a resource; negative on an overcommitted node."""
        return self.capacity.get(resource, 0) - self.requested.get(resource, 0)

    def uses_one_of(self, wanted: HostPorts, *, without: AbstractSet[Uid] = NO_PODS) -> bool:
        """Report whether pods on the node use one of some host ports; the pods of ``without`` do not count."""
        return any(have_conflict(wanted, self.host_ports[uid]) for uid in self.host_ports.keys() - without)

    def observe(self, host: SchedulerNode) -> bool:
        """Record the node; return whether the change may matter to a pod: heartbeats do not."""
        labels = host.metadata.labels or {}
        taints = host.spec.filtering_taints
        given = quantities.from_validated_list(host.status.allocatable)
        left = self._left(host, given)
        self.reserved = {r: amount - left.get(r, 0) for r, amount in given.items() if amount > left.get(r, 0)}
        capacity = node_capacity(left)
        before = (self.known, self.labels, self.taints, self.capacity)
        if before == (True, labels, taints, capacity):
            return False
        self.known, self.labels, self.taints, self.capacity = True, labels, taints, capacity
        sizes = (_scored(capacity, resource) for resource in _NONZERO_REQUESTS)
        self.unit_shares = tuple(1.0 / size if size else 0.0 for size in sizes)
        return True

    def forget(self) -> None:
        """Record that the node is deleted; its pods stay until their own deletion is observed."""
        self.known, self.capacity = False, NO_AMOUNTS

    def _left(self, host: SchedulerNode, given: Amounts) -> Amounts:
        """Return the amounts that the node has for pods."""
        if host.metadata.annotation(ANNOTATION_NODE_RESERVATION) is None:  # nearly all nodes, at every heartbeat
            self.reservation, self.reservation_error = NO_NODE_RESERVATION, ""
            return given
        effective = effective_node_reservation(host, before=self.reservation)
        self.reservation_error = effective.error
        if effective.allocatable:
            self.reservation = effective.reservation
        return effective.allocatable

    def add(self, uid: Uid, amounts: Amounts, *, host_ports: HostPorts = NO_HOST_PORTS) -> None:
        """Add a pod that runs on the node, or is about to."""
        if uid in self.pods:
            self.remove(uid)
        self.pods[uid] = amounts
        if host_ports:
            self.host_ports[uid] = host_ports
        self.requested = quantities.add(self.requested, amounts)
        self.scored_used = [
            taken + more for taken, more in zip(self.scored_used, _scored_requests(amounts), strict=True)
        ]

    def remove(self, uid: Uid) -> bool:
        """Remove a pod from the node; return whether the node had the pod."""
        amounts = self.pods.pop(uid, None)
        if amounts is None:
            return False
        self.host_ports.pop(uid, None)
        self.requested = quantities.subtract(self.requested, amounts)
        self.scored_used = [
            taken - less for taken, less in zip(self.scored_used, _scored_requests(amounts), strict=True)
        ]
        return True


def unresolvable_reason(info: NodeInfo, demand: PodRequests) -> str | None:
    """Return why the pod may not run on a node, whatever else runs there; None if it may."""
    for taint in info.taints:
        if not any(by.tolerates(taint) for by in demand.tolerations):
            return (
                "node(s) were unschedulable"
                if taint is UNSCHEDULABLE_TAINT
                else f"node(s) had untolerated taint {taint}"
            )
    spec = demand.pod.spec
    if (spec.node_selector or spec.affinity) and not spec.selects_node(info.name, info.labels):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def insufficient_resources(info: NodeInfo, demand: PodRequests, *, without: AbstractSet[Uid] = NO_PODS) -> list[str]:
    """Return a message for each resource that the node has too little of; the pods of ``without`` do not count.

    If a host port is taken, that alone is returned, as by kube-scheduler.
    """
    if demand.host_ports and info.uses_one_of(demand.host_ports, without=without):
        return [HOST_PORTS_TAKEN]
    requested = info.requested
    if without:
        for uid in info.pods.keys() & without:
            requested = quantities.subtract(requested, info.pods[uid])
    shortages = node_resources.shortages(demand.amounts, capacity=info.capacity, requested=requested)
    if not shortages:  # most nodes have enough
        return []
    return ["Too many pods" if short.resource == PODS else f"Insufficient {short.resource}" for short in shortages]


def insufficient_with_claims(
    info: NodeInfo,
    pod: SchedulerPod,
    *,
    served: AbstractSet[str] = frozenset(),
    release: AllocatorRelease = RELEASE_1_37,
) -> list[str]:
    """Return the insufficient resources for a pod whose status lists its resources through claims.

    `served`: extended resources that devices of the node serve, which the node itself need not have. ``release``: as
    in `pod_requests`.
    """
    resource = uncovered_pod_level_resource(pod, release=release)
    if resource:
        insufficient = f"pod level request for {resource} is insufficient"
        return [f"{insufficient} to cover the aggregated container and node-allocatable DRA requests"]
    return insufficient_resources(info, PodRequests.from_pod(pod, release=release).without(served))


def uncovered_pod_level_resource(pod: SchedulerPod, *, release: AllocatorRelease = RELEASE_1_37) -> str:
    """Return a resource whose pod-level request is below the sum of containers and claims; empty if there is none."""
    whole = pod.spec.resources.requests if pod.spec.resources is not None else None
    if not whole:
        return ""
    parts = pod_requests(
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resources=None, overhead=None)),
        release=release,
    )
    return next((r for r, amount in quantities.from_validated_list(whole).items() if parts.get(r, 0) > amount), "")


def least_allocated_score(info: NodeInfo, demand: PodRequests) -> float:
    """Return the fraction of the node that would be free, from 0 to 1.

    Computed as upstream's LeastAllocated over cpu and memory.
    """
    total = 0.0
    for taken, asked, unit in zip(info.scored_used, demand.scored_requests, info.unit_shares, strict=True):
        if unit and (free := 1.0 - (taken + asked) * unit) > 0.0:
            total += free
    return total / len(_NONZERO_REQUESTS)
