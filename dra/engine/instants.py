"""Types and constants for time, as decisions see time."""

from typing import Final, TypeAlias

Instant: TypeAlias = float
"""Monotonic seconds. Ages count from the first observation by *this* process: timestamps of other machines are never
compared."""

WallTime: TypeAlias = float
"""Seconds since 1970, UTC. Used only where the API itself sets deadlines by the time of day. The wall clock may
jump."""

NEVER: Final[Instant] = float("inf")

BIND_HORIZON: Final = 60.0
"""Minimum number of seconds for which a scheduling cycle that has already begun may still bind its pod: see
`dra.engine.claims.bind_latency`."""

WATCH_OUTAGE_UNNOTICED: Final = 90.0
"""Seconds for which a watch of this process may be dead before the failure is noticed and the missed events are
re-read."""

SLOW_BIND_HORIZON: Final = 21 * 60.0
"""Bind horizon in seconds of pods whose binding waits for volumes or device conditions (kube-scheduler gives up after
10 to 20 minutes)."""
