"""The placement of a reservation on a node, if need be over running pods.

A reservation needs what a pod of its template would: free capacity. Reservations of policy Default share no node with
those of other policies.

With pre-allocation (policy Restricted only) a reservation may also be placed over running pods, which become its owner
pods: their place is reserved while they use it, and kept when they end. Candidates are pods that match an owner by
label selector (mode Default) or have the label ``is-pre-allocatable`` (mode Cluster), are in no reservation yet, and
take at most what the reservation holds of each restricted resource. The pod that fills the reservation best comes
first; in mode Cluster the priority annotation decides before that, and pods with a host port of the reservation come
before all others. One pod is chosen, or with ``enableMultiple`` as many as are needed and fit.

A resize: an increase must fit into what is free. A decrease is always possible: what owner pods take beyond the
reservation stays counted.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from dra.api.reservations import well_known
from dra.api.reservations.model import PreAllocationMode
from dra.engine.kube_scheduler import host_ports
from dra.engine.reservations import filters as filtering
from dra.engine.reservations import owner_matching, scoring
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
    pre_allocated_pods: tuple[PodInfo, ...] = ()
    """The pods whose place the reservation takes."""


def place_reservation(
    node: NodeUsage, info: ReservationInfo, unreserved_pods: Iterable[PodInfo] = ()
) -> ReservationPlacement | tuple[Rejection, ...]:
    """Return how a reservation can be placed on a node, or why it cannot.

    `unreserved_pods` are the node's pods that are in no reservation.
    """
    if rejection := _check_node(node, info):
        return (rejection,)
    if conflicts := filtering.check_host_ports(node, info.host_ports, excluding=info.uid):
        return conflicts
    pods = tuple(unreserved_pods) if info.allows_pre_allocation else ()
    lacking = filtering.check_unreserved(node, info.allocatable)
    if not lacking and not info.requires_pre_allocation and not _use_reserved_ports(info, pods):
        return ReservationPlacement(node=node.name)
    pre_allocated = _select_pre_allocatable_pods(node, info, pods)
    if pre_allocated and not _use_reserved_ports(info, (pod for pod in pods if pod not in pre_allocated)):
        return ReservationPlacement(node=node.name, pre_allocated_pods=pre_allocated)
    if _use_reserved_ports(info, pods):
        return (*lacking, Rejection(reason=RejectionReason.HOST_PORT_HELD))
    return lacking or (Rejection(reason=RejectionReason.NO_RESERVATIONS_MATCH),)


def active_reservations(node: NodeUsage) -> Iterator[ReservationInfo]:
    """Yield the reservations of a node that share it with a further one; those that no pod can use now do not count."""
    for usage in node.reservations.values():
        if (
            not usage.info.for_preemptor
            and filtering.unusable_reason(usage.info, new_owner_count=usage.new_owner_count) is None
        ):
            yield usage.info


def _check_node(node: NodeUsage, info: ReservationInfo) -> Rejection | None:
    if not node.is_known:
        return Rejection(reason=RejectionReason.NODE_UNKNOWN)
    if info.required_node not in ("", node.name):
        return Rejection(reason=RejectionReason.OTHER_NODE)
    for reservation in active_reservations(node):
        if reservation.has_default_policy != info.has_default_policy:
            return Rejection(reason=RejectionReason.ALLOCATE_POLICY_CONFLICT, subject=reservation.name)
    return None


def _select_pre_allocatable_pods(
    node: NodeUsage, info: ReservationInfo, pods: Iterable[PodInfo]
) -> tuple[PodInfo, ...]:
    """Return the pods over which to place a reservation; none if the node still lacks capacity then."""
    chosen: list[PodInfo] = []
    taken: Amounts = {}
    for pod in sorted(
        (pod for pod in pods if _is_pre_allocatable(node, info, pod)),
        key=partial(_pre_allocation_order, info),
    ):
        more = quantities.add(taken, pod.amounts)
        if any(amount > info.allocatable[name] for name, amount in more.items() if name in info.restricted_resources):
            continue
        if not info.enable_multiple:
            if _fits(node.without_pod(pod.uid, pod.amounts), info, pod.amounts):
                return (pod,)
            continue
        chosen.append(pod)
        taken = more
        node = node.without_pod(pod.uid, pod.amounts)
        if _fits(node, info, taken):
            return tuple(chosen)
    return ()


def _use_reserved_ports(info: ReservationInfo, pods: Iterable[PodInfo]) -> bool:
    """Return whether a pod uses a host port of the reservation.

    kube-scheduler does not check that: with pre-allocation the placeholder has no host ports.
    """
    return bool(info.host_ports) and any(host_ports.have_conflict(info.host_ports, pod.host_ports) for pod in pods)


def _fits(node: NodeUsage, info: ReservationInfo, allocated: Amounts) -> bool:
    return not filtering.check_unreserved(node, ReservationUsage(info=info, allocated=allocated).all_requested)


def _is_pre_allocatable(node: NodeUsage, info: ReservationInfo, pod: PodInfo) -> bool:
    if not filtering.can_be_pre_allocated(info, pod, node_labels=node.labels):
        return False
    if info.pre_allocation_mode is PreAllocationMode.CLUSTER:
        return pod.labels.get(well_known.LABEL_PRE_ALLOCATABLE) == well_known.TRUE
    return owner_matching.matches_any_owner((owner for owner in info.owners if owner.label_selector is not None), pod)


def _pre_allocation_order(info: ReservationInfo, pod: PodInfo) -> tuple[bool, int, int, str]:
    cluster = info.pre_allocation_mode is PreAllocationMode.CLUSTER
    priority = pod.pre_allocatable_priority if cluster else 0
    return (
        not _use_reserved_ports(info, (pod,)),
        -priority,
        -scoring.most_allocated(ReservationUsage(info=info), pod.amounts),
        pod.uid,
    )


def insufficient_for_resize(node: NodeUsage, uid: Uid, wanted: Amounts) -> tuple[Rejection, ...]:
    """Return the resources that the node lacks for its reservation to hold the wanted amounts instead."""
    usage = node.reservations[uid]
    wanted = {**wanted, PODS: wanted.get(PODS, NANOS_PER_UNIT)}
    return tuple(
        filtering.node_insufficient(node, name, amount, used=node.requested.get(name, 0) - usage.requested(name))
        for name, amount in wanted.items()
        if max(amount, usage.allocated.get(name, 0)) - usage.requested(name) > max(0, node.free(name))
    )
