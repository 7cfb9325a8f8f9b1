"""Growing, jittered delays."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

JITTER: Final = Random()  # noqa: S311 - spreads load, guards nothing
"""The chance behind all delays of a process that nobody gave one of its own: seeded, a simulation repeats itself."""


@dataclass(slots=True)
class Backoff:
    """Delays that double from `base` to `cap`; each is drawn from its upper half.

    The jitter keeps the reflectors of one process, and the processes of one cluster, from coming back together
    after the API server restarts.
    """

    base: float = 0.25
    cap: float = 30.0
    random: Random = field(default_factory=lambda: JITTER)
    _failures: int = 0

    def next(self) -> float:
        """Return the delay before the next attempt, and count that it will be needed."""
        ceiling = min(self.cap, self.base * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return ceiling * self.random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start over: something worked."""
        self._failures = 0
