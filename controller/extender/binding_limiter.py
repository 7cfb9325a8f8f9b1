"""Limits the bindings in flight to the number that the API server answers in time, whatever its speed.

kube-scheduler starts a binding for each pod that it has found a node for, and does not wait for its end. On a slow API
server such bindings pile up until none of their requests is answered within ``bindSeconds``; each unanswered binding
costs a write of the pod's status, an Event, a retry, and a read of its outcome, which makes the server slower still.

So a binding needs a slot, and while all slots are taken the answer to ``filter`` waits: kube-scheduler processes its
next pod only then. `dra.engine.scheduling.binding_limit` decides how many slots there are.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from dra.engine.scheduling.binding_limit import BindingLimit
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.kube.clock import Clock

REMAINING_SHARE: Final = 1 / 2
"""Share of the maximum duration that must be left when a binding gets its slot: a request sent with less time may not
be answered, and the outcome of the binding would be unknown."""

FILTER_WAIT_SHARE: Final = 1 / 4
"""Share of a binding's maximum duration for which an answer to ``filter`` waits at most."""


class BindingLimiter:
    """The binding slots of one extender."""

    def __init__(self, *, clock: Clock, seconds: float) -> None:
        """Create a limiter; ``seconds`` is the maximum duration of a binding."""
        self._clock = clock
        self._seconds = seconds
        self._limit = BindingLimit(seconds=seconds)
        self._queue: deque[asyncio.Future[None]] = deque()
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self.in_flight = 0
        """Number of bindings that have a slot."""

    @property
    def limit(self) -> int:
        """Return the number of bindings that may be in flight now."""
        return self._limit.value

    async def wait_for_capacity(self) -> None:
        """Wait until a new binding would get a slot at once, for at most `FILTER_WAIT_SHARE` of its time."""
        if self._has_capacity.is_set():
            return  # the usual case, once for each pod: no timer is set for it
        try:
            async with asyncio.timeout(FILTER_WAIT_SHARE * self._seconds):
                await self._has_capacity.wait()
        except TimeoutError:
            pass

    @asynccontextmanager
    async def slot(self, *, deadline: float) -> AsyncIterator[None]:
        """Hold a slot for the block; raise WriteRefusedError if none is free while `REMAINING_SHARE` is left."""
        await self._acquire(deadline)
        began = self._clock.now()
        try:
            yield
        finally:
            now = self._clock.now()
            self._limit.adapt(now - began, in_flight=self.in_flight, now=now)
            self._release()

    async def _acquire(self, deadline: float) -> None:
        if self.in_flight >= self.limit or self._queue:
            granted = asyncio.get_running_loop().create_future()
            self._queue.append(granted)
            self._update_capacity()
            try:
                async with asyncio.timeout(max(0.0, deadline - REMAINING_SHARE * self._seconds - self._clock.now())):
                    await granted
            except BaseException as error:
                if granted.done() and not granted.cancelled():  # granted at the moment at which the wait ended
                    self._release()
                if not isinstance(error, TimeoutError):
                    raise
                text = f"nothing was written: {self.in_flight} binds are in progress and the API server is slow"
                raise WriteRefusedError(f"{text}; the scheduler tries again") from error
            return
        self.in_flight += 1
        self._update_capacity()

    def _release(self) -> None:
        self.in_flight -= 1
        while self._queue and self.in_flight < self.limit:
            granted = self._queue.popleft()
            if not granted.done():
                self.in_flight += 1
                granted.set_result(None)
        self._update_capacity()

    def _update_capacity(self) -> None:
        """Release waiting answers to ``filter``, or hold them."""
        if self.in_flight + len(self._queue) < self.limit:
            self._has_capacity.set()
        else:
            self._has_capacity.clear()
