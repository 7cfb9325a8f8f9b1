"""When a reservation ends by itself.

``ttl`` counts from the creation, ``expires`` is a moment; each counts where it is given, the earlier one wins. Where
neither is given, it is 24 hours. ``ttl: 0s`` never ends it; ``expires`` still does. It does not matter whether the
reservation has been placed: what waits for room for longer than it was meant to live is not wanted any more.
A reservation whose node is gone has ended, too.
"""

from typing import Final

from dra.api.reservations.durations import SECOND
from dra.api.reservations.model import Reservation, ReservationStatus
from dra.engine.instants import NEVER, WallTime
from dra.engine.reservations.phases import TERMINAL_PHASES, Trigger, next_status

DEFAULT_TTL: Final = 24 * 3600.0
"""Seconds."""


def expiration_time(reservation: Reservation) -> WallTime:
    """Return when it ends by its own words; `NEVER` if it does not, or has ended."""
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
    """Return the status of a reservation that has ended; None if it has not, or had already.

    What it held stays in the status: people look there for what was.
    """
    if expiration_time(reservation) <= now:
        return next_status(reservation.status, Trigger.EXPIRED, now=now, message="the time it was made for is over")
    if node_gone and reservation.status.node_name:
        text = f"node {reservation.status.node_name} is gone"
        return next_status(reservation.status, Trigger.NODE_GONE, now=now, message=text)
    return None
