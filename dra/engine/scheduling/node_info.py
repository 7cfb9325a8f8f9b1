"""Filter and score nodes for a pod, in the order and the words of kube-scheduler."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from typing import Final, TypeAlias

import msgspec

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.engine.devices import node_allocatable
from dra.engine.reservations.amounts import NANOS_PER_UNIT
from dra.engine.reservations.node_reservation import NO_NODE_RESERVATION, NodeReservation, effective_node_reservation
from dra.model import quantities
from dra.model.meta import Key, Uid
from dra.model.nodes import Taint, matches_node_selector
from dra.model.quantities import MalformedQuantityError
from dra.model.scheduling import Container, SchedulerNode, SchedulerPod, Toleration

Amounts: TypeAlias = Mapping[str, int]
"""Resource → amount: millicores for cpu, else whole units."""

_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_PODS: Final = "pods"
_NONZERO_REQUESTS: Final = {_CPU: 100, _MEMORY: 200 * 1024 * 1024}
"""Requests that scoring assumes for a pod without requests, so that such pods spread, too."""

NOTHING_LACKING: Final = ()
"""Result for a node with enough of every resource."""

_FILTERING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""Taint that represents a cordoned node to the scheduler."""

DEFAULT_PODS: Final = 110
"""The kubelet's default for ``maxPods``; used for a node without ``status.allocatable``."""


@lru_cache(maxsize=8192)
def _amount(resource: str, text: str | int) -> int:
    try:
        return ceil(quantities.parse(text) * (1000 if resource == _CPU else 1))
    except MalformedQuantityError:
        return 0


