"""The choice of the connection that a full server drops: the oldest idle one of the address with most connections.

A client that connects and sends nothing costs a TLS server 300 KiB, so the number of connections needs a limit; and
under a limit without a choice, one such client would keep all others out. An honest client opens its connection in
milliseconds and holds few, so during an attack it is neither the oldest nor the one with most connections.

This module does not use sockets.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

ADDRESSES_MAX: Final = 1024
"""Maximum number of addresses whose rate is remembered; beyond it the address unseen for longest is forgotten."""


class ConnectionState(StrEnum):
    """The state of a connection."""

    OPENING = "opening"  # TLS handshake, and the first request until its last byte
    IDLE = "idle"  # between requests
    ANSWERING = "answering"  # a request is being answered; a full listener may drop it, see `drops_by_age`
    BUSY = "busy"  # a request is being answered


class DropReason(StrEnum):
    """The reason for which the server closed a connection."""

    CROWDED = "Crowded"
    """The connection was the oldest idle one of the address with most connections, and the listener was full."""

    FULL = "Full"
    """The listener was full, and all of its connections were busy."""

    PACE = "Pace"
    """The address opens connections faster than allowed."""

    SLOW = "Slow"
    """The TLS handshake, the request, or reading the response took too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits for the clients of one listener; times in seconds."""

    max_connections: int
    """Maximum number of connections."""

    max_opening: int
    """Maximum number of connections before their first request."""

    handshake_timeout: float = 5.0
    """Seconds from the connection to the end of the TLS handshake."""

    request_timeout: float = 10.0
    """Seconds from the connection to the last byte of the first request."""

    idle_timeout: float = 300.0
    """Seconds between two requests, or until a response has been read."""

    new_connections_per_second: float | None = None
    """New connections a second from one address, with a burst of twice as many; None: no limit."""

    close_after_response: bool = False
    """Whether a connection is closed after one response."""

    drops_by_age: bool = False
    """Whether a full listener drops connections of all phases, even those whose request is being answered, unless the
    application has kept them: the oldest idle one first, or else the oldest. Otherwise those without a first request
    are dropped first, then idle ones."""


@dataclass(eq=False, slots=True, kw_only=True)
class ClientConnection:
    """One connection of a client."""

    address: str
    since: float
    """Start of the current phase, in seconds of a clock that never jumps."""

    drop: Callable[[], None]
    """Closes the connection at once."""

    state: ConnectionState = ConnectionState.OPENING


@dataclass(slots=True)
class _AddressRate:
    """The number of connections that an address may open (`left`), as of `at`."""

    left: float
    at: float


@dataclass(slots=True)
class ConnectionTable:
    """The connections of one listener."""

    limits: ConnectionLimits
    _by_state: dict[ConnectionState, OrderedDict[ClientConnection, None]] = field(
        default_factory=lambda: {state: OrderedDict() for state in ConnectionState}, init=False
    )
    """Connections by phase, and by age within each phase, the oldest first."""

    _rates: OrderedDict[str, _AddressRate] = field(default_factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return sum(map(len, self._by_state.values()))

    def count(self, state: ConnectionState) -> int:
        """Return the number of connections in a phase."""
        return len(self._by_state[state])

    def admission_failure(self, address: str, *, now: float) -> DropReason | None:
        """Return why an address gets no new connection now; None if it gets one. Counts as an attempt."""
        if not self._within_rate(address, now=now):
            return DropReason.PACE
        if len(self) >= self.limits.max_connections and len(self) == self.count(ConnectionState.BUSY):
            return DropReason.FULL
        return None

    def add(self, connection: ClientConnection) -> ClientConnection | None:
        """Add a connection; return the connection to drop in exchange, already removed from the table, or None."""
        victim = None
        if self.count(ConnectionState.OPENING) >= self.limits.max_opening:
            victim = self._victim(ConnectionState.OPENING)
        elif len(self) >= self.limits.max_connections:
            victim = self._victim_of_full_table()
        if victim is not None:
            self.discard(victim)
        self._by_state[connection.state][connection] = None
        return victim

    def set_state(self, connection: ClientConnection, state: ConnectionState, *, now: float) -> None:
        """Move a connection to its next phase; a connection that was removed is ignored."""
        if self.discard(connection):
            connection.state, connection.since = state, now
            self._by_state[state][connection] = None

    def discard(self, connection: ClientConnection) -> bool:
        """Remove a connection; return whether it was in the table."""
        known = self._by_state[connection.state]
        if connection not in known:
            return False
        del known[connection]
        return True

    def overdue(self, *, now: float) -> list[ClientConnection]:
        """Remove and return the connections whose time limit has passed."""
        timeouts = (
            (ConnectionState.OPENING, self.limits.request_timeout),
            (ConnectionState.IDLE, self.limits.idle_timeout),
        )
        late = []
        for state, limit in timeouts:
            for connection in self._by_state[state]:
                if connection.since + limit > now:
                    break
                late.append(connection)
        for connection in late:
            self.discard(connection)
        return late

    def _victim_of_full_table(self) -> ClientConnection | None:
        if self.limits.drops_by_age:
            return self._victim(ConnectionState.IDLE, ConnectionState.OPENING, ConnectionState.ANSWERING)
        return self._victim(ConnectionState.OPENING) or self._victim(ConnectionState.IDLE)

    def _victim(self, *states: ConnectionState) -> ClientConnection | None:
        """Return a connection of the address that has the most in these phases: an idle one, or else the oldest."""
        candidates = [connection for state in states for connection in self._by_state[state]]
        by_address = Counter(connection.address for connection in candidates)
        most = max(by_address.values(), default=0)
        crowd = (connection for connection in candidates if by_address[connection.address] == most)
        return min(crowd, key=_precedence, default=None)

    def _within_rate(self, address: str, *, now: float) -> bool:
        rate = self.limits.new_connections_per_second
        if rate is None:
            return True
        address_rate = self._rates.pop(address, None) or _AddressRate(left=2 * rate, at=now)
        address_rate.left, address_rate.at = min(2 * rate, address_rate.left + (now - address_rate.at) * rate), now
        self._rates[address] = address_rate
        if len(self._rates) > ADDRESSES_MAX:
            self._rates.popitem(last=False)
        if address_rate.left < 1:
            return False
        address_rate.left -= 1
        return True


def _precedence(connection: ClientConnection) -> tuple[bool, float]:
    """Return the sort key by which connections are dropped: idle ones first, in the order of their age."""
    return (connection.state is not ConnectionState.IDLE, connection.since)
