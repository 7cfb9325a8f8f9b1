"""The two times of a shell: monotonic seconds to measure with, wall time to write into API objects."""

import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    """What a shell may ask about time. Waiting is asyncio's business: a virtual event loop makes it free."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean something, and only within this process."""
        ...

    def wall(self) -> datetime:
        """Return the time of day in UTC; it may jump, so it is compared with nothing but deadlines of the API's own."""
        ...


class SystemClock:
    """The machine's own clocks; `now` is the one asyncio's loops use, so deadlines carry over."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall(self) -> datetime:
        """Return the time of day in UTC."""
        return datetime.fromtimestamp(time.time(), tz=UTC)


SYSTEM: Final = SystemClock()


def rfc3339(wall: datetime) -> str:
    """Return `wall` as a Time, which has whole seconds."""
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(wall: datetime) -> str:
    """Return `wall` as a MicroTime, which has exactly six decimals (``isoformat`` leaves them out when zero)."""
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
