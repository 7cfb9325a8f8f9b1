"""The decisions of a bind: each checks and assumes in one step, so that no other call gets the same capacity.

1. The accounting admits the pod: from here on no other pod gets the same capacity.
2. For a reservation with allocateOnce, or one that holds devices: its status names the pod, compared and swapped. A
   replica that wrongly believes to lead, and a reservation that has ended meanwhile, fail here. Where owners share
   amounts, the accounting reads the pods from their annotations: such a status names the pod after the binding, in one
   write with others (`controller.reservations.reservations`).
3. One Binding, with the annotation that names the reservation.

A placeholder is bound in the same way: its reservation holds the node in the accounting, then in its status. Only then
is the pod bound, for the sake of schedulers that would count it on the node for ever (`forgets_deleted_pods`), and for
the sake of its claims; the controller deletes the pod right after.

Each raises WriteRefusedError, with the reason for kube-scheduler.
"""

import re
from collections.abc import Iterable
from typing import Final

from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.reservations import placeholders, statuses
from dra.engine.reservations.accounting import AssumedPod
from dra.engine.reservations.rejections import Rejection
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.reservations.reservation_placement import ReservationPlacement
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.scheduling import status_updates
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import AddOwner, PlaceReservation, WriteRefusedError
from dra.engine.scheduling.unconfirmed_bindings import UnconfirmedBinding
from dra.model.meta import Uid
from dra.model.scheduling import SchedulerPod

_FORGETS_SINCE: Final = (1, 35)
"""First version of kube-scheduler that forgets a pod which it has assumed on a node and which is deleted unbound."""

_MINOR: Final = re.compile(r"v(\d+)\.(\d+)")


def check_unbound(pod: SchedulerPod | None, uid: Uid) -> SchedulerPod:
    """Return the pod of a bind, unless it is gone or bound already."""
    if pod is None or pod.metadata.uid != uid:
        raise WriteRefusedError("it is gone")
    if pod.spec.node_name:
        raise WriteRefusedError(f"it is bound to node {pod.spec.node_name} already")
    return pod


def is_placeholder(pod: SchedulerPod) -> bool:
    """Return whether a pod stands for a reservation."""
    return placeholders.reservation_uid_of(pod.metadata) is not None


def assume_pod(cache: SchedulerCache, pod: SchedulerPod, node: str) -> UnconfirmedBinding:
    """Hold the capacity for a pod in the accounting, and perhaps in a reservation."""
    try:
        pod_info = cache.pod_info(pod, node=node)
    except MalformedAnnotationError as error:
        raise WriteRefusedError(str(error)) from error
    scored = cache.nodes_with_reservation.pop(pod_info.uid, frozenset())
    is_new = cache.accounting.assignment(pod_info.uid) is None
    cache.nominations.release(pod_info.uid)
    admission = cache.accounting.assume_pod(pod_info, node)
    if not isinstance(admission, AssumedPod):
        cache.nominations.update_nomination(pod_info, pod.status.nominated_node_name)
        raise WriteRefusedError(_joined_reasons(admission))
    if is_new and admission.reservation is None and node in scored:
        # Another pod of the same owner was faster; a reservation on another node may be meant for this one.
        cache.accounting.forget_pod(pod_info.uid)
        raise WriteRefusedError("another pod has taken the reservation on the node; the scheduler tries again")
    consumer = AssignedPod.from_pod_info(pod_info, binding=True)
    return UnconfirmedBinding(pod=consumer, node=node, reservation=admission.reservation)


def owner_update(cache: SchedulerCache, binding: UnconfirmedBinding) -> AddOwner | None:
    """Return the update of the reservation's status that must come before the Binding; None: there is none."""
    if binding.reservation is None:
        return None
    update, known = AddOwner(binding.pod), cache.reservation(binding.reservation)
    if known is None or statuses.names_owner_before_binding(known.reservation):
        return update
    status_updates.check_owner(known.reservation, binding.pod)
    return None


def reservation_to_place(cache: SchedulerCache, placeholder: SchedulerPod, node: str) -> CachedReservation | None:
    """Return the reservation that gets its node by the bind of its placeholder; None: it has this node already."""
    uid = placeholders.reservation_uid_of(placeholder.metadata)
    known = cache.reservation(uid) if uid is not None else None
    if known is None:
        raise WriteRefusedError("the placeholder's Reservation was deleted")
    cache.nominations.release(placeholder.metadata.uid)
    if not known.info.available:
        return known
    if known.info.node != node:
        raise WriteRefusedError(f"its reservation is on node {known.info.node} already")
    return None


def forgets_deleted_pods(server_version: str) -> bool:
    """Return whether kube-scheduler forgets a pod that is deleted before it is bound, as Kubernetes 1.35 and later do.

    kube-scheduler may be one minor version older than the API server, whose version is given, such as ``v1.37.2``;
    False for an unknown version.
    """
    matched = _MINOR.match(server_version)
    return matched is not None and (int(matched[1]), int(matched[2])) > _FORGETS_SINCE


def needs_binding(cache: SchedulerCache, placeholder: SchedulerPod) -> bool:
    """Return whether a placeholder must be bound in any case: it stays, or claims are handed over from it."""
    uid = placeholders.reservation_uid_of(placeholder.metadata)
    known = cache.reservation(uid) if uid is not None else None
    has_claims = bool(placeholder.spec.resource_claims) or known is None or bool(known.info.claims)
    return has_claims or placeholders.is_yielding_placeholder(placeholder)


def assume_reservation(cache: SchedulerCache, known: CachedReservation, node: str) -> PlaceReservation:
    """Hold a node for a reservation in the accounting."""
    info = _assumed_reservation(cache, known, node)
    pods = (AssignedPod.from_pod_info(pod) for pod in cache.accounting.owner_pods(info.uid))
    return PlaceReservation(info, tuple(pods))


def _assumed_reservation(cache: SchedulerCache, known: CachedReservation, node: str) -> ReservationInfo:
    if (already := cache.assumed.get(known.info.uid)) is not None:
        if already.node != node:
            raise WriteRefusedError(f"reservation {known.name}: is being placed on node {already.node}")
        return already
    if known.info.parse_error:
        raise WriteRefusedError(f"reservation {known.name}: {known.info.parse_error}")
    placement = cache.accounting.assume_reservation(known.info, node)
    if not isinstance(placement, ReservationPlacement):
        raise WriteRefusedError(_joined_reasons(placement))
    held = cache.accounting.reservation(known.info.uid)
    if held is None:
        raise AssertionError("what was placed is held")
    cache.assumed[held.uid] = held
    return held


def _joined_reasons(rejections: Iterable[Rejection]) -> str:
    return ", ".join(rejection.text for rejection in rejections)
