"""Decides which connection of a full server is dropped: the oldest idle one of the address that has the most.

A client that connects and says nothing costs a TLS server 300 KiB, so the number of connections needs a limit; and a
limit without a choice would let one such client keep all others out. An honest client opens its connection in
milliseconds and holds few, so neither being the oldest nor having the most happens to it while an attack lasts.

Knows nothing of sockets.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

ADDRESSES_MAX: Final = 1024
"""Addresses whose pace is remembered; beyond that the one that has been away for longest is forgotten."""


class ConnectionState(StrEnum):
    """What a connection is doing."""

    OPENING = "opening"  # TLS handshake, and the first request until its last byte has come
    IDLE = "idle"  # between two requests
    BUSY = "busy"  # a request is being answered


class DropReason(StrEnum):
    """Why a connection was closed by the server."""

    CROWDED = "Crowded"
    """It was the oldest idle one of the address that has the most, and there was no place for another."""

    FULL = "Full"
    """There was no place, and every connection was being answered."""

    PACE = "Pace"
    """Its address opens connections faster than one address may."""

    SLOW = "Slow"
    """No TLS handshake, no request, or no reading of the answer within its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What the clients of one listener may cost; times in seconds."""

    connections: int
    """All of them."""

    opening: int
    """Those that have not asked anything yet."""

    handshake: float = 5.0
    """From the connection to the end of the TLS handshake."""

    request: float = 10.0
    """From the connection to the last byte of the first request."""

    idle: float = 300.0
    """Between two requests, or until an answer has been read."""

    pace: float | None = None
    """New connections a second from one address, twice as many at once; None: as many as come."""

    once: bool = False
    """Whether a connection is closed after one answer."""


@dataclass(eq=False, slots=True, kw_only=True)
class ClientConnection:
    """One connection."""

    address: str
    since: float
    """When its phase began, in seconds of a clock that never jumps."""

    drop: Callable[[], None]
    """Closes it at once."""

    phase: ConnectionState = ConnectionState.OPENING


@dataclass(slots=True)
class _AddressRate:
    """How many connections an address may open now (`left`), as of `at`."""

    left: float
    at: float


@dataclass(slots=True)
class ConnectionTable:
    """The connections of one listener."""

    bounds: ConnectionLimits
    _by_phase: dict[ConnectionState, OrderedDict[ClientConnection, None]] = field(
        default_factory=lambda: {phase: OrderedDict() for phase in ConnectionState}, init=False
    )
    """By age within each phase, the oldest first."""

    _rates: OrderedDict[str, _AddressRate] = field(default_factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return sum(map(len, self._by_phase.values()))

    def count(self, phase: ConnectionState) -> int:
        """Return how many are in a phase."""
        return len(self._by_phase[phase])

    def refusal(self, address: str, *, now: float) -> DropReason | None:
        """Return why an address gets no new connection now; None if it gets one. Counts as an attempt."""
        if not self._within_rate(address, now=now):
            return DropReason.PACE
        if len(self) >= self.bounds.connections and len(self) == self.count(ConnectionState.BUSY):
            return DropReason.FULL
        return None

    def add(self, connection: ClientConnection) -> ClientConnection | None:
        """Take a connection in; return the one that has to make room for it, which is forgotten by then."""
        victim = None
        if self.count(ConnectionState.OPENING) >= self.bounds.opening:
            victim = self._victim(ConnectionState.OPENING)
        elif len(self) >= self.bounds.connections:
            victim = self._victim(ConnectionState.OPENING) or self._victim(ConnectionState.IDLE)
        if victim is not None:
            self.discard(victim)
        self._by_phase[connection.phase][connection] = None
        return victim

    def enter(self, connection: ClientConnection, phase: ConnectionState, *, now: float) -> None:
        """Note a connection's next phase; nothing happens to one that has been forgotten."""
        if self.discard(connection):
            connection.phase, connection.since = phase, now
            self._by_phase[phase][connection] = None

    def discard(self, connection: ClientConnection) -> bool:
        """Forget a connection; return whether it was known."""
        known = self._by_phase[connection.phase]
        if connection not in known:
            return False
        del known[connection]
        return True

    def overdue(self, *, now: float) -> list[ClientConnection]:
        """Return the connections whose time is over; they are forgotten."""
        limits = ((ConnectionState.OPENING, self.bounds.request), (ConnectionState.IDLE, self.bounds.idle))
        found = []
        for phase, limit in limits:
            for connection in self._by_phase[phase]:
                if connection.since + limit > now:
                    break
                found.append(connection)
        for connection in found:
            self.discard(connection)
        return found

    def _victim(self, phase: ConnectionState) -> ClientConnection | None:
        there = self._by_phase[phase]
        by_address = Counter(each.address for each in there)
        most = max(by_address.values(), default=0)
        return next((each for each in there if by_address[each.address] == most), None)

    def _within_rate(self, address: str, *, now: float) -> bool:
        pace = self.bounds.pace
        if pace is None:
            return True
        found = self._rates.pop(address, None) or _AddressRate(left=2 * pace, at=now)
        found.left, found.at = min(2 * pace, found.left + (now - found.at) * pace), now
        self._rates[address] = found
        if len(self._rates) > ADDRESSES_MAX:
            self._rates.popitem(last=False)
        if found.left < 1:
            return False
        found.left -= 1
        return True
