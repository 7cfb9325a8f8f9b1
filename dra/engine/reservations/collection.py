"""The time at which an ended reservation is deleted: a day later, or at once if its node is gone.

A reservation that failed without a reason is deleted as well. (Koordinator keeps it forever.)
"""

from typing import Final

from dra.api.reservations.model import Reservation, ReservationPhase
from dra.engine.instants import NEVER, WallTime
from dra.engine.reservations.phases import CONDITION_READY, TERMINAL_PHASES

GC_DURATION: Final = 24 * 3600.0
"""Seconds for which an ended reservation stays, so that users can read its status."""


def deletion_time(reservation: Reservation, *, node_gone: bool = False, kept: float = GC_DURATION) -> WallTime:
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
    return NEVER if ended is None else ended.timestamp() + kept
