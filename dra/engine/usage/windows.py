"""Windows keep the samples of the last minutes, and give their average and percentiles.

A window tells nothing before its samples span half of it: after a restart, the load of some seconds would pass for
that of minutes, and what is offered to batch pods would follow.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from dra.engine.instants import Instant
from dra.model.meta import Struct

PERCENTILES: Final = (50, 90, 95, 99)

SAMPLES_MAX: Final = 7200
"""Samples that a window keeps at most: two hours of one a second."""


class Aggregate(Struct, frozen=True):
    """The samples of a window in a few numbers."""

    avg: float
    p50: float
    p90: float
    p95: float
    p99: float


class SampleWindow:
    """The samples of the last `keep_seconds`, each with the seconds that it stands for."""

    __slots__ = ("_keep_seconds", "_samples")

    def __init__(self, keep_seconds: float) -> None:
        self._keep_seconds = keep_seconds
        self._samples: deque[tuple[Instant, float, float]] = deque(maxlen=SAMPLES_MAX)

    def keep(self, seconds: float) -> None:
        """Keep samples for this time from now on."""
        self._keep_seconds = seconds

    def add(self, at: Instant, value: float, *, seconds: float = 1.0) -> None:
        """Add a sample that ends at this time and stands for so many seconds; drop samples that are too old."""
        samples = self._samples
        samples.append((at, value, seconds))
        oldest = at - self._keep_seconds
        while samples[0][0] < oldest:
            samples.popleft()

    def span(self, window_seconds: float, *, now: Instant) -> float:
        """Return the seconds from the first to the last sample of a window."""
        start = self._start(now - window_seconds)
        return self._samples[-1][0] - self._samples[start][0] if start < len(self._samples) else 0.0

    def age(self, *, now: Instant) -> float:
        """Return the seconds since the last sample; infinite without one."""
        return now - self._samples[-1][0] if self._samples else float("inf")

    def average(self, window_seconds: float, *, now: Instant) -> float | None:
        """Return the average of a window by the time that each sample stands for; None without a sample."""
        weighted = total = 0.0
        for _, value, seconds in islice(self._samples, self._start(now - window_seconds), None):
            weighted += value * seconds
            total += seconds
        return weighted / total if total else None

    def aggregate(self, window_seconds: float, *, now: Instant) -> Aggregate | None:
        """Return average and percentiles of a window; None if its samples span less than half of it."""
        average = self.average(window_seconds, now=now)
        if average is None or self.span(window_seconds, now=now) < window_seconds / 2:
            return None
        start = self._start(now - window_seconds)
        values = sorted(value for _, value, _ in islice(self._samples, start, None))
        p50, p90, p95, p99 = (percentile(values, percent) for percent in PERCENTILES)
        return Aggregate(avg=average, p50=p50, p90=p90, p95=p95, p99=p99)

    def _start(self, oldest: Instant) -> int:
        """Return the index of the first sample that is not older; samples are in the order of time."""
        low, high = 0, len(self._samples)
        while low < high:
            middle = (low + high) // 2
            if self._samples[middle][0] < oldest:
                low = middle + 1
            else:
                high = middle
        return low


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile of sorted values: the one at index ``max(0, floor(n · p) - 1)``, as Koordinator takes it."""
    return values[max(0, len(values) * percent // 100 - 1)]
