"""The limit on evictions per second."""

from dra.engine.instants import Instant


class EvictionPace:
    """The times at which evictions may happen, in a row: nothing waits in a worker for its turn."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._tolerance = (burst - 1) * self._interval
        self._free_at: Instant = 0.0
        """When an eviction may happen if none before it is in a burst."""

    def next_turn(self, now: Instant) -> Instant:
        """Take the next turn, and return its time: now, or later."""
        free_at = max(self._free_at, now)
        self._free_at = free_at + self._interval
        return max(now, free_at - self._tolerance)
