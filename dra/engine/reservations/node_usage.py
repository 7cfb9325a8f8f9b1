"""The usage of a node as an immutable value: its capacity, what pods take, and what reservations hold.

Each change makes a new value. Per resource, with A held by a reservation and C consumed by its owner pods (C may exceed
A: what did not fit into the reservation was taken from the node):

* all other pods see a charge of ``max(A, C)``; free is the capacity minus unreserved pods and all charges;
* of the reservation ``A - C - I`` remains for owner pods (I: kept from them inside the reservation), never less than 0;
* a pod that enters the reservation sees the charges of the other reservations, and of this one what it cannot have:
  ``max(C, min(C+I, A))``.

So an owner pod fits whenever its reservation has enough left, even on a node that has shrunk below what is reserved;
and the sum of all charges grows only by what the node had free. (Koordinator subtracts C without a cap, and thereby
gives away twice what a consumer took beyond its reservation: KEP-notes.md.)
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model import quantities
from dra.model.meta import Struct, Uid
from dra.model.quantities import NANOS_PER_UNIT, NO_AMOUNTS, PODS, Amounts

DEFAULT_MAX_PODS: Final = 110 * NANOS_PER_UNIT
"""Billionths of ``pods`` on a node that reports none: the kubelet's default of ``maxPods``, 110."""

NO_POD: Final = Uid("")


class ReservationUsage(Struct, frozen=True):
    """A reservation on its node, with what its consumers take."""

    holding: ReservationInfo
    consumed: Amounts = NO_AMOUNTS
    preceding: int = 0
    """Number of consumers that ran on the node before the reservation was placed over them."""
    promised: Mapping[Uid, Amounts] = {}
    """Amounts that are kept for preemptors while their victims leave, so that no other pod takes them."""

    @property
    def consumers(self) -> int:
        """Return the number of pods in the reservation."""
        return self.consumed.get(PODS, 0) // NANOS_PER_UNIT

    def charge(self, resource: str) -> int:
        """Return what other pods see as taken of a resource."""
        return max(self.holding.amounts.get(resource, 0), self.consumed.get(resource, 0))

    @property
    def entered(self) -> int:
        """Return the number of pods that came to use the reservation after it was placed."""
        return self.consumers - self.preceding

    def unavailable(self, resource: str, *, to: Uid = NO_POD) -> int:
        """Return what an owner pod that enters the reservation sees as taken of a resource."""
        kept = self.taken(resource, to=to) + self.holding.inner.get(resource, 0)
        return max(self.consumed.get(resource, 0), min(kept, self.holding.amounts.get(resource, 0)))

    def taken(self, resource: str, *, to: Uid = NO_POD) -> int:
        """Return what consumers take of a resource, plus what is promised to other pods than `to`."""
        taken = self.consumed.get(resource, 0)
        if self.promised:
            taken += sum(each.get(resource, 0) for uid, each in self.promised.items() if uid != to)
        return taken

    def remainder(self, resource: str, *, to: Uid = NO_POD) -> int:
        """Return what is left of a resource for an owner pod."""
        return max(0, self.holding.amounts.get(resource, 0) - self.unavailable(resource, to=to))

    def taking(self, uid: Uid, taken: Amounts) -> "ReservationUsage":
        """Return the usage with one more consumer."""
        return msgspec.structs.replace(
            self,
            consumed=quantities.add(self.consumed, taken),
            preceding=self.preceding + (uid in self.holding.predecessors),
            promised={key: each for key, each in self.promised.items() if key != uid},
        )

    def giving(self, uid: Uid, taken: Amounts) -> "ReservationUsage":
        """Return the usage with one consumer less."""
        return msgspec.structs.replace(
            self,
            consumed=quantities.subtract(self.consumed, taken),
            preceding=self.preceding - (uid in self.holding.predecessors),
        )

    @property
    def charges(self) -> dict[str, int]:
        """Return what other pods see as taken, of every resource."""
        return quantities.maximum(self.holding.amounts, self.consumed)


