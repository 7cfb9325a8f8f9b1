"""Time that passes only when nobody has anything left to do, and no operating system below it.

A loop without sockets, pipes or signals: ready callbacks run in the order in which they became ready, timers in the
order of their times, so the same program does the same thing every time. Whoever waits for nothing, spins on the spot
or goes on for ever gets an error. No timer fires early, for the reason given in tests/dra/kube/virtual.py.
"""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Final

START_TIME: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
"""When every simulation begins."""

MAX_SPINS: Final = 50_000
"""Turns of the loop in one instant after which somebody evidently waits without waiting."""

_INSTANT: Final = 0.01
"""Seconds that are an instant in this: whoever waits for less does not wait."""


class DeadlockError(AssertionError):
    """Everybody waits and no timer is set."""


class LivelockError(AssertionError):
    """Somebody is always ready, and time stands still; or there are more steps than any run should need."""


class _VirtualSelector:
    """What the loop takes for a selector: nothing ever arrives, waiting moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.spins = 0
        self._since = 0.0

    def select(self, timeout: float | None) -> list[object]:
        self.spins += 1
        if self.now - self._since > _INSTANT:
            self._since, self.spins = self.now, 0
        if self.spins > MAX_SPINS:
            raise LivelockError(f"more than {MAX_SPINS} turns at {self.now:.3f} s")
        if timeout == 0:
            return []
        if timeout is None:
            raise DeadlockError("everybody waits and no timer is set")
        self.now += max(timeout, math.ulp(self.now))
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose `time` is virtual seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _VirtualSelector()

    @property
    def _clock_resolution(self) -> float:
        """Times that asyncio takes for the same: none but those that are."""
        return math.ulp(self._selector.now)

    @_clock_resolution.setter
    def _clock_resolution(self, _seconds: float) -> None:
        """What asyncio sets is that of its own clock."""

    def time(self) -> float:
        return self._selector.now

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class LoopClock:
    """A `dra.kube.clock.Clock` that shows the time of a loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return self._loop.time()

    def wall(self) -> datetime:
        return START_TIME + timedelta(seconds=self._loop.time())
