"""The usage of a node as an immutable value: its capacity, what pods take, and what reservations hold.

Each change makes a new value. Per resource, with A held by a reservation and C allocated to its owner pods (C may
exceed A: what did not fit into the reservation was taken from the node):

* all other pods see ``max(A, C)`` as requested; free is the capacity minus what pods and reservations request;
* of the reservation ``A - C - I`` remains for owner pods (I: kept from them inside the reservation), never less than 0;
* a pod that enters the reservation sees what the other reservations request, and of this one what it cannot have:
  ``max(C, min(C+I, A))``.

So an owner pod fits whenever its reservation has enough left, even on a node that has shrunk below what is reserved;
and the sum of all requests grows only by what the node had free. (Koordinator subtracts C without a cap, and thereby
gives away twice what an owner pod took beyond its reservation: KEP-notes.md.)
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dra.engine.kube_scheduler.node_resources import node_capacity
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model import quantities
from dra.model.meta import Struct, Uid
from dra.model.quantities import NANOS_PER_UNIT, NO_AMOUNTS, PODS, Amounts

NO_POD: Final = Uid("")


class ReservationUsage(Struct, frozen=True):
    """A reservation on its node, with what its owner pods take."""

    info: ReservationInfo
    allocated: Amounts = NO_AMOUNTS
    pre_allocated_count: int = 0
    """Number of its pods that ran on the node before the reservation was placed over them."""
    nominated: Mapping[Uid, Amounts] = {}
    """Amounts that are kept for preemptors while their victims leave, so that no other pod takes them."""

    @property
    def assigned_pod_count(self) -> int:
        """Return the number of pods in the reservation."""
        return self.allocated.get(PODS, 0) // NANOS_PER_UNIT

    def requested(self, resource: str) -> int:
        """Return what other pods see as taken of a resource."""
        return max(self.info.allocatable.get(resource, 0), self.allocated.get(resource, 0))

    @property
    def new_owner_count(self) -> int:
        """Return the number of pods that came to use the reservation after it was placed."""
        return self.assigned_pod_count - self.pre_allocated_count

    def unavailable_to_owner(self, resource: str, *, pod: Uid = NO_POD) -> int:
        """Return what an owner pod that enters the reservation sees as taken of a resource."""
        taken = self.allocated_and_nominated(resource, pod=pod) + self.info.reserved.get(resource, 0)
        return max(self.allocated.get(resource, 0), min(taken, self.info.allocatable.get(resource, 0)))

    def allocated_and_nominated(self, resource: str, *, pod: Uid = NO_POD) -> int:
        """Return what owner pods take of a resource, plus what is kept for other nominated pods than `pod`."""
        taken = self.allocated.get(resource, 0)
        if self.nominated:
            taken += sum(amounts.get(resource, 0) for uid, amounts in self.nominated.items() if uid != pod)
        return taken

    def remaining(self, resource: str, *, pod: Uid = NO_POD) -> int:
        """Return what is left of a resource for an owner pod."""
        return max(0, self.info.allocatable.get(resource, 0) - self.unavailable_to_owner(resource, pod=pod))

    def with_pod(self, uid: Uid, taken: Amounts) -> "ReservationUsage":
        """Return the usage with one more pod."""
        return msgspec.structs.replace(
            self,
            allocated=quantities.add(self.allocated, taken),
            pre_allocated_count=self.pre_allocated_count + (uid in self.info.pre_allocated_pods),
            nominated={key: amounts for key, amounts in self.nominated.items() if key != uid},
        )

    def without_pod(self, uid: Uid, taken: Amounts) -> "ReservationUsage":
        """Return the usage with one pod less."""
        return msgspec.structs.replace(
            self,
            allocated=quantities.subtract(self.allocated, taken),
            pre_allocated_count=self.pre_allocated_count - (uid in self.info.pre_allocated_pods),
        )

    @property
    def all_requested(self) -> dict[str, int]:
        """Return what other pods see as taken, of every resource."""
        return quantities.maximum(self.info.allocatable, self.allocated)


class PodAssignment(Struct, frozen=True):
    """The node of a pod, and the reservation in which the pod is counted."""

    pod: PodInfo
    node: str
    reservation: Uid | None = None
    """Reservation that the pod is in; None for a pod in no reservation."""
    assumed: bool = False
    """Whether `ReservationAccounting.assume_pod` assigned the pod and no watch event has confirmed the binding yet."""


class NodeUsage(Struct, frozen=True):
    """One node as a value: its capacity, its pods, and the usage of each reservation on it."""

    name: str
    capacity: Amounts
    """Allocatable, minus what the node itself reserves (`node_reservation`)."""
    labels: Mapping[str, str] = {}
    unreserved_requests: Amounts = NO_AMOUNTS
    """Sum of the pods that are in no reservation."""
    reservations: Mapping[Uid, ReservationUsage] = {}
    requested: Amounts = NO_AMOUNTS
    """Sum of the pods in no reservation and of what all reservations request."""
    is_known: bool = True
    """Whether the node has been observed; its pods may come earlier."""

    def free(self, resource: str) -> int:
        """Return what is neither taken nor held of a resource; negative on an overcommitted node."""
        return self.capacity.get(resource, 0) - self.requested.get(resource, 0)

    def reserved_shortage(self) -> dict[str, int]:
        """Return the amounts that an overcommitted node lacks for its reservations.

        A kubelet removes the resource of a device plugin that has been gone for minutes. What pods request of such a
        resource does not count: devices may serve it.
        """
        if not self.reservations:
            return {}
        held = {name for usage in self.reservations.values() for name in usage.info.allocatable if name != PODS}
        gone = {
            name: amount
            for name in sorted(held - self.capacity.keys())
            if (amount := self.requested.get(name, 0) - self.unreserved_requests.get(name, 0)) > 0
        }
        return gone | {name: -self.free(name) for name in self.capacity if self.free(name) < 0}

    def available_to_owner(self, usage: ReservationUsage, resource: str, *, pod: Uid = NO_POD) -> int:
        """Return what an owner pod that enters a reservation may have of a resource on this node."""
        return self.free(resource) + usage.requested(resource) - usage.unavailable_to_owner(resource, pod=pod)

    def unused(self, resource: str) -> int:
        """Return what no pod takes of a resource, whether or not it is reserved."""
        taken = self.unreserved_requests.get(resource, 0) + sum(
            usage.allocated.get(resource, 0) for usage in self.reservations.values()
        )
        return self.capacity.get(resource, 0) - taken

    def with_unreserved(self, taken: Amounts) -> "NodeUsage":
        """Return the node with more pods in no reservation, which take these amounts together."""
        return msgspec.structs.replace(
            self,
            unreserved_requests=quantities.add(self.unreserved_requests, taken),
            requested=quantities.add(self.requested, taken),
        )

    def with_pod(self, uid: Uid, taken: Amounts, *, into: Uid | None = None) -> "NodeUsage":
        """Return the node with one more pod, in a reservation or in none."""
        if into is not None:
            return self.with_reservation(self.reservations[into].with_pod(uid, taken))
        return self.with_unreserved(taken)

    def without_pod(self, uid: Uid, taken: Amounts, *, out_of: Uid | None = None) -> "NodeUsage":
        """Return the node with one pod less."""
        if out_of is not None:
            return self.with_reservation(self.reservations[out_of].without_pod(uid, taken))
        return msgspec.structs.replace(
            self,
            unreserved_requests=quantities.subtract(self.unreserved_requests, taken),
            requested=quantities.subtract(self.requested, taken),
        )

    def without_pods(self, pods: Iterable[PodAssignment]) -> "NodeUsage":
        """Return the node without the given pods."""
        remaining = self
        for assignment in pods:
            remaining = remaining.without_pod(assignment.pod.uid, assignment.pod.amounts, out_of=assignment.reservation)
        return remaining

    def with_reservation(self, usage: ReservationUsage) -> "NodeUsage":
        """Return the node with a reservation added or replaced."""
        uid = usage.info.uid
        requested = self.requested
        if (before := self.reservations.get(uid)) is not None:
            requested = quantities.subtract(requested, before.all_requested)
        requested = quantities.add(requested, usage.all_requested)
        return msgspec.structs.replace(self, reservations={**self.reservations, uid: usage}, requested=requested)

    def without_reservation(self, uid: Uid) -> "NodeUsage":
        """Return the node without a reservation; its pods run on in no reservation."""
        if (before := self.reservations.get(uid)) is None:
            return self
        others = {key: usage for key, usage in self.reservations.items() if key != uid}
        requested = quantities.add(quantities.subtract(self.requested, before.all_requested), before.allocated)
        unreserved = quantities.add(self.unreserved_requests, before.allocated)
        return msgspec.structs.replace(self, reservations=others, requested=requested, unreserved_requests=unreserved)


def empty_node(name: str, capacity: Amounts, *, labels: Mapping[str, str] | None = None) -> NodeUsage:
    """Return a node without pods and reservations."""
    return NodeUsage(name=name, capacity=node_capacity(capacity), labels=labels or {})
