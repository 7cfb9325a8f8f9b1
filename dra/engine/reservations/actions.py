"""The actions of a plan for one reservation: writes and live reads of it, of its placeholders and of its owner pods."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from dra.engine.instants import WallTime
from dra.engine.plan import Plan
from dra.engine.reservations.phases import ReservationReason
from dra.engine.reservations.placeholder_handover import (
    DeletePlaceholder,
    NominatePlaceholder,
    RemoveSchedulingGate,
    SetReservationAllocated,
)
from dra.model.event_type import EventType
from dra.model.meta import Key, Struct, Uid


class ReservationEvent(Struct, frozen=True):
    """An Event on the reservation, recorded once the write that it reports has succeeded."""

    reason: ReservationReason
    message: str
    type: EventType = EventType.NORMAL


class PatchReservationStatus(Struct, frozen=True):
    """Patch the status, on condition that the resourceVersion is the one that was decided on."""

    body: Mapping[str, Any]
    events: tuple[ReservationEvent, ...] = ()


class CreatePlaceholder(Struct, frozen=True):
    """Create a placeholder of the reservation."""

    manifest: Mapping[str, Any]


class GetPod(Struct, frozen=True):
    """Read a pod live that the status names and that the watch does not show."""

    key: Key
    uid: Uid


class DeleteReservation(Struct, frozen=True):
    """Delete the reservation: it ended long enough ago."""


class RecordShortage(Struct, frozen=True):
    """Remember since when placeholders have lacked part of the capacity; None: they lack nothing."""

    since: WallTime | None


class ClearReservationAllocated(Struct, frozen=True):
    """Undo `SetReservationAllocated` for a pending pod that was to use the reservation and did not."""

    key: Key
    uid: Uid


ReservationAction: TypeAlias = (
    PatchReservationStatus
    | CreatePlaceholder
    | DeletePlaceholder
    | GetPod
    | DeleteReservation
    | RecordShortage
    | ClearReservationAllocated
    | NominatePlaceholder
    | SetReservationAllocated
    | RemoveSchedulingGate
)

ReservationPlan: TypeAlias = Plan[ReservationAction, ReservationEvent]
