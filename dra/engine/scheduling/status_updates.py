"""The updates of a Reservation's status that the extender writes, each a value.

A status is compared and swapped: after a conflict an update is decided again, on the version that was read then. So an
update says what is to be reached, and `updated_status` decides what that means for one version.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation, ReservationPhase, ReservationStatus
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.instants import WallTime
from dra.engine.reservations import phases, reservation_info, statuses
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.reservations.statuses import AssignedPod
from dra.model.meta import Struct
from dra.model.quantities import Amounts, MalformedAmountsError


class WriteRefusedError(Exception):
    """The write is not possible, and nothing has been written."""


class AddOwner(Struct, frozen=True):
    """Name an owner pod that is about to be bound."""

    pod: AssignedPod


class RemoveOwner(Struct, frozen=True):
    """Remove an owner pod that was never bound."""

    pod: AssignedPod


class PlaceReservation(Struct, frozen=True):
    """Place a reservation on the node that it holds in the accounting."""

    info: ReservationInfo
    pods: tuple[AssignedPod, ...]
    """The running pods over which the reservation is placed: its first owner pods."""


class ResizeReservation(Struct, frozen=True):
    """Hold the amounts that the reservation requests now."""

    requests: Amounts


StatusUpdate: TypeAlias = AddOwner | RemoveOwner | PlaceReservation | ResizeReservation


def updated_status(reservation: Reservation, update: StatusUpdate, *, now: WallTime) -> ReservationStatus | None:
    """Return the status after an update; None: no change needed.

    Raises WriteRefusedError if the basis of the update has changed.
    """
    match update:
        case AddOwner(pod=pod):
            check_owner(reservation, pod)
            return statuses.status_with_owner(reservation, pod)
        case RemoveOwner(pod=pod):
            return statuses.status_without_owner(reservation, pod)
        case PlaceReservation():
            return _placed_status(reservation, update, now=now)
        case ResizeReservation(requests=requests):
            return _resized_status(reservation, requests)


def merge(
    reservation: Reservation, updates: Sequence[StatusUpdate], *, now: WallTime
) -> tuple[dict[str, Any], dict[int, WriteRefusedError]]:
    """Return the JSON merge patch of a status for updates in their order; empty: no change needed.

    The patch does not include updates that are not possible any more; the second result has why, by position.
    """
    before, refusals = reservation.status, {}
    for position, update in enumerate(updates):
        try:
            status = updated_status(reservation, update, now=now)
        except WriteRefusedError as error:
            refusals[position] = error
            continue
        if status is not None:
            reservation = reservation.model_copy(update={"status": status})
    return statuses.status_patch(before, reservation.status), refusals


def check_owner(reservation: Reservation, pod: AssignedPod) -> None:
    """Check that a pod may still become an owner; raise WriteRefusedError."""
    if (
        reservation.status.phase is not ReservationPhase.AVAILABLE
        or reservation.metadata.deletion_timestamp is not None
    ):
        raise WriteRefusedError(f"reservation {reservation.metadata.name}: is not available any more")
    over = reservation_info.pre_allocated_pods(reservation)
    others = {owner.uid for owner in reservation.status.current_owners} - {pod.uid} - over
    if reservation.spec.allocate_once and others:
        raise WriteRefusedError("reservation has allocateOnce enabled and has already been allocated")


def annotations_before(update: StatusUpdate) -> dict[str, str]:
    """Return the annotations to write before the status."""
    if not isinstance(update, PlaceReservation) or not update.info.pre_allocated_pods:
        return {}
    return {well_known.ANNOTATION_PLACED_OVER: ",".join(sorted(update.info.pre_allocated_pods))}


def _resized_status(reservation: Reservation, requests: Amounts) -> ReservationStatus | None:
    try:
        current = reservation_info.reservation_requests(reservation)
    except (MalformedAmountsError, MalformedAnnotationError) as error:
        raise WriteRefusedError(str(error)) from error
    if current != requests:
        raise WriteRefusedError("its resources changed again")
    return statuses.resized_status(reservation)


def _placed_status(reservation: Reservation, update: PlaceReservation, *, now: WallTime) -> ReservationStatus | None:
    status, node, name = reservation.status, update.info.node, update.info.name
    if status.phase is ReservationPhase.AVAILABLE and status.node_name == node:
        return None  # done by an earlier attempt
    if reservation_info.from_reservation(reservation).allocatable != update.info.allocatable:
        raise WriteRefusedError(f"reservation {name}: was resized during the bind; the scheduler retries")
    try:
        after = statuses.bound_status(reservation, node=node, now=now, pre_allocated_pods=update.pods)
    except (MalformedAmountsError, MalformedAnnotationError) as error:
        raise WriteRefusedError(f"reservation {name}: {error}") from error
    if after is None or phases.expiration_time(reservation) <= now:
        raise WriteRefusedError(f"reservation {name}: is over")
    return after
