"""The accounting of a cluster: capacity of nodes, what reservations hold, and what pods take.

Schedulers query the accounting and record their decisions in it. It is a cache, never the source of truth: it is filled
from objects of the API, in any order, and can be refilled at any time. Pods may come before their node or their
reservation. Nothing is ever summed from the beginning: each node is an immutable value (`node_usage`) that a change
replaces, and what nodes have free is kept sorted (`capacity_index`).

A pod is *in* a reservation if its annotation names the reservation and one of these holds: the reservation's status
lists the pod, the pod matches an owner, or `assume_pod` assigned the pod. An annotation alone assigns no pod: authors
of pods can write annotations. Pods over which the reservation was placed are in it without an annotation. An assigned
pod stays assigned, even if owners or labels change later.

`assume_pod` decides and records in one step: the pod is counted when `assume_pod` returns, so no later call can give
away the same capacity. `forget_assumed_pod` undoes it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from dra.engine.kube_scheduler import host_ports
from dra.engine.kube_scheduler.host_ports import HostPorts
from dra.engine.reservations import filters as filtering
from dra.engine.reservations import owner_matching, reservation_info, reservation_placement, scoring
from dra.engine.reservations.capacity_index import CapacityIndex, NodeSet
from dra.engine.reservations.filters import NodeFilterResult
from dra.engine.reservations.node_usage import NodeUsage, PodAssignment, ReservationUsage, empty_node
from dra.engine.reservations.owner_matching import OwnerIndex
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo, assign_node
from dra.engine.reservations.reservation_placement import ReservationPlacement
from dra.engine.reservations.scoring import PlacementOption
from dra.model.meta import Struct, Uid
from dra.model.quantities import NO_AMOUNTS, Amounts


class AssumedPod(Struct, frozen=True):
    """The result of assigning a pod: its node and its reservation."""

    node: str
    reservation: Uid | None = None


class RejectedNodes(Struct, frozen=True):
    """Nodes with the same rejections; without the numbers where resources are short, since numbers differ by node."""

    nodes: tuple[str, ...]
    rejections: tuple[Rejection, ...]


class FilterResult(Struct, frozen=True):
    """The result of filtering all nodes for a pod, or for a reservation."""

    feasible: tuple[str, ...]
    rejected: tuple[RejectedNodes, ...]


class ReservationAccounting:
    """The cache of nodes, reservations and pods, and every decision about their capacity."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeUsage] = {}
        self._index = CapacityIndex()
        self._reservations: dict[Uid, ReservationInfo] = {}
        self._owner_index = OwnerIndex()
        self._assignments: dict[Uid, PodAssignment] = {}
        self._port_holders: set[Uid] = set()
        """Available reservations that hold host ports: few, if any."""
        self._on_node: dict[str, dict[Uid, None]] = {}

    @property
    def index(self) -> CapacityIndex:
        """The index of nodes by what they have free."""
        return self._index

    # Observing cluster objects

    def observe_node(
        self,
        name: str,
        capacity: Amounts,
        *,
        labels: Mapping[str, str] | None = None,
        unreserved: Amounts = NO_AMOUNTS,
    ) -> None:
        """Add or update a node; `capacity` excludes what the node reserves for itself.

        `unreserved` is what pods of a new node take that are in no reservation, and will be in none: nobody observes
        these one by one.
        """
        fresh = empty_node(name, capacity, labels=labels).with_unreserved(unreserved)
        before = self._nodes.get(name)
        if before is not None:
            fresh = msgspec.structs.replace(before, capacity=fresh.capacity, labels=fresh.labels, is_known=True)
        self._store_node(fresh)

    def forget_node(self, name: str) -> None:
        """Forget a deleted node; its pods and reservations stay counted until they are deleted, too."""
        if (before := self._nodes.get(name)) is not None:
            self._store_node(msgspec.structs.replace(before, capacity={}, is_known=False))

    def observe_reservation(self, info: ReservationInfo) -> None:
        """Add or update a reservation; only an available reservation holds anything."""
        before = self._reservations.get(info.uid)
        if before is not None and before.available and (before.node != info.node or not info.available):
            self._release_reservation(before)
        self._reservations[info.uid] = info
        if not info.available:
            self._owner_index.remove(info.uid)
            self._port_holders.discard(info.uid)
            return
        if info.host_ports:
            self._port_holders.add(info.uid)
        else:
            self._port_holders.discard(info.uid)
        self._owner_index.update(info)
        node_usage = self._node(info.node)
        usage = node_usage.reservations.get(info.uid, ReservationUsage(info=info))
        self._store_node(node_usage.with_reservation(_update_usage(usage, info, self._assignments_in(info))))
        for assignment in list(self._assignments_on_node(info.node)):
            if assignment.reservation is None and _is_owner_pod(assignment.pod, info):
                self._reassign_pod(assignment, info.uid)

    def forget_reservation(self, uid: Uid) -> None:
        """Forget a deleted reservation; its pods run on."""
        if (before := self._reservations.pop(uid, None)) is not None and before.available:
            self._release_reservation(before)
        self._owner_index.remove(uid)
        self._port_holders.discard(uid)

    def observe_pod(self, pod: PodInfo, *, node: str, assumed: bool = False) -> None:
        """Add or update a pod that has a node and has not finished; `assumed`: its binding is not confirmed yet."""
        before = self._assignments.get(pod.uid)
        if before is not None and before.node == node:
            if (before.pod.amounts, before.pod.allocated_reservation) == (pod.amounts, pod.allocated_reservation):
                self._assignments[pod.uid] = msgspec.structs.replace(before, pod=pod, assumed=assumed)
                return
            if before.reservation is not None and pod.allocated_reservation in ("", before.reservation):
                # `assume_pod` assigned the pod and its annotation is not visible yet; or its amounts have changed.
                self._assign_pod(pod, node, into=before.reservation, assumed=assumed)
                return
        info = self._reservations.get(pod.allocated_reservation)
        if info is not None and info.available and info.node == node and _is_owner_pod(pod, info):
            self._assign_pod(pod, node, into=info.uid, assumed=assumed)
            return
        pre_allocating = (
            uid for uid, usage in self._node(node).reservations.items() if pod.uid in usage.info.pre_allocated_pods
        )
        self._assign_pod(pod, node, into=next(pre_allocating, None), assumed=assumed)

    def forget_assumed_pod(self, uid: Uid) -> None:
        """Undo `assume_pod` for a pod that is still assumed; a pod observed on a node stays counted."""
        if (assignment := self._assignments.get(uid)) is not None and assignment.assumed:
            self.forget_pod(uid)

    def forget_pod(self, uid: Uid) -> PodAssignment | None:
        """Forget a pod that has finished, was deleted or was not bound after all; return its last assignment."""
        assignment = self._assignments.pop(uid, None)
        if assignment is not None:
            del self._on_node[assignment.node][uid]
            self._store_node(
                self._nodes[assignment.node].without_pod(uid, assignment.pod.amounts, out_of=assignment.reservation)
            )
        return assignment

    # Queries

    def feasible_nodes(self, pod: PodInfo) -> NodeSet:
        """Return the nodes on which a pod can run now; `filter_nodes` says what the others lack."""
        return self._feasible_nodes(pod, self._eligible_by_node(pod))

    def filter_nodes(self, pod: PodInfo) -> FilterResult:
        """Return the nodes on which a pod can run now, and what the others lack."""
        index, eligible = self._index, self._eligible_by_node(pod)
        fits = self._feasible_nodes(pod, eligible)
        left = index.known & ~fits
        rejected: list[RejectedNodes] = []
        for node in self._nodes if pod.ignores_reservations else eligible:
            if left & (one := index.single(node)):
                left ^= one
                rejections = filtering.filter_node(self._nodes[node], pod, eligible.get(node)).rejections
                rejected.append(RejectedNodes(nodes=(node,), rejections=rejections))
        if pod.affinity is None and (port_held := left & self._nodes_with_reserved_ports(pod.host_ports)):
            rejected.append(
                RejectedNodes(
                    nodes=index.names(port_held), rejections=(Rejection(reason=RejectionReason.HOST_PORT_HELD),)
                )
            )
            left ^= port_held
        wanted = pod.amounts if pod.affinity is None else {}
        return FilterResult(feasible=index.names(fits), rejected=(*rejected, *self._nodes_lacking(wanted, left)))

    def filter_nodes_for_reservation(self, info: ReservationInfo) -> FilterResult:
        """Return the nodes on which `assume_reservation` can place a reservation now, and what the others lack."""
        index = self._index
        elsewhere = index.known & ~index.single(info.required_node) if info.required_node else 0
        conflicting = index.with_policy_conflict(default_policy=info.has_default_policy) & index.known & ~elsewhere
        port_held = self._nodes_with_reserved_ports(info.host_ports) & index.known & ~elsewhere & ~conflicting
        left = index.known & ~elsewhere & ~conflicting & ~port_held
        fits = 0 if info.requires_pre_allocation else left & index.with_free(info.allocatable)
        rejected = [
            RejectedNodes(nodes=index.names(nodes), rejections=(Rejection(reason=reason),))
            for nodes, reason in (
                (elsewhere, RejectionReason.OTHER_NODE),
                (conflicting, RejectionReason.ALLOCATE_POLICY_CONFLICT),
                (port_held, RejectionReason.HOST_PORT_HELD),
            )
            if nodes
        ]
        left &= ~fits
        if info.allows_pre_allocation:
            for node in index.names(left):
                placement = self._find_placement(info, node)
                if isinstance(placement, ReservationPlacement):
                    fits |= index.single(node)
                else:
                    rejected.append(RejectedNodes(nodes=(node,), rejections=placement))
        else:
            rejected.extend(self._nodes_lacking(info.allocatable, left))
        return FilterResult(feasible=index.names(fits), rejected=tuple(rejected))

    def placement_options(self, info: ReservationInfo, nodes: Iterable[str]) -> Iterator[PlacementOption]:
        """Yield each of the given nodes on which a reservation can be placed now.

        Without pre-allocation the caller must have checked the nodes (`filter_nodes_for_reservation`):
        thousands are passed each time.
        """
        for node in nodes:
            if not info.allows_pre_allocation:
                if (node_usage := self._nodes.get(node)) is not None:
                    yield node_usage, 0
                continue
            placement = self._find_placement(info, node)
            if isinstance(placement, ReservationPlacement):
                yield self._nodes[node], len(placement.pre_allocated_pods)

    def filter_node(self, pod: PodInfo, node: str) -> NodeFilterResult:
        """Return the result of filtering one node for a pod, with all numbers."""
        return filtering.filter_node(self._node(node), pod)

    def prioritize(self, pod: PodInfo, nodes: Collection[str]) -> Mapping[str, int]:
        """Return scores of nodes for a pod, from 0 to 100; a node without an entry has 0."""
        if not (eligible := self._eligible_by_node(pod)):
            return {}
        wanted = frozenset(nodes)
        nominees = (
            scoring.score_nominated(node_usage, pod, filtering.filter_node(node_usage, pod, uids))
            for node, uids in eligible.items()
            if node in wanted
            for node_usage in (self._nodes[node],)
        )
        return scoring.node_scores(nominee for nominee in nominees if nominee is not None)

    def rejections(self, pod: PodInfo) -> Iterator[tuple[ReservationInfo, Rejection | None]]:
        """Yield each reservation with the rejection of a pod; None if the pod may use it, capacity aside."""
        for uid, info in self._reservations.items():
            node_usage = self._nodes.get(info.node)
            usage = node_usage.reservations.get(uid) if node_usage is not None else None
            labels = node_usage.labels if node_usage is not None else {}
            new_owner_count = usage.new_owner_count if usage is not None else 0
            yield info, filtering.check_eligibility(info, pod, node_labels=labels, new_owner_count=new_owner_count)

    def fitting_reservations(self, pod: PodInfo, among: AbstractSet[Uid]) -> Iterator[ReservationInfo]:
        """Yield each of the given reservations that would take a pod now."""
        for node_usage, usage in self._candidates(pod):
            if usage.info.uid not in among or filtering.check_usage(node_usage, usage, pod) is not None:
                continue
            if not filtering.check_reservation(node_usage, usage, pod):
                yield usage.info

    def rejections_of_owner(self, pod: PodInfo) -> tuple[int, tuple[Rejection, ...]]:
        """Return how many available reservations name a pod as an owner, and what keeps each of them from the pod."""
        owned = 0
        rejections: list[Rejection] = []
        for node_usage, usage in self._candidates(pod):
            if owner_matching.matches_any_owner(usage.info.owners, pod):
                owned += 1
                rejection = filtering.check_usage(node_usage, usage, pod)
                rejections += (
                    (rejection,) if rejection is not None else filtering.check_reservation(node_usage, usage, pod)
                )
        return owned, tuple(rejections)

    def node(self, node: str) -> NodeUsage | None:
        """Return the usage of a node; None for a node without an entry."""
        return self._nodes.get(node)

    def reservation(self, uid: Uid) -> ReservationInfo | None:
        """Return a reservation by its uid; None if the uid is unknown."""
        return self._reservations.get(uid)

    def assignment(self, uid: Uid) -> PodAssignment | None:
        """Return the assignment of a pod; None if the pod is not counted."""
        return self._assignments.get(uid)

    def pods_on_node(self, node: str) -> tuple[PodAssignment, ...]:
        """Return the pods of a node, with the reservation that each is in."""
        return tuple(self._assignments_on_node(node))

    def unreserved_pods(self, node: str) -> Iterator[PodInfo]:
        """Yield the pods of a node that a reservation may be placed over: each is in none.

        A pod whose annotation names a reservation that was deleted or has ended is in none.
        """
        for assignment in self._assignments_on_node(node):
            named = self._reservations.get(assignment.pod.allocated_reservation)
            if assignment.reservation is None and (named is None or not named.available):
                yield assignment.pod

    def owner_pods(self, uid: Uid) -> tuple[PodInfo, ...]:
        """Return the pods in a reservation, ordered by uid."""
        info = self._reservations.get(uid)
        assignments = self._assignments_in(info) if info is not None else ()
        return tuple(sorted((assignment.pod for assignment in assignments), key=lambda pod: pod.uid))

    # Decisions that change the accounting

    def assume_pod(self, pod: PodInfo, node: str) -> AssumedPod | tuple[Rejection, ...]:
        """Assign a pod to a node, in the best reservation for the pod; or return why the node rejects the pod.

        The call is idempotent for the same node. A pod assigned to one node is rejected by every other node until
        `forget_pod`: a binding whose outcome is unknown may still succeed.
        """
        node_usage = self._node(node)
        if (before := self._assignments.get(pod.uid)) is not None:
            if before.node != node:
                return (Rejection(reason=RejectionReason.PLACED_ELSEWHERE, subject=before.node),)
            return AssumedPod(node=node, reservation=before.reservation)
        result = filtering.filter_node(node_usage, pod)
        if not result.fits:
            return result.rejections
        chosen = scoring.nominate_reservation(node_usage, pod, result.reservations)
        self._assign_pod(pod, node, into=chosen, assumed=True)
        return AssumedPod(node=node, reservation=chosen)

    def assume_reservation(self, info: ReservationInfo, node: str) -> ReservationPlacement | tuple[Rejection, ...]:
        """Place a reservation on a node, over running pods if it may be; or return why the node rejects it."""
        placement = self._find_placement(info, node)
        if isinstance(placement, ReservationPlacement):
            pre_allocated = frozenset(pod.uid for pod in placement.pre_allocated_pods)
            assumed = msgspec.structs.replace(
                assign_node(info, node=node), pre_allocated_pods=info.pre_allocated_pods | pre_allocated
            )
            self.observe_reservation(assumed)
            for uid in pre_allocated:
                self._reassign_pod(self._assignments[uid], info.uid)
        return placement

    def reserve_for_preemptor(self, pod: PodInfo, node: str, victims: Collection[Uid]) -> tuple[Rejection, ...]:
        """Reserve for a preemptor the capacity that its victims free; or return why evictions would not be enough.

        The capacity is held by a reservation for this pod alone (`preemption.preemptor_reservation`), until
        `forget_reservation`. Victims inside a reservation free capacity of that reservation: `nominate`
        holds that.
        """
        info = reservation_info.preemptor_reservation(pod, node, victims)
        assignments = [
            assignment for assignment in self.pods_on_node(node) if assignment.pod.uid in info.pre_allocated_pods
        ]
        if lacking := filtering.check_unreserved(self._node(node).without_pods(assignments), pod.amounts):
            return lacking
        self.observe_reservation(info)
        return ()

    def nominate(self, pod: PodInfo, uid: Uid) -> None:
        """Keep the resources that victims in a Reservation free for the preemptor, until `remove_nomination`."""
        node_usage = self._nodes[self._reservations[uid].node]
        usage = node_usage.reservations[uid]
        self._store_node(
            node_usage.with_reservation(
                msgspec.structs.replace(usage, nominated={**usage.nominated, pod.uid: pod.amounts})
            )
        )

    def remove_nomination(self, pod: Uid, uid: Uid) -> None:
        """Stop keeping resources of a reservation for a preemptor."""
        info = self._reservations.get(uid)
        usage = self._node(info.node).reservations.get(uid) if info is not None else None
        if usage is not None and pod in usage.nominated:
            rest = {key: amounts for key, amounts in usage.nominated.items() if key != pod}
            node_usage = self._nodes[usage.info.node]
            self._store_node(node_usage.with_reservation(msgspec.structs.replace(usage, nominated=rest)))

    # Internals

    def _eligible_by_node(self, pod: PodInfo) -> dict[str, list[Uid]]:
        """Return node → the reservations there that a pod may use."""
        eligible: dict[str, list[Uid]] = {}
        if pod.ignores_reservations:
            return eligible
        for node_usage, usage in self._candidates(pod):
            if node_usage.is_known and filtering.check_usage(node_usage, usage, pod) is None:
                eligible.setdefault(node_usage.name, []).append(usage.info.uid)
        return eligible

    def _candidates(self, pod: PodInfo) -> Iterator[tuple[NodeUsage, ReservationUsage]]:
        """Yield the available reservations whose owners may match a pod, each with its node."""
        for uid in self._owner_index.candidates(pod):
            node_usage = self._nodes[self._reservations[uid].node]
            yield node_usage, node_usage.reservations[uid]

    def _feasible_nodes(self, pod: PodInfo, eligible: Mapping[str, list[Uid]]) -> NodeSet:
        index = self._index
        if pod.ignores_reservations:
            return sum(
                index.single(name) for name, usage in self._nodes.items() if filtering.filter_node(usage, pod).fits
            )
        fits = (
            index.with_free(pod.amounts) & ~self._nodes_with_reserved_ports(pod.host_ports)
            if pod.affinity is None
            else 0
        )
        for node, uids in eligible.items():
            one = index.single(node)
            if not fits & one and filtering.filter_node(self._nodes[node], pod, uids).fits:
                fits |= one
        return fits

    def _nodes_with_reserved_ports(self, wanted: HostPorts) -> NodeSet:
        """Return the nodes where a reservation holds one of the wanted host ports."""
        nodes = 0
        if wanted:
            for uid in self._port_holders:
                if host_ports.have_conflict(wanted, (info := self._reservations[uid]).host_ports):
                    nodes |= self._index.single(info.node)
        return nodes

    def _nodes_lacking(self, wanted: Amounts, nodes: NodeSet) -> Iterator[RejectedNodes]:
        if not nodes:
            return
        for short, those in self._index.group_by_shortage(wanted, nodes):
            rejections = tuple(
                Rejection(reason=RejectionReason.NODE_INSUFFICIENT, subject=name, requested=wanted[name])
                for name in short
            )
            yield RejectedNodes(
                nodes=self._index.names(those),
                rejections=rejections or (Rejection(reason=RejectionReason.NO_RESERVATIONS_MATCH),),
            )

    def _find_placement(self, info: ReservationInfo, node: str) -> ReservationPlacement | tuple[Rejection, ...]:
        return reservation_placement.place_reservation(self._node(node), info, self.unreserved_pods(node))

    def _node(self, node: str) -> NodeUsage:
        usage = self._nodes.get(node)
        return usage if usage is not None else NodeUsage(name=node, capacity={}, is_known=False)

    def _store_node(self, new: NodeUsage) -> None:
        """Replace the usage of a node, here and in the capacity index."""
        self._nodes[new.name] = new
        self._index.update(new)

    def _release_reservation(self, info: ReservationInfo) -> None:
        for assignment in list(self._assignments_in(info)):
            self._assignments[assignment.pod.uid] = msgspec.structs.replace(assignment, reservation=None)
        self._store_node(self._nodes[info.node].without_reservation(info.uid))

    def _assign_pod(self, pod: PodInfo, node: str, *, into: Uid | None, assumed: bool) -> None:
        self.forget_pod(pod.uid)
        self._assignments[pod.uid] = PodAssignment(pod=pod, node=node, reservation=into, assumed=assumed)
        self._on_node.setdefault(node, {})[pod.uid] = None
        self._store_node(self._node(node).with_pod(pod.uid, pod.amounts, into=into))

    def _reassign_pod(self, assignment: PodAssignment, uid: Uid) -> None:
        self._assign_pod(assignment.pod, assignment.node, into=uid, assumed=assignment.assumed)

    def _assignments_on_node(self, node: str) -> Iterator[PodAssignment]:
        return (self._assignments[uid] for uid in self._on_node.get(node, ()))

    def _assignments_in(self, info: ReservationInfo) -> Iterable[PodAssignment]:
        return (assignment for assignment in self._assignments_on_node(info.node) if assignment.reservation == info.uid)


def _is_owner_pod(pod: PodInfo, info: ReservationInfo) -> bool:
    if pod.uid in info.pre_allocated_pods:
        return True
    return pod.allocated_reservation == info.uid and (
        pod.uid in info.current_owners or owner_matching.matches_any_owner(info.owners, pod)
    )


def _update_usage(
    usage: ReservationUsage, info: ReservationInfo, assignments: Iterable[PodAssignment]
) -> ReservationUsage:
    """Return the usage of a reservation after the reservation has changed."""
    pre_allocated_count = sum(assignment.pod.uid in info.pre_allocated_pods for assignment in assignments)
    return msgspec.structs.replace(usage, info=info, pre_allocated_count=pre_allocated_count)