class PodAssignment(Struct, frozen=True):
    """The node of a pod, and the reservation in which the pod is counted."""

    pod: PodInfo
    node: str
    inside: Uid | None = None
    """Reservation that the pod is in; None for a pod in no reservation."""
    assumed: bool = False
    """Whether `ReservationAccounting.admit` assigned the pod and no watch event has confirmed the binding yet."""


class NodeUsage(Struct, frozen=True):
    """One node as a value: its capacity, its pods, and the usage of each reservation on it."""

    name: str
    capacity: Amounts
    """Allocatable, minus what the node itself reserves (`node_reservation`)."""
    labels: Mapping[str, str] = {}
    loose: Amounts = NO_AMOUNTS
    """Sum of the pods that are in no reservation."""
    held: Mapping[Uid, ReservationUsage] = {}
    charged: Amounts = NO_AMOUNTS
    """Sum of the pods in no reservation and of the charges of all reservations."""
    known: bool = True
    """Whether the node has been observed; its pods may come earlier."""

    def free(self, resource: str) -> int:
        """Return what is neither taken nor held of a resource; negative on an overcommitted node."""
        return self.capacity.get(resource, 0) - self.charged.get(resource, 0)

    def available_to_owner(self, held: ReservationUsage, resource: str, *, to: Uid = NO_POD) -> int:
        """Return what an owner pod that enters a reservation may have of a resource on this node."""
        return self.free(resource) + held.charge(resource) - held.unavailable(resource, to=to)

    def unused(self, resource: str) -> int:
        """Return what no pod takes of a resource, whether or not it is reserved."""
        taken = self.loose.get(resource, 0) + sum(each.consumed.get(resource, 0) for each in self.held.values())
        return self.capacity.get(resource, 0) - taken

    def taking(self, uid: Uid, taken: Amounts, *, into: Uid | None = None) -> "NodeUsage":
        """Return the node with one more pod, in a reservation or in none."""
        if into is not None:
            return self.holding(self.held[into].taking(uid, taken))
        return msgspec.structs.replace(
            self, loose=quantities.add(self.loose, taken), charged=quantities.add(self.charged, taken)
        )

    def giving(self, uid: Uid, taken: Amounts, *, out_of: Uid | None = None) -> "NodeUsage":
        """Return the node with one pod less."""
        if out_of is not None:
            return self.holding(self.held[out_of].giving(uid, taken))
        return msgspec.structs.replace(
            self, loose=quantities.subtract(self.loose, taken), charged=quantities.subtract(self.charged, taken)
        )

    def without_pods(self, leaving: Iterable[PodAssignment]) -> "NodeUsage":
        """Return the node without the given pods."""
        found = self
        for each in leaving:
            found = found.giving(each.pod.uid, each.pod.amounts, out_of=each.inside)
        return found

    def holding(self, held: ReservationUsage) -> "NodeUsage":
        """Return the node with a reservation added or replaced."""
        uid = held.holding.uid
        charged = self.charged
        if (before := self.held.get(uid)) is not None:
            charged = quantities.subtract(charged, before.charges)
        charged = quantities.add(charged, held.charges)
        return msgspec.structs.replace(self, held={**self.held, uid: held}, charged=charged)

    def without(self, uid: Uid) -> "NodeUsage":
        """Return the node without a reservation; its consumers run on in no reservation."""
        if (before := self.held.get(uid)) is None:
            return self
        rest = {key: each for key, each in self.held.items() if key != uid}
        charged = quantities.add(quantities.subtract(self.charged, before.charges), before.consumed)
        loose = quantities.add(self.loose, before.consumed)
        return msgspec.structs.replace(self, held=rest, charged=charged, loose=loose)


def empty_node(name: str, capacity: Amounts, *, labels: Mapping[str, str] | None = None) -> NodeUsage:
    """Return a node without pods and reservations."""
    return NodeUsage(name=name, capacity={PODS: DEFAULT_MAX_PODS, **capacity}, labels=labels or {})
