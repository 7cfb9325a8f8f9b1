"""Time that passes only when nobody has anything left to do."""

import asyncio
import selectors
from datetime import UTC, datetime, timedelta
from random import Random

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting moves the clock; waiting for nothing at all is a bug of the test, so it fails."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise AssertionError("deadlock: everybody waits and no timer is set")
        self.now += max(timeout, 1e-9)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self):
        return self._jumping.now


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
