"""A leader election in a thread of its own: the lease is renewed whatever the event loop of the process is busy with.

What a tenant has written can keep the event loop busy for longer than a lease lasts. A leader that loses its lease for
this ends, its successor reads the same objects, and nobody leads any more. The thread has an event loop, a transport
and a client of its own; the loop of the process only reads the times that follow from the lease.

A process whose event loop makes no progress for `STALLED_AFTER` gives no sign of life any more, and must not hold the
lease: then the thread stops to renew it. The kubelet has restarted the container by then, if it probes the process.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from dra.kube.clock import Clock
from dra.kube.lease_rules import Tenure
from dra.kube.transport import Transport
from dra.requests.leadership import Election

T = TypeVar("T")

STALLED_AFTER: Final = 60.0
"""Seconds without progress of the event loop after which the lease is not renewed: twice as long as the kubelet takes
to restart a container that does not answer its liveness probe."""

HEARTBEAT: Final = 1.0
"""Seconds between two signs of life of the event loop."""


_Started: TypeAlias = "concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]"
"""The event loop of the thread, and the event that ends the loop."""


class Heartbeat:
    """The last sign of life of an event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = clock.now()

    def is_stalled(self) -> bool:
        """Report whether the event loop has made no progress for `STALLED_AFTER`."""
        return self._clock.now() - self._seen > STALLED_AFTER

    async def run(self) -> NoReturn:
        """Give signs of life until cancelled."""
        while True:
            self._seen = self._clock.now()
            await asyncio.sleep(HEARTBEAT)


class LeaseThread:
    """An election that runs in a thread; for the callers, an `Election`."""

    def __init__(self, election: Election, transport: Transport, *, heartbeat: Heartbeat) -> None:
        """Create the election; `transport` is that of its client, and is closed with the thread."""
        self._election = election
        self._transport = transport
        self._heartbeat = heartbeat
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def write_deadline(self) -> float:
        """Return the deadline of all writes begun now; in the past without leadership."""
        return self._election.write_deadline

    @property
    def previous_writes_until(self) -> float:
        """Return until when late writes of the previous leader may arrive."""
        return self._election.previous_writes_until

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the thread for as long as the block runs."""
        started: _Started = concurrent.futures.Future()
        thread = threading.Thread(target=self._run, args=(started,), name="lease", daemon=True)
        thread.start()
        self._loop, stopped = started.result()
        beat = asyncio.create_task(self._heartbeat.run(), name="heartbeat")
        try:
            yield
        finally:
            beat.cancel()
            self._loop.call_soon_threadsafe(stopped.set)
            self._loop = None
            thread.join(HEARTBEAT)

    def _run(self, started: _Started) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: _Started) -> None:
        """Run what the process calls, until it stops the thread."""
        stopped = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stopped))
        try:
            await stopped.wait()
        finally:
            await self._transport.close()

    async def acquire(self) -> Tenure:
        """Wait until this process is the leader."""
        return await self._call(self._election.acquire)

    async def renew(self) -> NoReturn:
        """Renew the lease; raise `LeadershipLostError` when that fails, or when the loop of the process stalls."""
        await self._call(self._election.renew)
        raise AssertionError("a renewal ends with an exception")

    async def release(self) -> None:
        """Release the lease after the last write."""
        await self._call(self._election.release)

    async def _call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the thread, and wait for its result here."""
        if self._loop is None:
            raise AssertionError("the thread of the lease does not run")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(), self._loop))
