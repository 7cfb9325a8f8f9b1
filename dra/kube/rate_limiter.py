"""Rate limiting of requests, with priorities for requests that must wait.

A token bucket as in client-go, with a queue in front that serves by priority, then in order of arrival: under load the
requests that free devices or start pods must not wait behind the pruning of lists. Priorities are strict on purpose;
requests of the lowest priority wait as long as there is more urgent work.
"""

import asyncio
import heapq
import itertools
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from dra.kube.clock import SYSTEM, Clock


class RequestPriority(IntEnum):
    """The order in which requests are sent; a smaller number goes first."""

    LEADERSHIP = 0  # a late renewal costs the leadership and stops everything
    URGENT = 1  # releases, ungating, entries of pods that start: devices or pods wait for them
    NORMAL = 2
    BULK = 3  # pruning: only tidies up
    REPORT = 4  # events


@dataclass(slots=True)
class TokenBucket:
    """The arithmetic of a token bucket, without a clock.

    `tokens` is the number of tokens at time `at`; it grows by `qps` a second up to `burst`.
    """

    qps: float
    burst: float
    tokens: float = field(init=False)
    at: float = field(default=0.0, init=False)
    paused_until: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.qps <= 0 or self.burst < 1:
            raise ValueError(
                f"limits: qps {self.qps} and burst {self.burst} allow no request; set qps "
                "above 0 and burst to 1 or more"
            )
        self.tokens = self.burst

    def take(self, now: float, *, respect_pause: bool = True) -> float:
        """Take a token and return 0, or return the seconds until the next attempt is worthwhile."""
        self.tokens = min(self.burst, self.tokens + max(0.0, now - self.at) * self.qps)
        self.at = max(self.at, now)
        if respect_pause and now < self.paused_until:
            return self.paused_until - now
        if self.tokens < _ONE:
            return (1.0 - self.tokens) / self.qps
        self.tokens -= 1.0
        return 0.0

    def give_back(self) -> None:
        """Return an unused token to the bucket."""
        self.tokens = min(self.burst, self.tokens + 1.0)

    def pause(self, until: float) -> None:
        """Grant no token before `until`, as requested by the server."""
        self.paused_until = max(self.paused_until, until)


_ONE: Final = 1.0 - 1e-9
"""One token, less the rounding error: waiting exactly (1 - tokens) / qps must be enough."""


class RateLimiter:
    """A priority queue in front of a `TokenBucket`."""

    def __init__(self, qps: float, burst: float, *, clock: Clock = SYSTEM) -> None:
        self._bucket = TokenBucket(qps, burst)
        self._clock = clock
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait for a token."""
        return len(self._queue)

    def try_acquire(self, priority: RequestPriority = RequestPriority.NORMAL) -> bool:
        """Take the right to send one request if nobody waits for it and it need not be waited for."""
        return not self._queue and self._take(priority) == 0.0

    async def acquire(self, priority: RequestPriority = RequestPriority.NORMAL) -> None:
        """Wait for the right to send one request."""
        if self.try_acquire(priority):
            return
        granted = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (priority, next(self._arrivals), granted))
        self._serve()
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():  # granted at the moment at which the caller gave up
                self._bucket.give_back()
                self._serve()
            raise

    def pause(self, seconds: float) -> None:
        """Send nothing for a while, as the server requested with Retry-After.

        Leadership requests are exempt: the server sheds load per flow, and leases have a flow of their own.
        """
        self._bucket.pause(self._clock.now() + seconds)

    def _take(self, priority: int) -> float:
        return self._bucket.take(self._clock.now(), respect_pause=priority != RequestPriority.LEADERSHIP)

    def _serve(self) -> None:
        """Grant as many requests as possible and schedule the next attempt."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            priority, _, granted = self._queue[0]
            if not granted.done():
                delay = self._take(priority)
                if delay > 0.0:
                    self._timer = asyncio.get_running_loop().call_later(delay, self._serve)
                    return
                granted.set_result(None)
            heapq.heappop(self._queue)
