"""The actions of a plan for one reservation: writes and live reads of it, of its placeholders and of its owner pods."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from dra.engine.instants import WallTime
from dra.engine.plan import Plan
from dra.engine.reservations.reservation_reasons import ReservationReason
from dra.model.event_type import EventType
from dra.model.meta import Key, Struct, Uid


class ReservationEvent(Struct, frozen=True):
    """An Event on the reservation, recorded once the write that it reports has succeeded."""

    reason: ReservationReason
    message: str
    type: EventType = EventType.NORMAL


class _PodAction(Struct, frozen=True):
    key: Key
    uid: Uid


class PatchReservationStatus(Struct, frozen=True):
    """Patch the status, on condition that the resourceVersion is the one that was decided on."""

    body: Mapping[str, Any]
    events: tuple[ReservationEvent, ...] = ()


class CreatePlaceholder(Struct, frozen=True):
    """Create a placeholder of the reservation."""

    manifest: Mapping[str, Any]


class DeletePlaceholder(_PodAction, frozen=True):
    """Delete a placeholder that has done its work, or whose reservation is not to be placed any longer."""


class NominatePlaceholder(_PodAction, frozen=True):
    """Nominate a pending placeholder for the node, so that kube-scheduler counts it there."""

    node: str


class SetReservationAllocated(_PodAction, frozen=True):
    """Mark an owner pod as inside; nominate it if it is pending, label it if it is to have a standby placeholder."""

    node: str
    """The node to nominate the pod for; empty if it is not to be nominated."""
    label: bool


class ClearReservationAllocated(_PodAction, frozen=True):
    """Undo `SetReservationAllocated` for a pending pod that was to use the reservation and did not."""


class RemoveSchedulingGate(_PodAction, frozen=True):
    """Remove our scheduling gate from an owner pod."""


class GetPod(_PodAction, frozen=True):
    """Read a pod live that the status names and that the watch does not show."""


class DeleteReservation(Struct, frozen=True):
    """Delete the reservation: it ended long enough ago."""


class RecordShortage(Struct, frozen=True):
    """Remember since when placeholders have lacked part of the capacity; None: they lack nothing."""

    since: WallTime | None


PodWrite: TypeAlias = NominatePlaceholder | SetReservationAllocated | ClearReservationAllocated | RemoveSchedulingGate
"""A patch of a pod during the handover."""

ReservationAction: TypeAlias = (
    PatchReservationStatus
    | CreatePlaceholder
    | DeletePlaceholder
    | GetPod
    | DeleteReservation
    | RecordShortage
    | PodWrite
)

ReservationPlan: TypeAlias = Plan[ReservationAction, ReservationEvent]
