"""Types and constants for time, as decisions see time."""

from typing import Final, NamedTuple, TypeAlias

Instant: TypeAlias = float
"""Monotonic seconds. Ages count from the first observation by *this* process: timestamps of other machines are never
compared."""

WallTime: TypeAlias = float
"""Seconds since 1970, UTC. Used only where the API itself sets deadlines by the time of day. The wall clock may
jump."""

NEVER: Final[Instant] = float("inf")


def doubled(bounds: tuple[float, float], times: int) -> float:
    """Return the first of ``bounds``, in seconds, doubled so many times, at most the second."""
    first, longest = bounds
    return min(first * 2.0 ** min(times, 16), longest)


class Moment(NamedTuple):
    """The time on both clocks, read once for each decision."""

    instant: Instant
    wall: WallTime

    def instant_of(self, wall: WallTime) -> Instant:
        """Return when the wall clock will show a time, at most `MAX_SLEEP` seconds from now on; never for `NEVER`."""
        return NEVER if wall == NEVER else self.instant + min(max(wall - self.wall, 0.0) + WALL_SLACK, MAX_SLEEP)


MAX_SLEEP: Final = 600.0
"""Maximum seconds until a deadline by the time of day is checked again: the wall clock may jump."""

WALL_SLACK: Final = 0.05
"""Seconds after a deadline by the time of day until it is checked: the two clocks are not read at the same instant."""


BIND_HORIZON: Final = 60.0
"""Minimum number of seconds for which a scheduling cycle that has already begun may still bind its pod: see
`dra.engine.claims.bind_latency`."""

WATCH_OUTAGE_UNNOTICED: Final = 90.0
"""Seconds for which a watch of this process may be dead before the failure is noticed and the missed events are
re-read."""

SLOW_BIND_HORIZON: Final = 21 * 60.0
"""Bind horizon in seconds of pods whose binding waits for volumes or device conditions (kube-scheduler gives up after
10 to 20 minutes)."""
