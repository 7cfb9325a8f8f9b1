"""The limit on the rate of evictions: how many within a window of time, and how many of these at once."""

from collections.abc import Sequence

from dra.engine.instants import NEVER, WallTime
from dra.model.meta import Struct


class EvictionRate(Struct, frozen=True):
    """A limit on the rate of evictions."""

    limit: int
    """Maximum evictions within the window."""
    window: float
    """Seconds."""
    burst: int = 0
    """Maximum evictions at once, the others evenly spread over the window; 0: no spread."""

    def next_eviction_at(self, evictions: Sequence[WallTime], *, pending: int, now: WallTime) -> WallTime:
        """Return when one more eviction is within the limit: ``now`` or later.

        ``evictions``: times of earlier ones, in ascending order; ``pending``: evictions that have been granted and are
        still to come. NEVER: only once one of these has happened, the time is known.
        """
        recent = [at for at in evictions if at > now - self.window]
        return max(self._free_at(recent, pending, now), self._spread_at(recent, pending, now))

    def _free_at(self, recent: Sequence[WallTime], pending: int, now: WallTime) -> WallTime:
        """Return when the window has room: when this many evictions, from the oldest on, have left it."""
        last = len(recent) + pending - self.limit
        if last < 0:
            return now
        return recent[last] + self.window if last < len(recent) else NEVER

    def _spread_at(self, recent: Sequence[WallTime], pending: int, now: WallTime) -> WallTime:
        """Return when a bucket of ``burst`` tokens, refilled evenly, has a token again."""
        if not self.burst:
            return now
        interval = self.window / self.limit
        tokens, before = float(self.burst), now - self.window
        for at in recent:
            tokens = min(self.burst, tokens + (at - before) / interval) - 1
            before = at
        missing = 1 + pending - min(self.burst, tokens + (now - before) / interval)
        return now + max(0.0, missing) * interval
