"""A node at one moment: what it has, what is used, what is held; a value, each change makes a new one.

Per resource, with A held by a reservation and C consumed by its owners (C may exceed ``A``: what does not fit into
the reservation was taken from the node):

* everybody else sees a charge of ``max(A, C)``; what is free is the capacity without the loose pods and all charges;
* of the reservation ``A - C - I`` remains for owners (I: kept within it), never less than nothing;
* an owner that enters it sees the others' charges, and of this reservation what it cannot have: ``max(C, min(C+I,
  A))``.

So an owner fits whenever its reservation has the room, even on a node that has shrunk below what is promised; and the
sum of all charges grows only by what the node had free. (specs/koordinator.md A.7, A.9; upstream subtracts ``C`` from
the books uncapped, and thereby gives away twice what a consumer took beyond its reservation.)
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from dra.engine.reservations import amounts
from dra.engine.reservations.amounts import NANOS_PER_UNIT, NO_AMOUNTS, PODS, NanoAmounts
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import Struct, Uid

DEFAULT_MAX_PODS: Final = 110 * NANOS_PER_UNIT
"""What a kubelet allows when nobody told it otherwise."""

NO_POD: Final = Uid("")


class ReservationUsage(Struct, frozen=True):
    """A reservation on its node, with what its consumers take."""

    holding: ReservationInfo
    consumed: NanoAmounts = NO_AMOUNTS
    preceding: int = 0
    """How many of them were here before it."""
    promised: Mapping[Uid, NanoAmounts] = {}
    """What is kept for pods that make others leave: nobody else may slip in between."""

    @property
    def consumers(self) -> int:
        """How many pods are in it."""
        return self.consumed.get(PODS, 0) // NANOS_PER_UNIT

    def charge(self, resource: str) -> int:
        """Return what others see as taken."""
        return max(self.holding.amounts.get(resource, 0), self.consumed.get(resource, 0))

    @property
    def entered(self) -> int:
        """How many pods have come to use it."""
        return self.consumers - self.preceding

    def unavailable(self, resource: str, *, to: Uid = NO_POD) -> int:
        """Return what an owner that enters sees as taken."""
        kept = self.taken(resource, to=to) + self.holding.inner.get(resource, 0)
        return max(self.consumed.get(resource, 0), min(kept, self.holding.amounts.get(resource, 0)))

    def taken(self, resource: str, *, to: Uid = NO_POD) -> int:
        """Return what consumers take, and what is promised to others."""
        taken = self.consumed.get(resource, 0)
        if self.promised:
            taken += sum(each.get(resource, 0) for uid, each in self.promised.items() if uid != to)
        return taken

    def remainder(self, resource: str, *, to: Uid = NO_POD) -> int:
        """Return what is left in it for an owner."""
        return max(0, self.holding.amounts.get(resource, 0) - self.unavailable(resource, to=to))

    def taking(self, uid: Uid, taken: NanoAmounts) -> "ReservationUsage":
        """Return it with a consumer more."""
        return msgspec.structs.replace(
            self,
            consumed=amounts.add(self.consumed, taken),
            preceding=self.preceding + (uid in self.holding.predecessors),
            promised={key: each for key, each in self.promised.items() if key != uid},
        )

    def giving(self, uid: Uid, taken: NanoAmounts) -> "ReservationUsage":
        """Return it with a consumer less."""
        return msgspec.structs.replace(
            self,
            consumed=amounts.subtract(self.consumed, taken),
            preceding=self.preceding - (uid in self.holding.predecessors),
        )

    @property
    def charges(self) -> dict[str, int]:
        """What others see as taken, of every resource."""
        return amounts.maximum(self.holding.amounts, self.consumed)


class NodeUsage(Struct, frozen=True):
    """A node."""

    name: str
    capacity: NanoAmounts
    """Allocatable, without what the node itself keeps (`nodes`)."""
    labels: Mapping[str, str] = {}
    loose: NanoAmounts = NO_AMOUNTS
    """What pods take that are in no reservation."""
    held: Mapping[Uid, ReservationUsage] = {}
    charged: NanoAmounts = NO_AMOUNTS
    """Loose pods and the charges of all reservations."""
    known: bool = True
    """Whether the node has been seen; pods may come before it."""

    def free(self, resource: str) -> int:
        """Return what nobody has or holds; negative on a node that is overfull."""
        return self.capacity.get(resource, 0) - self.charged.get(resource, 0)

    def available_to_owner(self, held: ReservationUsage, resource: str, *, to: Uid = NO_POD) -> int:
        """Return what an owner may have here that enters a reservation."""
        return self.free(resource) + held.charge(resource) - held.unavailable(resource, to=to)

    def unused(self, resource: str) -> int:
        """Return what no pod takes, reservations set aside."""
        taken = self.loose.get(resource, 0) + sum(each.consumed.get(resource, 0) for each in self.held.values())
        return self.capacity.get(resource, 0) - taken

    def taking(self, uid: Uid, taken: NanoAmounts, *, into: Uid | None = None) -> "NodeUsage":
        """Return the node with a pod more, in a reservation or loose."""
        if into is not None:
            return self.holding(self.held[into].taking(uid, taken))
        return msgspec.structs.replace(
            self, loose=amounts.add(self.loose, taken), charged=amounts.add(self.charged, taken)
        )

    def giving(self, uid: Uid, taken: NanoAmounts, *, out_of: Uid | None = None) -> "NodeUsage":
        """Return the node with a pod less."""
        if out_of is not None:
            return self.holding(self.held[out_of].giving(uid, taken))
        return msgspec.structs.replace(
            self, loose=amounts.subtract(self.loose, taken), charged=amounts.subtract(self.charged, taken)
        )

    def holding(self, held: ReservationUsage) -> "NodeUsage":
        """Return the node with a reservation, in place of what was known of it."""
        uid = held.holding.uid
        charged = self.charged
        if (before := self.held.get(uid)) is not None:
            charged = amounts.subtract(charged, before.charges)
        charged = amounts.add(charged, held.charges)
        return msgspec.structs.replace(self, held={**self.held, uid: held}, charged=charged)

    def without(self, uid: Uid) -> "NodeUsage":
        """Return the node without a reservation; whoever was in it is loose from now on."""
        if (before := self.held.get(uid)) is None:
            return self
        rest = {key: each for key, each in self.held.items() if key != uid}
        charged = amounts.add(amounts.subtract(self.charged, before.charges), before.consumed)
        loose = amounts.add(self.loose, before.consumed)
        return msgspec.structs.replace(self, held=rest, charged=charged, loose=loose)


def empty_node(name: str, capacity: NanoAmounts, *, labels: Mapping[str, str] | None = None) -> NodeUsage:
    """Return an empty node."""
    return NodeUsage(name=name, capacity={PODS: DEFAULT_MAX_PODS, **capacity}, labels=labels or {})
