"""The accounting of a cluster: capacity of nodes, what reservations hold, and what pods take.

Schedulers query the accounting and record their decisions in it. It is a cache, never the source of truth: it is filled
from objects of the API, in any order, and can be refilled at any time. Pods may come before their node or their
reservation. Nothing is ever summed from the beginning: each node is an immutable value (`node_usage`) that a change
replaces, and what nodes have free is kept sorted (`capacity_index`).

A pod is *in* a reservation if its annotation names the reservation and one of these holds: the reservation's status
lists the pod, the pod matches an owner, or `admit` assigned the pod. An annotation alone assigns no pod: authors of
pods can write annotations. Pods over which the reservation was placed are in it without an annotation. An assigned pod
stays assigned, even if owners or labels change later.

`admit` decides and records in one step: an admitted pod is counted when `admit` returns, so no later call can give away
the same capacity. `withdraw` undoes it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from dra.engine.reservations import filters as filtering
from dra.engine.reservations import (
    owner_matching,
    pod_info,
    reservation_info,
    reservation_placement,
    scoring,
)
from dra.engine.reservations.capacity_index import CapacityIndex, NodeSet
from dra.engine.reservations.filters import NodeFilterResult
from dra.engine.reservations.node_usage import NodeUsage, PodAssignment, ReservationUsage, empty_node
from dra.engine.reservations.owner_matching import OwnerIndex
from dra.engine.reservations.pod_info import HostPorts, PodInfo
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo, assign_node
from dra.engine.reservations.reservation_placement import ReservationPlacement
from dra.engine.reservations.scoring import PlacementOption
from dra.model.meta import Struct, Uid
from dra.model.quantities import Amounts


class AssumedPod(Struct, frozen=True):
    """The result of assigning a pod: its node and its reservation."""

    node: str
    inside: Uid | None = None


class RejectedNodes(Struct, frozen=True):
    """Nodes with the same rejections; without the numbers where resources are short, since numbers differ by node."""

    nodes: tuple[str, ...]
    why: tuple[Rejection, ...]


class FilterResult(Struct, frozen=True):
    """The result of filtering all nodes for a pod, or for a reservation."""

    fits: tuple[str, ...]
    refused: tuple[RejectedNodes, ...]


class ReservationAccounting:
    """The cache of nodes, reservations and pods, and every decision about their capacity."""

    def __init__(self) -> None:
        self._rooms: dict[str, NodeUsage] = {}
        self._fleet = CapacityIndex()
        self._holdings: dict[Uid, ReservationInfo] = {}
        self._candidates = OwnerIndex()
        self._seats: dict[Uid, PodAssignment] = {}
        self._port_holders: set[Uid] = set()
        """Available reservations that hold host ports: few, if any."""
        self._on_node: dict[str, dict[Uid, None]] = {}

    # Observing cluster objects

    def observe_node(self, name: str, capacity: Amounts, *, labels: Mapping[str, str] | None = None) -> None:
        """Add or update a node; `capacity` excludes what the node reserves for itself."""
        fresh = empty_node(name, capacity, labels=labels)
        before = self._rooms.get(name)
        if before is not None:
            fresh = msgspec.structs.replace(before, capacity=fresh.capacity, labels=fresh.labels, known=True)
        self._replace(fresh)

    def forget_node(self, name: str) -> None:
        """Forget a deleted node; its pods and reservations stay counted until they are deleted, too."""
        if (before := self._rooms.get(name)) is not None:
            self._replace(msgspec.structs.replace(before, capacity={}, known=False))

    def observe_reservation(self, holding: ReservationInfo) -> None:
        """Add or update a reservation; only an available reservation holds anything."""
        before = self._holdings.get(holding.uid)
        if before is not None and before.available and (before.node != holding.node or not holding.available):
            self._release_reservation(before)
        self._holdings[holding.uid] = holding
        if not holding.available:
            self._candidates.drop(holding.uid)
            self._port_holders.discard(holding.uid)
            return
        if holding.ports:
            self._port_holders.add(holding.uid)
        else:
            self._port_holders.discard(holding.uid)
        self._candidates.put(holding)
        there = self._room(holding.node)
        held = there.held.get(holding.uid, ReservationUsage(holding=holding))
        self._replace(there.holding(_update_usage(held, holding, self._inside(holding))))
        for seat in list(self._pods_on_node(holding.node)):
            if seat.inside is None and _is_owner_pod(seat.pod, holding):
                self._move(seat, holding.uid)

    def forget_reservation(self, uid: Uid) -> None:
        """Forget a deleted reservation; its pods run on."""
        if (before := self._holdings.pop(uid, None)) is not None and before.available:
            self._release_reservation(before)
        self._candidates.drop(uid)
        self._port_holders.discard(uid)

    def observe_pod(self, pod: PodInfo, *, node: str, assumed: bool = False) -> None:
        """Add or update a pod that has a node and has not finished; `assumed`: its binding is not confirmed yet."""
        before = self._seats.get(pod.uid)
        if before is not None and before.node == node:
            if (before.pod.amounts, before.pod.reservation) == (pod.amounts, pod.reservation):
                self._seats[pod.uid] = msgspec.structs.replace(before, pod=pod, assumed=assumed)
                return
            if before.inside is not None and pod.reservation in ("", before.inside):
                # `admit` assigned the pod and its annotation is not visible yet; or its amounts have changed in place.
                self._assign_pod(pod, node, into=before.inside, assumed=assumed)
                return
        holding = self._holdings.get(pod.reservation)
        if holding is not None and holding.available and holding.node == node and _is_owner_pod(pod, holding):
            self._assign_pod(pod, node, into=holding.uid, assumed=assumed)
            return
        over = (uid for uid, each in self._room(node).held.items() if pod.uid in each.holding.predecessors)
        self._assign_pod(pod, node, into=next(over, None), assumed=assumed)

    def withdraw(self, uid: Uid) -> None:
        """Undo `admit` for a pod that is still assumed; a pod observed on a node stays counted."""
        if (seat := self._seats.get(uid)) is not None and seat.assumed:
            self.forget_pod(uid)

    def forget_pod(self, uid: Uid) -> PodAssignment | None:
        """Forget a pod that has finished, was deleted or was not bound after all; return its last assignment."""
        seat = self._seats.pop(uid, None)
        if seat is not None:
            del self._on_node[seat.node][uid]
            self._replace(self._rooms[seat.node].giving(uid, seat.pod.amounts, out_of=seat.inside))
        return seat

    # Queries

    def sift(self, pod: PodInfo) -> FilterResult:
        """Return the nodes on which a pod can run now, and what the others lack."""
        fleet, eligible = self._fleet, self._eligible(pod)
        fits = self._feasible_nodes(pod, eligible)
        left = fleet.known & ~fits
        refused: list[RejectedNodes] = []
        for node in self._rooms if pod.ignores else eligible:
            if left & (one := fleet.only(node)):
                left ^= one
                why = filtering.filter_node(self._rooms[node], pod, eligible.get(node)).refusals
                refused.append(RejectedNodes(nodes=(node,), why=why))
        if pod.affinity is None and (held := left & self._nodes_with_reserved_ports(pod.ports)):
            refused.append(RejectedNodes(nodes=fleet.named(held), why=(Rejection(why=RejectionReason.HOST_PORT),)))
            left ^= held
        wanted = pod.amounts if pod.affinity is None else {}
        return FilterResult(fits=fleet.named(fits), refused=(*refused, *self._lacking(wanted, left)))

    def places(self, holding: ReservationInfo, *, only: str = "", required: bool = False) -> FilterResult:
        """Return the nodes on which `place` can place a reservation now, and what the others lack."""
        fleet = self._fleet
        elsewhere = fleet.known & ~fleet.only(only) if only else 0
        clashing = fleet.clashing(default_policy=holding.default_policy) & fleet.known & ~elsewhere
        port_held = self._nodes_with_reserved_ports(holding.ports) & fleet.known & ~elsewhere & ~clashing
        left = fleet.known & ~elsewhere & ~clashing & ~port_held
        fits = 0 if required else left & fleet.with_room(holding.amounts)
        refused = [
            RejectedNodes(nodes=fleet.named(nodes), why=(Rejection(why=why),))
            for nodes, why in (
                (elsewhere, RejectionReason.OTHER_NODE),
                (clashing, RejectionReason.POLICY_CONFLICT),
                (port_held, RejectionReason.HOST_PORT),
            )
            if nodes
        ]
        left &= ~fits
        if holding.pre_allocates:
            for node in fleet.named(left):
                found = self._place(holding, node, only=only, required=required)
                if isinstance(found, ReservationPlacement):
                    fits |= fleet.only(node)
                else:
                    refused.append(RejectedNodes(nodes=(node,), why=found))
        else:
            refused.extend(self._lacking(holding.amounts, left))
        return FilterResult(fits=fleet.named(fits), refused=tuple(refused))

    def options(
        self, holding: ReservationInfo, nodes: Iterable[str], *, only: str = "", required: bool = False
    ) -> Iterator[PlacementOption]:
        """Yield each of the given nodes on which a reservation can be placed now.

        Without pre-allocation the caller must have checked the nodes (`places`): thousands are passed each time.
        """
        for node in nodes:
            if not holding.pre_allocates:
                if (there := self._rooms.get(node)) is not None:
                    yield there, 0
                continue
            found = self._place(holding, node, only=only, required=required)
            if isinstance(found, ReservationPlacement):
                yield self._rooms[node], len(found.over)

    def explain(self, pod: PodInfo, node: str) -> NodeFilterResult:
        """Return the result of filtering one node for a pod, with all numbers."""
        return filtering.filter_node(self._room(node), pod)

    def scores(self, pod: PodInfo, nodes: Collection[str]) -> Mapping[str, int]:
        """Return scores of nodes for a pod, from 0 to 100; a node without an entry has 0."""
        if not (eligible := self._eligible(pod)):
            return {}
        wanted = frozenset(nodes)
        nominees = (
            scoring.score_nominated(there, pod, filtering.filter_node(there, pod, uids))
            for node, uids in eligible.items()
            if node in wanted
            for there in (self._rooms[node],)
        )
        return scoring.node_scores(each for each in nominees if each is not None)

    def refusals(self, pod: PodInfo) -> Iterator[tuple[ReservationInfo, Rejection | None]]:
        """Yield each reservation with the rejection of a pod; None if the pod may use it, capacity aside."""
        for uid, holding in self._holdings.items():
            there = self._rooms.get(holding.node)
            held = there.held.get(uid) if there is not None else None
            labels = there.labels if there is not None else {}
            entered = held.entered if held is not None else 0
            yield holding, filtering.check_eligibility(holding, pod, node_labels=labels, consumers=entered)

    def fitting_reservations(self, pod: PodInfo, among: AbstractSet[Uid]) -> Iterator[ReservationInfo]:
        """Yield each of the given reservations that would take a pod now."""
        for uid in self._candidates.of(pod):
            if uid in among:
                holding = self._holdings[uid]
                there = self._rooms[holding.node]
                held = there.held[uid]
                refusal = filtering.check_eligibility(holding, pod, node_labels=there.labels, consumers=held.entered)
                if refusal is None and not filtering.check_reservation(there, held, pod):
                    yield holding

    def unfit(self, pod: PodInfo) -> tuple[int, tuple[Rejection, ...]]:
        """Return how many available reservations name a pod as an owner, and what keeps each of them from the pod."""
        owned = 0
        found: list[Rejection] = []
        for uid in self._candidates.of(pod):
            holding = self._holdings[uid]
            if not owner_matching.matches_any_owner(holding.owners, pod):
                continue
            owned += 1
            there = self._rooms[holding.node]
            held = there.held[uid]
            refusal = filtering.check_eligibility(holding, pod, node_labels=there.labels, consumers=held.entered)
            found += (refusal,) if refusal is not None else filtering.check_reservation(there, held, pod)
        return owned, tuple(found)

    def room(self, node: str) -> NodeUsage | None:
        """Return the usage of a node; None for a node without an entry."""
        return self._rooms.get(node)

    def holding(self, uid: Uid) -> ReservationInfo | None:
        """Return a reservation by its uid; None if the uid is unknown."""
        return self._holdings.get(uid)

    def seat(self, uid: Uid) -> PodAssignment | None:
        """Return the assignment of a pod; None if the pod is not counted."""
        return self._seats.get(uid)

    def occupants(self, node: str) -> tuple[PodAssignment, ...]:
        """Return the pods of a node, with the reservation that each is in."""
        return tuple(self._pods_on_node(node))

    def running(self, node: str) -> Iterator[PodInfo]:
        """Yield the pods of a node that a reservation may be placed over: each is in none.

        A pod whose annotation names a reservation that was deleted or has ended is in none.
        """
        for seat in self._pods_on_node(node):
            named = self._holdings.get(seat.pod.reservation)
            if seat.inside is None and (named is None or not named.available):
                yield seat.pod

    def consumers(self, uid: Uid) -> tuple[PodInfo, ...]:
        """Return the pods in a reservation, ordered by uid."""
        holding = self._holdings.get(uid)
        found = self._inside(holding) if holding is not None else ()
        return tuple(sorted((seat.pod for seat in found), key=lambda pod: pod.uid))

    # Decisions that change the accounting

    def admit(self, pod: PodInfo, node: str) -> AssumedPod | tuple[Rejection, ...]:
        """Assign a pod to a node, in the best reservation for the pod; or return why the node rejects the pod.

        The call is idempotent for the same node. A pod assigned to one node is rejected by every other node until
        `forget_pod`: a binding whose outcome is unknown may still succeed.
        """
        there = self._room(node)
        if (before := self._seats.get(pod.uid)) is not None:
            if before.node != node:
                return (Rejection(why=RejectionReason.ELSEWHERE, subject=before.node),)
            return AssumedPod(node=node, inside=before.inside)
        verdict = filtering.filter_node(there, pod)
        if not verdict.fits:
            return verdict.refusals
        chosen = scoring.nominate_reservation(there, pod, verdict.inside)
        self._assign_pod(pod, node, into=chosen, assumed=True)
        return AssumedPod(node=node, inside=chosen)

    def place(
        self, holding: ReservationInfo, node: str, *, only: str = "", required: bool = False
    ) -> ReservationPlacement | tuple[Rejection, ...]:
        """Place a reservation on a node, over running pods if it may be; or return why the node rejects it."""
        found = self._place(holding, node, only=only, required=required)
        if isinstance(found, ReservationPlacement):
            over = frozenset(pod.uid for pod in found.over)
            held = msgspec.structs.replace(assign_node(holding, node=node), predecessors=holding.predecessors | over)
            self.observe_reservation(held)
            for uid in over:
                self._move(self._seats[uid], holding.uid)
        return found

    def succeed(self, pod: PodInfo, node: str, victims: Collection[Uid]) -> tuple[Rejection, ...]:
        """Reserve for a preemptor the capacity that its victims free; or return why evictions would not be enough.

        The capacity is held by a reservation for this pod alone (`preemption.preemptor_reservation`), until
        `forget_reservation`. Victims inside a reservation free capacity of that reservation: `promise` holds that.
        """
        stand_in = reservation_info.preemptor_reservation(pod, node, victims)
        leaving = [each for each in self.occupants(node) if each.pod.uid in stand_in.predecessors]
        if lacking := filtering.check_unreserved(self._room(node).without_pods(leaving), pod.amounts):
            return lacking
        self.observe_reservation(stand_in)
        return ()

    def promise(self, pod: PodInfo, uid: Uid) -> None:
        """Keep the resources that victims in a Reservation free for the preemptor, until `remove_nomination`."""
        there = self._rooms[self._holdings[uid].node]
        held = there.held[uid]
        self._replace(there.holding(msgspec.structs.replace(held, promised={**held.promised, pod.uid: pod.amounts})))

    def remove_nomination(self, pod: Uid, uid: Uid) -> None:
        """Stop keeping resources of a reservation for a preemptor."""
        holding = self._holdings.get(uid)
        held = self._room(holding.node).held.get(uid) if holding is not None else None
        if held is not None and pod in held.promised:
            rest = {key: each for key, each in held.promised.items() if key != pod}
            there = self._rooms[held.holding.node]
            self._replace(there.holding(msgspec.structs.replace(held, promised=rest)))

    # Internals

    def _eligible(self, pod: PodInfo) -> dict[str, list[Uid]]:
        """Return node → the reservations there that a pod may use."""
        found: dict[str, list[Uid]] = {}
        if pod.ignores:
            return found
        for uid in self._candidates.of(pod):
            holding = self._holdings[uid]
            there = self._rooms[holding.node]
            held = there.held[uid]
            if not there.known:
                continue
            if filtering.check_eligibility(holding, pod, node_labels=there.labels, consumers=held.entered) is None:
                found.setdefault(holding.node, []).append(uid)
        return found

    def _feasible_nodes(self, pod: PodInfo, eligible: Mapping[str, list[Uid]]) -> NodeSet:
        fleet = self._fleet
        if pod.ignores:
            return sum(fleet.only(name) for name, each in self._rooms.items() if filtering.filter_node(each, pod).fits)
        fits = fleet.with_room(pod.amounts) & ~self._nodes_with_reserved_ports(pod.ports) if pod.affinity is None else 0
        for node, uids in eligible.items():
            one = fleet.only(node)
            if not fits & one and filtering.filter_node(self._rooms[node], pod, uids).fits:
                fits |= one
        return fits

    def _nodes_with_reserved_ports(self, wanted: HostPorts) -> NodeSet:
        """Return the nodes where a reservation holds one of the wanted host ports."""
        found = 0
        if wanted:
            for uid in self._port_holders:
                if pod_info.have_conflict(wanted, (holding := self._holdings[uid]).ports):
                    found |= self._fleet.only(holding.node)
        return found

    def _lacking(self, wanted: Amounts, nodes: NodeSet) -> Iterator[RejectedNodes]:
        if not nodes:
            return
        for short, those in self._fleet.lacking(wanted, nodes):
            why = tuple(
                Rejection(why=RejectionReason.NODE_SHORT, subject=name, requested=wanted[name]) for name in short
            )
            yield RejectedNodes(nodes=self._fleet.named(those), why=why or (Rejection(why=RejectionReason.NO_MATCH),))

    def _place(
        self, holding: ReservationInfo, node: str, *, only: str, required: bool
    ) -> ReservationPlacement | tuple[Rejection, ...]:
        running = self.running(node)
        return reservation_placement.place_reservation(
            self._room(node), holding, only=only, running=running, required=required
        )

    def _room(self, node: str) -> NodeUsage:
        found = self._rooms.get(node)
        return found if found is not None else NodeUsage(name=node, capacity={}, known=False)

    def _replace(self, new: NodeUsage) -> None:
        """Replace the usage of a node, here and in the capacity index."""
        self._rooms[new.name] = new
        self._fleet.put(new)

    def _release_reservation(self, holding: ReservationInfo) -> None:
        for seat in list(self._inside(holding)):
            self._seats[seat.pod.uid] = msgspec.structs.replace(seat, inside=None)
        self._replace(self._rooms[holding.node].without(holding.uid))

    def _assign_pod(self, pod: PodInfo, node: str, *, into: Uid | None, assumed: bool) -> None:
        self.forget_pod(pod.uid)
        self._seats[pod.uid] = PodAssignment(pod=pod, node=node, inside=into, assumed=assumed)
        self._on_node.setdefault(node, {})[pod.uid] = None
        self._replace(self._room(node).taking(pod.uid, pod.amounts, into=into))

    def _move(self, seat: PodAssignment, uid: Uid) -> None:
        self._assign_pod(seat.pod, seat.node, into=uid, assumed=seat.assumed)

    def _pods_on_node(self, node: str) -> Iterator[PodAssignment]:
        return (self._seats[uid] for uid in self._on_node.get(node, ()))

    def _inside(self, holding: ReservationInfo) -> Iterable[PodAssignment]:
        return (seat for seat in self._pods_on_node(holding.node) if seat.inside == holding.uid)


def _is_owner_pod(pod: PodInfo, holding: ReservationInfo) -> bool:
    if pod.uid in holding.predecessors:
        return True
    return pod.reservation == holding.uid and (
        pod.uid in holding.listed or owner_matching.matches_any_owner(holding.owners, pod)
    )


def _update_usage(held: ReservationUsage, holding: ReservationInfo, seats: Iterable[PodAssignment]) -> ReservationUsage:
    """Return the usage of a reservation after the reservation has changed."""
    preceding = sum(seat.pod.uid in holding.predecessors for seat in seats)
    return msgspec.structs.replace(held, holding=holding, preceding=preceding)