def _sum(parts: Iterator[Amounts] | list[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _max_amounts(one: Amounts, other: Amounts) -> dict[str, int]:
    return {r: max(one.get(r, 0), other.get(r, 0)) for r in (*one, *(r for r in other if r not in one))}


def _container_requests(container: Container) -> Amounts:
    return {r: _amount(r, text) for r, text in (container.resources.requests or {}).items()}


def pod_requests(pod: SchedulerPod) -> Amounts:
    """Return a pod's requests: the sum of its containers, or more if an init container needs more.

    Sidecars (init containers that are restarted) run beside the containers after them. Resources through claims are
    added. Pod-level requests take precedence.
    """
    spec = pod.spec
    total = _sum([_container_requests(each) for each in spec.containers or ()])
    sidecars: dict[str, int] = {}
    initial: dict[str, int] = {}
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            sidecars = _sum([sidecars, _container_requests(container)])
            initial = _max_amounts(initial, sidecars)
        else:
            initial = _max_amounts(initial, _sum([sidecars, _container_requests(container)]))
    total = _max_amounts(_sum([total, sidecars]), initial)
    if pod.status.node_allocatable_resource_claim_statuses:
        total = _sum([total, _requests_through_claims(pod)])
    if spec.resources is not None and spec.resources.requests:
        total |= {r: _amount(r, text) for r, text in spec.resources.requests.items()}
    if spec.overhead:
        total = _sum([total, {r: _amount(r, text) for r, text in spec.overhead.items()}])
    return {**{r: a for r, a in total.items() if a}, _PODS: 1}


def _requests_through_claims(pod: SchedulerPod) -> Amounts:
    found = node_allocatable.resources_through_claims(pod)
    return {r: ceil(amount * (1000 if r == _CPU else 1)) for r, amount in found.items()}


def _scored_requests(amounts: Amounts) -> tuple[int, ...]:
    return tuple(amounts.get(resource) or default for resource, default in _NONZERO_REQUESTS.items())


@dataclass(frozen=True, slots=True)
class PodRequests:
    """The requests of a pod to a node, computed once."""

    pod: SchedulerPod
    amounts: Amounts
    scored_requests: tuple[int, ...]
    """Requests as scoring counts them."""
    tolerations: tuple[Toleration, ...]

    @classmethod
    def from_pod(cls, pod: SchedulerPod) -> "PodRequests":
        """Return the requests of a pod."""
        amounts = pod_requests(pod)
        return cls(pod, amounts, _scored_requests(amounts), tuple(pod.spec.tolerations or ()))


@dataclass(slots=True, eq=False)
class NodeInfo:
    """A node and the pods on it; pods may be known before their node."""

    name: str
    key: Key = ("", "")
    known: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, int] = field(default_factory=dict)
    """Amounts for pods, without the amounts that the node reserves."""
    reserved: dict[str, int] = field(default_factory=dict)
    """Amounts that the node reserves by its annotation ``node.koordinator.sh/reservation``."""
    reservation: NodeReservation | None = None
    """The last valid node reservation."""
    reservation_error: str = ""
    """The present error of that annotation; empty if it is valid."""
    used: dict[str, int] = field(default_factory=dict)
    scored_used: list[int] = field(default_factory=lambda: [0] * len(_NONZERO_REQUESTS))
    """Used amounts as scoring counts them."""
    unit_shares: tuple[float, ...] = (0.0,) * len(_NONZERO_REQUESTS)
    """Fraction of the node that one unit of each scored resource is."""
    pods: dict[Uid, Amounts] = field(default_factory=dict)

    def observe(self, host: SchedulerNode) -> bool:
        """Record the node; return whether the change may matter to a pod: heartbeats do not."""
        labels = host.metadata.labels or {}
        taints = tuple(t for t in host.spec.taints or () if t.effect in _FILTERING_EFFECTS)
        if host.spec.unschedulable and not any(t.key == UNSCHEDULABLE_TAINT.key for t in taints):
            taints = (UNSCHEDULABLE_TAINT, *taints)
        given = {r: _amount(r, text) for r, text in (host.status.allocatable or {}).items()}
        left = self._left(host, given)
        self.reserved = {r: amount - left[r] for r, amount in given.items() if amount > left[r]}
        allocatable = {_PODS: DEFAULT_PODS} | left
        before = (self.known, self.labels, self.taints, self.allocatable)
        after = (True, labels, taints, allocatable)
        if before == after:
            return False
        self.known, self.labels, self.taints, self.allocatable = after
        self.unit_shares = tuple(1.0 / allocatable[r] if allocatable.get(r) else 0.0 for r in _NONZERO_REQUESTS)
        return True

    def _left(self, host: SchedulerNode, given: dict[str, int]) -> dict[str, int]:
        """Return the amounts that the node has for pods."""
        if host.metadata.annotation(ANNOTATION_NODE_RESERVATION) is None:  # nearly all nodes, at every heartbeat
            self.reservation, self.reservation_error = NO_NODE_RESERVATION, ""
            return given
        heeded = effective_node_reservation(host, before=self.reservation)
        self.reservation_error = heeded.fault
        if heeded.left:
            self.reservation = heeded.reservation
        return {r: heeded.left[r] * (1000 if r == _CPU else 1) // NANOS_PER_UNIT for r in given}

    def add(self, uid: Uid, amounts: Amounts) -> None:
        """Add a pod that runs on the node, or is about to."""
        if uid in self.pods:
            self.remove(uid)
        self.pods[uid] = amounts
        used = self.used
        for resource, amount in amounts.items():
            used[resource] = used.get(resource, 0) + amount
        self.scored_used = [
            taken + more for taken, more in zip(self.scored_used, _scored_requests(amounts), strict=True)
        ]

    def remove(self, uid: Uid) -> bool:
        """Remove a pod from the node; return whether the node had the pod."""
        amounts = self.pods.pop(uid, None)
        if amounts is None:
            return False
        for resource, amount in amounts.items():
            self.used[resource] -= amount
        self.scored_used = [
            taken - less for taken, less in zip(self.scored_used, _scored_requests(amounts), strict=True)
        ]
        return True


def unresolvable_reason(room: NodeInfo, demand: PodRequests) -> str | None:
    """Return why the pod may not run on a node, whatever else runs there; None if it may."""
    for taint in room.taints:
        if not any(by.tolerates(taint) for by in demand.tolerations):
            return (
                "node(s) were unschedulable"
                if taint is UNSCHEDULABLE_TAINT
                else f"node(s) had untolerated taint {taint}"
            )
    spec = demand.pod.spec
    if spec.node_selector and any(room.labels.get(key) != value for key, value in spec.node_selector.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    if spec.affinity is not None and spec.affinity.node_affinity is not None:
        required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        if not matches_node_selector(required, name=room.name, labels=room.labels):
            return "node(s) didn't match Pod's node affinity/selector"
    return None


def insufficient_resources(room: NodeInfo, demand: PodRequests) -> Sequence[str]:
    """Return a message for each resource that the node has too little of."""
    used, allocatable = room.used, room.allocatable
    for resource, amount in demand.amounts.items():
        if amount > allocatable.get(resource, 0) - used.get(resource, 0):
            break
    else:
        return NOTHING_LACKING
    return [
        "Too many pods" if resource == _PODS else f"Insufficient {resource}"
        for resource, amount in demand.amounts.items()
        if amount > allocatable.get(resource, 0) - used.get(resource, 0)
    ]


def insufficient_with_claims(room: NodeInfo, pod: SchedulerPod) -> Sequence[str]:
    """Return the insufficient resources for a pod whose status lists its resources through claims."""
    resource = uncovered_pod_level_resource(pod)
    if resource:
        insufficient = f"pod level request for {resource} is insufficient"
        return [f"{insufficient} to cover the aggregated container and node-allocatable DRA requests"]
    return insufficient_resources(room, PodRequests.from_pod(pod))


def uncovered_pod_level_resource(pod: SchedulerPod) -> str:
    """Return a resource whose pod-level request is below the sum of containers and claims; empty if there is none."""
    whole = pod.spec.resources.requests if pod.spec.resources is not None else None
    if not whole:
        return ""
    parts = pod_requests(
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resources=None, overhead=None))
    )
    return next((r for r, text in whole.items() if parts.get(r, 0) > _amount(r, text)), "")


def least_allocated_score(room: NodeInfo, demand: PodRequests) -> float:
    """Return the fraction of the node that would be free, from 0 to 1.

    Computed as upstream's LeastAllocated over cpu and memory.
    """
    total = 0.0
    for taken, asked, unit in zip(room.scored_used, demand.scored_requests, room.unit_shares, strict=True):
        free = 1.0 - (taken + asked) * unit
        if unit and free > 0.0:
            total += free
    return total / len(_NONZERO_REQUESTS)
