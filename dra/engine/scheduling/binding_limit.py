"""The number of bindings in flight that the API server answers in time, whatever its speed.

It follows the duration of bindings, as TCP's window follows the network: it grows by one for a round of fast bindings
while all slots are in use, and shrinks by a third when bindings are slow.
"""

from typing import Final

from dra.engine.instants import NEVER, Instant

LIMIT_MIN: Final = 2
LIMIT_INITIAL: Final = 4
LIMIT_MAX: Final = 32
"""Number of slots: the minimum, at the start, the maximum."""

SLOW_SHARE: Final = 1 / 4
"""Share of the maximum duration above which a binding is slow; below half of that it is fast."""

DECREASE_FACTOR: Final = 2 / 3


class BindingLimit:
    """The limit of bindings in flight, which adapts to how long each takes."""

    def __init__(self, *, seconds: float) -> None:
        """Create a limit; ``seconds`` is the maximum duration of a binding."""
        self._slow = SLOW_SHARE * seconds
        self._limit = float(LIMIT_INITIAL)
        self._shrunk_at = -NEVER

    @property
    def value(self) -> int:
        """Return the number of bindings that may be in flight now."""
        return int(self._limit)

    def adapt(self, took: float, *, in_flight: int, now: Instant) -> None:
        """Adapt to the duration of a binding that has just ended and is still among those in flight."""
        if took > self._slow:
            if now - took >= self._shrunk_at:  # the binding began after the last change of the limit
                self._limit = max(float(LIMIT_MIN), self._limit * DECREASE_FACTOR)
                self._shrunk_at = now
        elif took < self._slow / 2 and in_flight >= self.value:
            self._limit = min(float(LIMIT_MAX), self._limit + 1 / self._limit)
