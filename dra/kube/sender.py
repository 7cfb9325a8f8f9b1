"""The policy for sending requests: rate, deadlines, retries, metrics.

Retried are requests that the server rejected with 429 and a Retry-After (it did nothing), and reads that never reached
it. A write whose outcome is unknown is never retried: it raises an error with ``is_outcome_unknown``, and the caller
reads again and decides again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

import msgspec

from dra.kube.backoff import Backoff
from dra.kube.clock import Clock
from dra.kube.errors import ApiError, ResponseTooLarge, ServerError, TooManyRequests, Unreachable, raise_for_status
from dra.kube.rate_limiter import RateLimiter, RequestPriority
from dra.kube.transport import Request, Response, Transport

ATTEMPTS: Final = 4

MAX_IN_FLIGHT: Final = 128
"""Maximum number of concurrent requests to the API server, without watches and lease renewals: on a slow one, requests
sent at a steady rate pile up, and each takes a connection with its buffers. There is one watch for each kind."""

RequestObserver: TypeAlias = Callable[[str, str, int, float], None]
"""Called with (method, group-resource, status, seconds) for each request sent. Status 0 stands for `Unreachable`; the
method of a watch is WATCH, and its seconds end when the response begins."""


class Sender:
    """Sends requests through a transport. In texts `subject` names the object, in metrics `label` the resource."""

    def __init__(
        self,
        transport: Transport,
        limiter: RateLimiter,
        *,
        clock: Clock,
        observer: RequestObserver | None,
        late_write_seconds: float,
    ) -> None:
        """Create the sender; ``late_write_seconds``: how long a write may be in flight after its caller gave up."""
        self.late_writes_until = float("-inf")
        """Time until which a write may still arrive whose answer was given up on."""

        self._late_write_seconds = late_write_seconds
        self._transport = transport
        self._limiter = limiter
        self._clock = clock
        self._observer = observer
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def send(self, request: Request, *, subject: str, label: str, priority: RequestPriority) -> Response:
        """Return the successful response, else raise; `request.timeout` covers all attempts and waits."""
        deadline = self._clock.now() + request.timeout
        backoff = Backoff(base=0.1, cap=2.0)
        attempt = 0
        while True:
            attempt += 1
            left = await self._acquire_slot(priority, deadline, subject)
            try:
                try:
                    return await self._exchange(msgspec.structs.replace(request, timeout=left), subject, label)
                finally:
                    if priority is not RequestPriority.LEADERSHIP:
                        self._slots.release()
            except TooManyRequests as error:
                self._apply_retry_after(error)
                delay = error.retry_after or 0.0
                left = deadline - self._clock.now()
                if not error.is_retriable or attempt == ATTEMPTS or delay >= left:
                    raise
                await asyncio.sleep(delay)
            except Unreachable as error:
                delay = backoff.next()
                left = deadline - self._clock.now()
                if error.is_outcome_unknown or request.method != "GET" or attempt == ATTEMPTS or delay >= left:
                    raise
                await asyncio.sleep(delay)

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Request, *, subject: str, label: str, priority: RequestPriority
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream, without retries; errors of the stream name `subject`, too."""
        await self._limiter.acquire(priority)
        began = self._clock.now()
        try:
            async with contextlib.AsyncExitStack() as stack:
                try:
                    blocks = await stack.enter_async_context(self._transport.stream(request))
                except ApiError as error:
                    self._observe("WATCH", label, error.status, began)
                    self._apply_retry_after(error)
                    raise
                self._observe("WATCH", label, 200, began)
                yield blocks
        except ApiError as error:
            error.subject = subject
            raise

    async def _acquire_slot(self, priority: RequestPriority, deadline: float, subject: str) -> float:
        """Wait for the rate limiter and for a slot, not beyond the deadline; return the seconds left.

        The caller must release the slot, except for LEADERSHIP.
        """
        granted = self._limiter.try_acquire(priority)
        needs_slot = priority is not RequestPriority.LEADERSHIP
        if granted and not (needs_slot and self._slots.locked()):  # nearly always, and a timer would be costly
            if needs_slot:
                await self._slots.acquire()
        else:
            await self._wait_for_slot(priority, deadline, subject, granted=granted)
        left = deadline - self._clock.now()
        if left <= 0.0:
            if needs_slot:
                self._slots.release()
            raise Unreachable(
                subject,
                "not sent in time: the rate limit allowed the request only at its deadline",
                outcome_unknown=False,
            )
        return left

    async def _wait_for_slot(self, priority: RequestPriority, deadline: float, subject: str, *, granted: bool) -> None:
        """Wait for the rate limiter, unless it has granted the request already, and for a slot."""
        message = ""
        try:
            async with asyncio.timeout(deadline - self._clock.now()):
                if not granted:
                    await self._limiter.acquire(priority)
                if priority is not RequestPriority.LEADERSHIP:
                    message = f"not sent in time: {MAX_IN_FLIGHT} requests are in progress and the API server is slow"
                    await self._slots.acquire()
        except TimeoutError:
            waiting = self._limiter.waiting
            message = message or f"not sent in time: {waiting} requests wait for the rate limit; raise qps and burst"
            raise Unreachable(subject, message, outcome_unknown=False) from None

    async def _exchange(self, request: Request, subject: str, label: str) -> Response:
        """Send the request one time, without retries."""
        began = self._clock.now()
        try:
            response = await self._transport.send(request)
        except asyncio.CancelledError:
            self._note_late_write(request)
            raise
        except (Unreachable, ResponseTooLarge) as error:
            if error.is_outcome_unknown:
                self._note_late_write(request)
            self._observe(request.method, label, error.status, began)
            error.subject = subject
            raise
        self._observe(request.method, label, response.status, began)
        try:
            raise_for_status(response, subject)
        except ServerError:  # the server may have stopped waiting for the write itself
            self._note_late_write(request)
            raise
        return response

    def _note_late_write(self, request: Request) -> None:
        if request.method != "GET":
            self.late_writes_until = self._clock.now() + self._late_write_seconds

    def _apply_retry_after(self, error: ApiError) -> None:
        """Pause all requests when the server asks for it."""
        if isinstance(error, TooManyRequests) and error.is_retriable and error.retry_after is not None:
            self._limiter.pause(error.retry_after)

    def _observe(self, method: str, label: str, status: int, began: float) -> None:
        if self._observer is not None:
            self._observer(method, label, status, self._clock.now() - began)
