"""Time as the engine sees it."""

from typing import Final, TypeAlias

Instant: TypeAlias = float
"""Monotonic seconds. Ages count from when *we* first saw something: timestamps of other machines are not compared."""

WallTime: TypeAlias = float
"""Seconds since 1970, UTC: only where the API itself sets deadlines by the time of day. It may jump."""

NEVER: Final[Instant] = float("inf")

BIND_HORIZON: Final = 60.0
"""Seconds for which a scheduling cycle that began earlier may still bind its pod, at least: see
`dra.engine.claims.bind_latency`."""

WATCH_OUTAGE_UNNOTICED: Final = 90.0
"""Seconds for which one of our watches may be dead before that is noticed, and what it missed is read anew."""

SLOW_BIND_HORIZON: Final = 21 * 60.0
"""The same for pods whose binding waits for volumes or device conditions (upstream gives up after 10 to 20 minutes)."""
