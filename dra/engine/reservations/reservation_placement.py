"""The placement of a reservation on a node, if need be over running pods.

A reservation needs what a pod of its template would: free capacity. Reservations of policy Default share no node with
those of other policies.

With pre-allocation (policy Restricted only) a reservation may also be placed over running pods, which become its
consumers: their place is reserved while they use it, and kept when they end. Candidates are pods that match an owner by
label selector (mode Default) or have the label ``is-pre-allocatable`` (mode Cluster), are in no reservation yet, and
take at most what the reservation holds of each restricted resource. The pod that fills the reservation best comes
first; in mode Cluster the priority annotation decides before that, and pods with a host port of the reservation come
before all others. One pod is chosen, or with ``enableMultiple`` as many as are needed and fit.

A resize: an increase must fit into what is free. A decrease is always possible: what consumers take beyond the
reservation stays charged.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from dra.api.reservations import well_known
from dra.api.reservations.model import PreAllocationMode
from dra.engine.reservations import filters as filtering
from dra.engine.reservations import owner_matching, pod_info, scoring
from dra.engine.reservations.node_usage import NodeUsage, ReservationUsage
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model import quantities
from dra.model.meta import Struct, Uid
from dra.model.quantities import NANOS_PER_UNIT, PODS, Amounts


class ReservationPlacement(Struct, frozen=True):
    """The node of a reservation, and the running pods that it is placed over."""

    node: str
    over: tuple[PodInfo, ...] = ()
    """The pods whose place the reservation takes."""


def place_reservation(
    room: NodeUsage,
    holding: ReservationInfo,
    *,
    only: str = "",
    running: Iterable[PodInfo] = (),
    required: bool = False,
) -> ReservationPlacement | tuple[Rejection, ...]:
    """Return how a reservation can be placed on a node, or why it cannot.

    `only` is the node that the template names; `running` are the node's pods that are in no reservation; `required` is
    whether the reservation must be placed over running pods.
    """
    if refusal := _check_node(room, holding, only):
        return (refusal,)
    if held := filtering.check_host_ports(room, holding.ports, but=holding.uid):
        return held
    there = tuple(running) if holding.pre_allocates else ()
    lacking = filtering.check_unreserved(room, holding.amounts)
    if not lacking and not required and not _use_reserved_ports(holding, there):
        return ReservationPlacement(node=room.name)
    over = _select_pre_allocatable_pods(room, holding, there)
    if over and not _use_reserved_ports(holding, (each for each in there if each not in over)):
        return ReservationPlacement(node=room.name, over=over)
    if _use_reserved_ports(holding, there):
        return (*lacking, Rejection(why=RejectionReason.HOST_PORT))
    return lacking or (Rejection(why=RejectionReason.NO_MATCH),)


def active_reservations(room: NodeUsage) -> Iterator[ReservationInfo]:
    """Yield the reservations of a node that share it with a further one; those that no pod can use now do not count."""
    for held in room.held.values():
        if not held.holding.stands_in and filtering.unusable_reason(held.holding, consumers=held.entered) is None:
            yield held.holding


def _check_node(room: NodeUsage, holding: ReservationInfo, only: str) -> Rejection | None:
    if not room.known:
        return Rejection(why=RejectionReason.NO_SUCH_NODE)
    if only and only != room.name:
        return Rejection(why=RejectionReason.OTHER_NODE)
    for each in active_reservations(room):
        if each.default_policy != holding.default_policy:
            return Rejection(why=RejectionReason.POLICY_CONFLICT, subject=each.name)
    return None


def _select_pre_allocatable_pods(
    room: NodeUsage, holding: ReservationInfo, running: Iterable[PodInfo]
) -> tuple[PodInfo, ...]:
    """Return the pods over which to place a reservation; none if the node still lacks capacity then."""
    chosen: list[PodInfo] = []
    taken: Amounts = {}
    for pod in sorted(
        (each for each in running if _is_pre_allocatable(room, holding, each)),
        key=partial(_pre_allocation_order, holding),
    ):
        more = quantities.add(taken, pod.amounts)
        if any(amount > holding.amounts[name] for name, amount in more.items() if name in holding.restricted):
            continue
        if not holding.enable_multiple:
            if _fits(room.giving(pod.uid, pod.amounts), holding, pod.amounts):
                return (pod,)
            continue
        chosen.append(pod)
        taken = more
        room = room.giving(pod.uid, pod.amounts)
        if _fits(room, holding, taken):
            return tuple(chosen)
    return ()


def _use_reserved_ports(holding: ReservationInfo, pods: Iterable[PodInfo]) -> bool:
    """Return whether a pod uses a host port of the reservation.

    kube-scheduler does not check that: with pre-allocation the placeholder has no host ports.
    """
    return bool(holding.ports) and any(pod_info.have_conflict(holding.ports, each.ports) for each in pods)


def _fits(room: NodeUsage, holding: ReservationInfo, consumed: Amounts) -> bool:
    return not filtering.check_unreserved(room, ReservationUsage(holding=holding, consumed=consumed).charges)


def _is_pre_allocatable(room: NodeUsage, holding: ReservationInfo, pod: PodInfo) -> bool:
    if not filtering.can_be_pre_allocated(holding, pod, node_labels=room.labels):
        return False
    if holding.pre_allocation_mode is PreAllocationMode.CLUSTER:
        return pod.labels.get(well_known.LABEL_PRE_ALLOCATABLE) == well_known.TRUE
    return owner_matching.matches_any_owner((each for each in holding.owners if each.label_selector is not None), pod)


def _pre_allocation_order(holding: ReservationInfo, pod: PodInfo) -> tuple[bool, int, int, str]:
    cluster = holding.pre_allocation_mode is PreAllocationMode.CLUSTER
    priority = pod.pre_allocatable if cluster else 0
    return (
        not _use_reserved_ports(holding, (pod,)),
        -priority,
        -scoring.most_allocated(ReservationUsage(holding=holding), pod.amounts),
        pod.uid,
    )


def insufficient_for_resize(room: NodeUsage, uid: Uid, wanted: Amounts) -> tuple[Rejection, ...]:
    """Return the resources that the node lacks for its reservation to hold the wanted amounts instead."""
    held = room.held[uid]
    wanted = {**wanted, PODS: wanted.get(PODS, NANOS_PER_UNIT)}
    return tuple(
        Rejection(
            why=RejectionReason.NODE_SHORT,
            subject=name,
            requested=amount,
            used=room.charged.get(name, 0) - held.charge(name),
            capacity=room.capacity.get(name, 0),
        )
        for name, amount in wanted.items()
        if max(amount, held.consumed.get(name, 0)) - held.charge(name) > max(0, room.free(name))
    )
