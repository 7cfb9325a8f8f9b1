"""Queues the keys that a component of the plane reconciles, each with a due time, as client-go's workqueue does.

A key is reconciled by one task at a time, however often it was added; a key that is added while being reconciled is
reconciled again. A handler returns the time at which its key is due again; a failed key (`ApiError`) is due again after
an exponential backoff. Keys are ordered by due time, then by arrival: nothing depends on hashes, so a seed replays.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NoReturn, TypeVar

from dra.kube.clock import Clock
from dra.kube.errors import ApiError

K = TypeVar("K", bound=Hashable)

MAX_CONCURRENT_RECONCILES: Final = 64
"""Maximum number of keys reconciled at once, so that one slow request does not delay other keys."""

BACKOFF_BASE_DELAY: Final = 0.1
BACKOFF_MAX_DELAY: Final = 30.0

_log: Final = logging.getLogger(__name__)


class WorkQueue(Generic[K]):
    """A queue of keys, ordered by due time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._running: dict[K, float | None] = {}
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()
        self._free = asyncio.Semaphore(MAX_CONCURRENT_RECONCILES)

    def __len__(self) -> int:
        return len(self._due) + len(self._running)

    def touch(self, key: K) -> None:
        """Add a key that is due now."""
        self.at(key, self._clock.now())

    def at(self, key: K, when: float) -> None:
        """Add a key that is due at `when`; an earlier due time of the key stays."""
        if key in self._running:
            wanted = self._running[key]
            self._running[key] = when if wanted is None else min(wanted, when)
            return
        known = self._due.get(key)
        if known is None or when < known:
            self._due[key] = when
            heapq.heappush(self._heap, (when, next(self._order), key))
            if self._heap[0][2] == key:
                self._changed.set()

    async def serve(self, handle: Callable[[K], Awaitable[float | None]]) -> NoReturn:
        """Reconcile keys as they become due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                key = await self._next()
                await self._free.acquire()
                group.create_task(self._one(key, handle))

    async def _next(self) -> K:
        while True:
            self._changed.clear()
            now = self._clock.now()
            while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
                heapq.heappop(self._heap)  # superseded by an earlier due time, or already reconciled
            if self._heap and self._heap[0][0] <= now:
                _, _, key = heapq.heappop(self._heap)
                del self._due[key]
                self._running[key] = None
                return key
            try:
                async with asyncio.timeout(self._heap[0][0] - now if self._heap else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _one(self, key: K, handle: Callable[[K], Awaitable[float | None]]) -> None:
        again: float | None = None
        try:
            again = await handle(key)
        except ApiError as error:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            again = self._clock.now() + min(BACKOFF_MAX_DELAY, BACKOFF_BASE_DELAY * 2.0 ** min(failures, 16))
            _log.debug("%s; again in a while", error)
        else:
            self._failures.pop(key, None)
        finally:
            self._free.release()
            touched = self._running.pop(key)
        for when in (again, touched):
            if when is not None:
                self.at(key, when)
