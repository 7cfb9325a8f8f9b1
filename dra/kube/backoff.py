"""Exponential backoff with jitter between attempts."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

JITTER: Final = Random()  # noqa: S311 - spreads load, guards nothing
"""Source of randomness for all delays of a process that were given no source of their own. When it is seeded, a
simulation repeats itself."""


@dataclass(slots=True)
class Backoff:
    """Delays that double from `base` to `cap`; each delay is drawn from the upper half of its range.

    The jitter keeps the reflectors of one process, and the processes of one cluster, from reconnecting at the same
    moment after the API server restarts.
    """

    base: float = 0.25
    cap: float = 30.0
    random: Random = field(default_factory=lambda: JITTER)
    _failures: int = 0

    def next(self) -> float:
        """Return the delay before the next attempt and double the one after it."""
        ceiling = min(self.cap, self.base * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return ceiling * self.random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Restart from `base` after a successful attempt."""
        self._failures = 0
