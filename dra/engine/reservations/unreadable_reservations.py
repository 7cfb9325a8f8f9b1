"""The decision on an object that cannot be read as a reservation: a condition says why, and nothing else happens."""

from datetime import UTC, datetime
from typing import Any

from dra.engine.instants import WallTime
from dra.engine.reservations.actions import PatchReservationStatus, ReservationEvent, ReservationPlan
from dra.engine.reservations.phases import CONDITION_READABLE
from dra.engine.reservations.reservation_reasons import ReservationReason
from dra.engine.reservations.view import UnreadableReservation
from dra.model.event_type import EventType
from dra.model.meta import content_fault


def decide(view: UnreadableReservation, *, now: WallTime) -> ReservationPlan:
    """Return the plan: the condition and an Event, unless the condition says the same already.

    An object that is too large gets only an Event, from its informer: a write of it costs the API server seconds.
    """
    conditions = _conditions(view.obj.content)
    before = next((condition for condition in conditions if condition.get("type") == CONDITION_READABLE), {})
    if content_fault(view.obj.content) or before.get("message") == view.error:
        return ReservationPlan()
    moment = datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": CONDITION_READABLE,
        "status": "False",
        "reason": ReservationReason.INVALID.value,
        "message": view.error,
        "lastProbeTime": moment,
        "lastTransitionTime": before.get("lastTransitionTime", moment),
    }
    rest = [condition for condition in conditions if condition.get("type") != CONDITION_READABLE]
    event = ReservationEvent(reason=ReservationReason.INVALID, message=view.error, type=EventType.WARNING)
    patch = PatchReservationStatus(body={"status": {"conditions": [*rest, condition]}}, events=(event,))
    return ReservationPlan(actions=(patch,))


def _conditions(content: dict[str, Any]) -> list[dict[str, Any]]:
    status = content.get("status")
    given = status.get("conditions") if isinstance(status, dict) else None
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
