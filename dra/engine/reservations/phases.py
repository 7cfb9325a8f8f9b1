"""The life of a reservation, as a table: in which phase what makes of it, and which conditions tell of it.

Succeeded and Failed are final: nothing in the table leads out of them, so that no late news revives what others may
have taken already. A reservation that was placed once is never said to be unschedulable again.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from dra.api.reservations.model import Condition, Phase, ReservationStatus
from dra.engine.instants import WallTime
from dra.engine.reservations.reasons import ReservationReason


class Happening(StrEnum):
    """What happens to a reservation."""

    BOUND = "Bound"
    UNSCHEDULABLE = "Unschedulable"
    ALLOCATED = "Allocated"
    """An owner has it, and one is all it is for."""
    EXPIRED = "Expired"
    NODE_GONE = "NodeGone"
    UNREADABLE = "Unreadable"
    READABLE = "Readable"
    LOST = "Lost"
    """Its placeholders, which keep the room, have not got all of it."""
    KEPT = "Kept"


class Told(NamedTuple):
    """A condition as it becomes."""

    type: str
    status: str
    reason: ReservationReason


class Outcome(NamedTuple):
    """What comes of it."""

    phase: Phase
    told: tuple[Told, ...]


SCHEDULED: Final = "Scheduled"
READY: Final = "Ready"
READABLE: Final = "Readable"
"""Ours: False tells what of the object cannot be read, and that nobody may use it until then."""
HELD: Final = "Held"
"""Ours, where placeholders keep the room: False tells that others are in it."""

_SCHEDULED: Final = Told(SCHEDULED, "True", ReservationReason.SCHEDULED)
_UNSCHEDULABLE: Final = Told(SCHEDULED, "False", ReservationReason.UNSCHEDULABLE)
_AVAILABLE: Final = Told(READY, "True", ReservationReason.AVAILABLE)
_SUCCEEDED: Final = Told(READY, "False", ReservationReason.SUCCEEDED)
_EXPIRED: Final = Told(READY, "False", ReservationReason.EXPIRED)
_UNREADABLE: Final = Told(READABLE, "False", ReservationReason.INVALID)
_LOST: Final = Told(HELD, "False", ReservationReason.TAKEN)
_KEPT: Final = Told(HELD, "True", ReservationReason.AVAILABLE)
_READABLE: Final = Told(READABLE, "True", ReservationReason.VALID)

TABLE: Final[dict[tuple[Phase, Happening], Outcome]] = {
    (Phase.PENDING, Happening.BOUND): Outcome(Phase.AVAILABLE, (_SCHEDULED, _AVAILABLE)),
    (Phase.PENDING, Happening.UNSCHEDULABLE): Outcome(Phase.PENDING, (_UNSCHEDULABLE,)),
    (Phase.PENDING, Happening.EXPIRED): Outcome(Phase.FAILED, (_EXPIRED,)),
    (Phase.PENDING, Happening.NODE_GONE): Outcome(Phase.FAILED, (_EXPIRED,)),
    (Phase.PENDING, Happening.UNREADABLE): Outcome(Phase.PENDING, (_UNREADABLE,)),
    (Phase.PENDING, Happening.READABLE): Outcome(Phase.PENDING, (_READABLE,)),
    (Phase.AVAILABLE, Happening.ALLOCATED): Outcome(Phase.SUCCEEDED, (_SUCCEEDED,)),
    (Phase.AVAILABLE, Happening.EXPIRED): Outcome(Phase.FAILED, (_EXPIRED,)),
    (Phase.AVAILABLE, Happening.NODE_GONE): Outcome(Phase.FAILED, (_EXPIRED,)),
    (Phase.AVAILABLE, Happening.UNREADABLE): Outcome(Phase.AVAILABLE, (_UNREADABLE,)),
    (Phase.AVAILABLE, Happening.READABLE): Outcome(Phase.AVAILABLE, (_READABLE,)),
    (Phase.AVAILABLE, Happening.LOST): Outcome(Phase.AVAILABLE, (_LOST,)),
    (Phase.AVAILABLE, Happening.KEPT): Outcome(Phase.AVAILABLE, (_KEPT,)),
}
"""What is not in it changes nothing. Waiting is read as Pending: nobody ever sets it."""

_CORRECTS: Final = {Happening.READABLE: READABLE, Happening.KEPT: HELD}
"""What is told only after the contrary has been."""

TERMINAL: Final = frozenset({Phase.SUCCEEDED, Phase.FAILED})


def after(
    status: ReservationStatus, happening: Happening, *, now: WallTime, message: str = ""
) -> ReservationStatus | None:
    """Return the status that comes of a happening; None if nothing does."""
    phase = Phase.PENDING if status.phase is Phase.WAITING else status.phase
    outcome = TABLE.get((phase, happening))
    if outcome is None:
        return None
    if happening is Happening.UNSCHEDULABLE and holds(status, SCHEDULED):
        return None
    if happening in _CORRECTS and status.condition(_CORRECTS[happening]) is None:
        return None
    conditions = status.conditions
    for told in outcome.told:
        conditions = _with(conditions, told, message=message, now=now)
    if (outcome.phase, conditions) == (status.phase, status.conditions):
        return None
    return status.model_copy(update={"phase": outcome.phase, "conditions": conditions})


def holds(status: ReservationStatus, kind: str) -> bool:
    """Whether a condition is True."""
    found = status.condition(kind)
    return found is not None and found.status == "True"


def _with(conditions: tuple[Condition, ...], told: Told, *, message: str, now: WallTime) -> tuple[Condition, ...]:
    """Put a condition in; what it says already is not written again, and only another status is a transition."""
    moment = datetime.fromtimestamp(int(now), UTC)
    before = next((each for each in conditions if each.type == told.type), None)
    if before is not None and (before.status, before.reason, before.message) == (told.status, told.reason, message):
        return conditions
    moved = before is None or before.status != told.status
    new = Condition(
        type=told.type,
        status=told.status,
        reason=told.reason.value,
        message=message,
        last_probe_time=moment,
        last_transition_time=moment if before is None or moved else before.last_transition_time,
    )
    if before is None:
        return (*conditions, new)
    return tuple(new if each is before else each for each in conditions)
