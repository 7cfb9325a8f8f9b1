"""The two clocks of a component: monotonic seconds for measuring, wall time for writing into API objects."""

import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    """A source of monotonic and wall time. Waiting goes through asyncio, so that a virtual event loop makes it free."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean something, and only within this process."""
        ...

    def wall(self) -> datetime:
        """Return the time of day in UTC; the wall clock may jump, so compare it only with deadlines of the API."""
        ...


class SystemClock:
    """The clocks of the machine; `now` is the clock of asyncio's event loops, so deadlines carry over."""

    def now(self) -> float:
        """Return the monotonic seconds of the machine."""
        return time.monotonic()

    def wall(self) -> datetime:
        """Return the time of day in UTC."""
        return datetime.fromtimestamp(time.time(), tz=UTC)


SYSTEM: Final = SystemClock()


def rfc3339(wall: datetime) -> str:
    """Return `wall` as a metav1.Time, which has whole seconds."""
    return f"{wall.astimezone(UTC).isoformat(timespec='seconds')[:19]}Z"


def rfc3339_micro(wall: datetime) -> str:
    """Return `wall` as a metav1.MicroTime, which has exactly six decimals."""
    return f"{wall.astimezone(UTC).isoformat(timespec='microseconds')[:26]}Z"
