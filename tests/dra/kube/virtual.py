"""Time that passes only when nobody has anything left to do.

No timer fires early. asyncio takes two times for the same that its clock cannot tell apart, by default 1e-9 s; but the
clock of this loop stands still while anybody is ready. So two waiters that were each woken a hair too early, looked at
the clock and set a timer for the rest kept each other awake for ever, in alternate turns.
"""

import asyncio
import math
import selectors
from datetime import UTC, datetime, timedelta
from random import Random

from dra.kube.backoff import JITTER

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


SPINS = 50_000
"""Turns of the loop in one instant after which somebody evidently waits without waiting."""

INSTANT = 0.01
"""Seconds that are an instant in this: whoever waits for less does not wait."""


class LivelockError(AssertionError):
    """Somebody is always ready, and time stands still."""


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting moves the clock; waiting for nothing at all is a bug of the test, so it fails."""

    def __init__(self, loop):
        super().__init__()
        self.now = 0.0
        self._loop = loop
        self._spins = 0
        self._since = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        self._count()
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise AssertionError("deadlock: everybody waits and no timer is set")
        self.now += max(timeout, math.ulp(self.now))
        self._loop._clock_resolution = math.ulp(self.now)
        return ready

    def _count(self):
        self._spins += 1
        if self.now - self._since > INSTANT:
            self._since, self._spins = self.now, 0
        if self._spins > SPINS:
            self._spins = 0  # what is torn down now needs turns, too
            raise LivelockError(f"{SPINS} turns at {self.now!r} s; ready: {self._loop.busy()}")


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._jumping = _JumpingSelector(self)
        super().__init__(self._jumping)
        self._clock_resolution = math.ulp(0.0)
        JITTER.seed(1)  # who was given no chance of its own repeats itself, too

    def time(self):
        return self._jumping.now

    def pass_without_rest(self, seconds):
        """Have time pass in which nobody else has a turn: whoever is running works as long."""
        self._jumping.now += seconds
        self._clock_resolution = math.ulp(self._jumping.now)

    def busy(self):
        """Tell who is ready to run, for messages."""
        return [repr(task) for task in asyncio.all_tasks(self) if task._fut_waiter is None or task._fut_waiter.done()]


class LoopClock:
    """A `dra.kube.clock.Clock` that shows the time of the running loop."""

    def now(self):
        return asyncio.get_running_loop().time()

    def wall(self):
        return NOON + timedelta(seconds=self.now())


class JumpingClock(LoopClock):
    """One whose time of day jumps by up to a day, forth and back, at each look; or stands still."""

    def __init__(self, seed=None):
        self._chance = None if seed is None else seeded(seed)

    def wall(self):
        return NOON if self._chance is None else NOON + timedelta(seconds=self._chance.uniform(-86_400, 86_400))


def seeded(seed):
    """Return chance that repeats itself."""
    return Random(seed)  # noqa: S311 - guards nothing
