"""The phases of a reservation as a transition table: phase and trigger decide the next phase and the conditions.

Succeeded and Failed are final: no transition leads out of either, so a late event cannot revive a reservation whose
capacity other pods may have taken already. A reservation that was placed once is never reported as unschedulable again.

Reasons of conditions are Koordinator's words, so a client can wait for a reason without knowing which component set it.

Expiration: ``ttl`` counts from the creation, ``expires`` is a point in time; if both are set, the earlier wins. If
neither is set, the reservation expires after 24 hours. ``ttl: 0s`` never expires; ``expires`` still counts then. A
reservation expires whether or not it has been placed: a reservation that stays pending for longer than its lifetime is
not wanted any longer. A reservation whose node is gone has ended, too.

Garbage collection: an ended reservation is deleted a day later, or at once if its node is gone. A reservation that
failed without a reason is deleted as well. (Koordinator keeps it forever.)
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from dra.api.durations import SECOND
from dra.api.reservations.model import Reservation, ReservationCondition, ReservationPhase, ReservationStatus
from dra.engine.instants import NEVER, WallTime
from dra.engine.reservations.reservation_reasons import ReservationReason


class Trigger(StrEnum):
    """An observed event in the life of a reservation."""

    BOUND = "Bound"
    UNSCHEDULABLE = "Unschedulable"
    ALLOCATED = "Allocated"
    """An owner pod uses the reservation, which is for one pod only."""
    EXPIRED = "Expired"
    NODE_GONE = "NodeGone"
    UNREADABLE = "Unreadable"
    READABLE = "Readable"
    LOST = "Lost"
    """The placeholders that keep the capacity lack part of it."""
    KEPT = "Kept"
    NO_CLAIMS = "NoClaims"
    WHOLE_CLAIMS = "WholeClaims"
    """Claims are held that serve one owner pod at a time, though several pods may use the reservation."""
    EXTENDED_RESOURCES = "ExtendedResources"
    """The placeholder got devices for extended resources, which leave with it."""
    """The reservation holds CPUs as an amount, although its pods get a claim for CPUs."""


class ConditionUpdate(NamedTuple):
    """A condition with the status and reason that a transition sets."""

    type: str
    status: str
    reason: ReservationReason


class Transition(NamedTuple):
    """The phase and the conditions that follow a trigger."""

    phase: ReservationPhase
    conditions: tuple[ConditionUpdate, ...]


CONDITION_SCHEDULED: Final = "Scheduled"
CONDITION_READY: Final = "Ready"
CONDITION_READABLE: Final = "Readable"
"""Condition of dra-reserve: False means that fields cannot be read, and until then no pod may use the reservation."""
CONDITION_HELD: Final = "Held"
"""Condition of dra-reserve, in mode yielding: False means that other pods take reserved capacity."""
CONDITION_CLAIMS_HELD: Final = "ClaimsHeld"
"""Condition of dra-reserve: False means that CPUs are held as an amount, not as the claim that pods get for them, or
that devices are not held at all; True, that claims are held as a whole."""

_SCHEDULED: Final = ConditionUpdate(CONDITION_SCHEDULED, "True", ReservationReason.SCHEDULED)
_UNSCHEDULABLE: Final = ConditionUpdate(CONDITION_SCHEDULED, "False", ReservationReason.UNSCHEDULABLE)
_AVAILABLE: Final = ConditionUpdate(CONDITION_READY, "True", ReservationReason.AVAILABLE)
_SUCCEEDED: Final = ConditionUpdate(CONDITION_READY, "False", ReservationReason.SUCCEEDED)
_EXPIRED: Final = ConditionUpdate(CONDITION_READY, "False", ReservationReason.EXPIRED)
_UNREADABLE: Final = ConditionUpdate(CONDITION_READABLE, "False", ReservationReason.INVALID)
_LOST: Final = ConditionUpdate(CONDITION_HELD, "False", ReservationReason.RESERVED_CAPACITY_TAKEN)
_KEPT: Final = ConditionUpdate(CONDITION_HELD, "True", ReservationReason.AVAILABLE)
_NO_CLAIMS: Final = ConditionUpdate(CONDITION_CLAIMS_HELD, "False", ReservationReason.AMOUNTS_ONLY)
_WHOLE_CLAIMS: Final = ConditionUpdate(CONDITION_CLAIMS_HELD, "True", ReservationReason.CLAIMS_HELD_AS_WHOLE)
_EXTENDED: Final = ConditionUpdate(CONDITION_CLAIMS_HELD, "False", ReservationReason.EXTENDED_RESOURCES_NOT_HELD)
_READABLE: Final = ConditionUpdate(CONDITION_READABLE, "True", ReservationReason.VALID)

TRANSITIONS: Final[dict[tuple[ReservationPhase, Trigger], Transition]] = {
    (ReservationPhase.PENDING, Trigger.BOUND): Transition(ReservationPhase.AVAILABLE, (_SCHEDULED, _AVAILABLE)),
    (ReservationPhase.PENDING, Trigger.UNSCHEDULABLE): Transition(ReservationPhase.PENDING, (_UNSCHEDULABLE,)),
    (ReservationPhase.PENDING, Trigger.EXPIRED): Transition(ReservationPhase.FAILED, (_EXPIRED,)),
    (ReservationPhase.PENDING, Trigger.NODE_GONE): Transition(ReservationPhase.FAILED, (_EXPIRED,)),
    (ReservationPhase.PENDING, Trigger.UNREADABLE): Transition(ReservationPhase.PENDING, (_UNREADABLE,)),
    (ReservationPhase.PENDING, Trigger.READABLE): Transition(ReservationPhase.PENDING, (_READABLE,)),
    (ReservationPhase.PENDING, Trigger.NO_CLAIMS): Transition(ReservationPhase.PENDING, (_NO_CLAIMS,)),
    (ReservationPhase.PENDING, Trigger.WHOLE_CLAIMS): Transition(ReservationPhase.PENDING, (_WHOLE_CLAIMS,)),
    (ReservationPhase.PENDING, Trigger.EXTENDED_RESOURCES): Transition(ReservationPhase.PENDING, (_EXTENDED,)),
    (ReservationPhase.AVAILABLE, Trigger.ALLOCATED): Transition(ReservationPhase.SUCCEEDED, (_SUCCEEDED,)),
    (ReservationPhase.AVAILABLE, Trigger.EXPIRED): Transition(ReservationPhase.FAILED, (_EXPIRED,)),
    (ReservationPhase.AVAILABLE, Trigger.NODE_GONE): Transition(ReservationPhase.FAILED, (_EXPIRED,)),
    (ReservationPhase.AVAILABLE, Trigger.UNREADABLE): Transition(ReservationPhase.AVAILABLE, (_UNREADABLE,)),
    (ReservationPhase.AVAILABLE, Trigger.READABLE): Transition(ReservationPhase.AVAILABLE, (_READABLE,)),
    (ReservationPhase.AVAILABLE, Trigger.LOST): Transition(ReservationPhase.AVAILABLE, (_LOST,)),
    (ReservationPhase.AVAILABLE, Trigger.NO_CLAIMS): Transition(ReservationPhase.AVAILABLE, (_NO_CLAIMS,)),
    (ReservationPhase.AVAILABLE, Trigger.WHOLE_CLAIMS): Transition(ReservationPhase.AVAILABLE, (_WHOLE_CLAIMS,)),
    (ReservationPhase.AVAILABLE, Trigger.EXTENDED_RESOURCES): Transition(ReservationPhase.AVAILABLE, (_EXTENDED,)),
    (ReservationPhase.AVAILABLE, Trigger.KEPT): Transition(ReservationPhase.AVAILABLE, (_KEPT,)),
}
"""Pairs without an entry change nothing. Phase Waiting is read as Pending: no component ever sets Waiting."""

_RECOVERY_CONDITIONS: Final = {Trigger.READABLE: CONDITION_READABLE, Trigger.KEPT: CONDITION_HELD}
"""Triggers that set a condition only if the condition exists, that is, after the opposite was reported."""

TERMINAL_PHASES: Final = frozenset({ReservationPhase.SUCCEEDED, ReservationPhase.FAILED})


def next_status(
    status: ReservationStatus, trigger: Trigger, *, now: WallTime, message: str = ""
) -> ReservationStatus | None:
    """Return the status after a trigger; None if nothing changes."""
    phase = ReservationPhase.PENDING if status.phase is ReservationPhase.WAITING else status.phase
    outcome = TRANSITIONS.get((phase, trigger))
    if outcome is None:
        return None
    if trigger is Trigger.UNSCHEDULABLE and is_condition_true(status, CONDITION_SCHEDULED):
        return None
    if trigger in _RECOVERY_CONDITIONS and status.condition(_RECOVERY_CONDITIONS[trigger]) is None:
        return None
    conditions = status.conditions
    for update in outcome.conditions:
        conditions = _set_condition(conditions, update, message=message, now=now)
    if (outcome.phase, conditions) == (status.phase, status.conditions):
        return None
    return status.model_copy(update={"phase": outcome.phase, "conditions": conditions})


def is_condition_true(status: ReservationStatus, kind: str) -> bool:
    """Return whether a condition is True."""
    condition = status.condition(kind)
    return condition is not None and condition.status == "True"


def _set_condition(
    conditions: tuple[ReservationCondition, ...], update: ConditionUpdate, *, message: str, now: WallTime
) -> tuple[ReservationCondition, ...]:
    """Return the conditions with one added or replaced.

    An unchanged condition is not written again; only a change of its status is a transition.
    """
    moment = datetime.fromtimestamp(int(now), UTC)
    before = next((condition for condition in conditions if condition.type == update.type), None)
    if before is not None and (before.status, before.reason, before.message) == (update.status, update.reason, message):
        return conditions
    moved = before is None or before.status != update.status
    new = ReservationCondition(
        type=update.type,
        status=update.status,
        reason=update.reason.value,
        message=message,
        last_probe_time=moment,
        last_transition_time=moment if before is None or moved else before.last_transition_time,
    )
    if before is None:
        return (*conditions, new)
    return tuple(new if condition is before else condition for condition in conditions)


DEFAULT_TTL: Final = 24 * 3600.0
"""Seconds until a reservation with neither ``ttl`` nor ``expires`` expires."""


def expiration_time(reservation: Reservation) -> WallTime:
    """Return when a reservation expires by its spec; `NEVER` if it does not, or has ended already."""
    if reservation.status.phase in TERMINAL_PHASES:
        return NEVER
    spec = reservation.spec
    moments = [] if spec.expires is None else [spec.expires.timestamp()]
    created = reservation.metadata.creation_timestamp
    lifetime = None if spec.ttl is None else spec.ttl / SECOND
    if lifetime is None and spec.expires is None:
        lifetime = DEFAULT_TTL
    if lifetime and created is not None:
        moments.append(created.timestamp() + lifetime)
    return min(moments, default=NEVER)


def expired_status(reservation: Reservation, *, now: WallTime, node_gone: bool = False) -> ReservationStatus | None:
    """Return the status of a reservation that has just ended; None if it has not, or had ended before.

    The status keeps what the reservation held, for users who look up what was there.
    """
    if expiration_time(reservation) <= now:
        return next_status(reservation.status, Trigger.EXPIRED, now=now, message="spec.ttl or spec.expires has passed")
    if node_gone and reservation.status.node_name:
        text = f"node {reservation.status.node_name} was deleted"
        return next_status(reservation.status, Trigger.NODE_GONE, now=now, message=text)
    return None


GC_DURATION: Final = 24 * 3600.0
"""Seconds for which an ended reservation stays, so that users can read its status."""


def deletion_time(reservation: Reservation, *, node_gone: bool = False, retention: float = GC_DURATION) -> WallTime:
    """Return when a reservation is to be deleted; `NEVER` if it has not ended, 0 if its node is gone."""
    status = reservation.status
    if status.phase not in TERMINAL_PHASES or reservation.metadata.deletion_timestamp is not None:
        return NEVER
    if node_gone and status.node_name:
        return 0.0
    ready = status.condition(CONDITION_READY)
    ended = None
    if ready is not None:
        ended = ready.last_probe_time if status.phase is ReservationPhase.SUCCEEDED else ready.last_transition_time
        ended = ended or ready.last_transition_time or ready.last_probe_time
    ended = ended or reservation.metadata.creation_timestamp
    return NEVER if ended is None else ended.timestamp() + retention
