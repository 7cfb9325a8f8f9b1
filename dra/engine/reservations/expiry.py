"""The time at which a reservation expires.

``ttl`` counts from the creation, ``expires`` is a point in time; if both are set, the earlier wins. If neither is set,
the reservation expires after 24 hours. ``ttl: 0s`` never expires; ``expires`` still counts then. A reservation expires
whether or not it has been placed: a reservation that stays pending for longer than its lifetime is not wanted any
longer. A reservation whose node is gone has ended, too.
"""

from typing import Final

from dra.api.reservations.durations import SECOND
from dra.api.reservations.model import Reservation, ReservationStatus
from dra.engine.instants import NEVER, WallTime
from dra.engine.reservations.phases import TERMINAL_PHASES, Trigger, next_status

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
        return next_status(reservation.status, Trigger.EXPIRED, now=now, message="the time it was made for is over")
    if node_gone and reservation.status.node_name:
        text = f"node {reservation.status.node_name} is gone"
        return next_status(reservation.status, Trigger.NODE_GONE, now=now, message=text)
    return None
