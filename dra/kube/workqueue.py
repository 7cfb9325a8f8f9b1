"""Queues the keys that a component reconciles, each with a due time, as client-go's workqueue does.

Events come in thousands, reconciliations concern whole objects: a key occurs once in the queue, however often it was
added. A key is reconciled by one worker at a time; a key that is added while being reconciled is reconciled again. Keys
are ordered by due time, then by arrival: nothing depends on hashes, so a seed replays.

Keys that an event has added and keys whose time has come take turns where both are due. Thousands of claims can be due
at one time, a hundred seconds after a controller has taken over; a pod that appears then must not wait for all of them.
"""

import asyncio
import heapq
import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NoReturn, TypeAlias, TypeVar

from dra.kube.clock import Clock
from dra.kube.errors import ApiError

K = TypeVar("K", bound=Hashable)

MAX_CONCURRENT_RECONCILES: Final = 64
"""Default maximum number of keys reconciled at once, so that one slow request does not delay other keys."""

ERROR_BACKOFF: Final = (0.1, 30.0)
"""Seconds, minimum and maximum, until a key is due again whose reconciliation raised ApiError."""

BATCH_DELAY: Final = 0.05
"""Seconds until an added key is due in queues of controllers: one reconciliation for all events of this time."""

MAX_BATCH_DELAY: Final = 1.0
"""Maximum number of seconds until an added key is due, however expensive its reconciliations are."""

CPU_SHARE: Final = 0.05
"""Share of a core that the reconciliations of one key may take: a claim of ten thousand pods takes a twentieth of a
core and not all of it."""

_Entry: TypeAlias = tuple[float, int, K]
"""Due time, arrival, key."""

_log: Final = logging.getLogger(__name__)


class ItemBackoff(Generic[K]):
    """A count of failures in a row by key; only keys that have failed are stored."""

    def __init__(self) -> None:
        self._failures: dict[K, int] = {}

    def next_delay(self, key: K, bounds: tuple[float, float]) -> float:
        """Count a failure and return the delay in seconds: doubled from the first of ``bounds`` up to the second."""
        first, longest = bounds
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return min(first * 2.0 ** min(failures - 1, 16), longest)

    def forget(self, key: K) -> None:
        """Reset the delay of a key after a success."""
        self._failures.pop(key, None)


class WorkQueue(Generic[K]):
    """A queue of keys, ordered by due time. Each key has one consumer at a time, from `get` to `done`."""

    def __init__(self, clock: Clock, *, batch_delay: float = 0.0) -> None:
        """Create a queue; ``batch_delay``: seconds until an added key is due."""
        self._clock = clock
        self._batch_delay = batch_delay
        self._due: dict[K, float] = {}
        self._added: set[K] = set()
        """Keys in the queue, or being reconciled, that an event has added."""

        self._heaps: tuple[list[_Entry[K]], list[_Entry[K]]] = ([], [])
        """The keys that a time has made due, and those that an event has added: indexed by whether one has."""

        self._last_by_event = False
        """Whether the last key was one that an event had added."""

        self._order = itertools.count()
        self._running: dict[K, float] = {}
        self._batch_delays: dict[K, float] = {}
        """Batch delays of keys that are expensive to reconcile."""

        self._backoff: ItemBackoff[K] = ItemBackoff()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K) -> None:
        """Add a key after an event."""
        self._enter(key, self._clock.now() + self._batch_delays.get(key, self._batch_delay), by_event=True)

    def add_at(self, key: K, when: float) -> None:
        """Add a key that is due at ``when``; an earlier due time of the key stays. Infinity adds nothing."""
        if when != math.inf:
            self._enter(key, when, by_event=key in self._added)

    def _enter(self, key: K, when: float, *, by_event: bool) -> None:
        if key in self._running:
            self._running[key] = min(self._running[key], when)
            if by_event:
                self._added.add(key)
            return
        due = self._due.get(key, math.inf)
        if when >= due and by_event == (key in self._added):
            return
        when = self._due[key] = min(when, due)
        if by_event:
            self._added.add(key)
        heap = self._heaps[by_event]
        heapq.heappush(heap, (when, next(self._order), key))
        self._compact(by_event=by_event)
        if heap[0][2] == key:
            self._changed.set()

    async def get(self) -> K:
        """Wait for the next key that is due."""
        while True:
            self._changed.clear()
            now = self._clock.now()
            times = self._next_time(by_event=False), self._next_time(by_event=True)
            if min(times) <= now:
                self._last_by_event = not self._last_by_event if max(times) <= now else times[True] <= now
                _, _, key = heapq.heappop(self._heaps[self._last_by_event])
                del self._due[key]
                self._added.discard(key)
                self._running[key] = math.inf
                return key
            try:
                async with asyncio.timeout(None if min(times) == math.inf else min(times) - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _next_time(self, *, by_event: bool) -> float:
        """Return the due time of the first key of a heap, infinity if there is none."""
        heap = self._heaps[by_event]
        while heap and not self._is_current(heap[0], by_event=by_event):
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def _is_current(self, entry: _Entry[K], *, by_event: bool) -> bool:
        """Return whether an entry is not superseded by an earlier due time or by an event."""
        when, _, key = entry
        return self._due.get(key) == when and (key in self._added) == by_event

    def done(self, key: K) -> None:
        """Mark a key as reconciled."""
        self.add_at(key, self._running.pop(key))

    def set_cost(self, key: K, seconds: float) -> None:
        """Set the batch delay of a key in proportion to the seconds of computation that its reconciliation took."""
        delay = min(seconds / CPU_SHARE, MAX_BATCH_DELAY)
        if delay > self._batch_delay:
            self._batch_delays[key] = delay
        else:
            self._batch_delays.pop(key, None)

    async def run(
        self, reconcile: Callable[[K], Awaitable[float | None]], *, workers: int = MAX_CONCURRENT_RECONCILES
    ) -> NoReturn:
        """Reconcile keys as they become due, until cancelled; ``reconcile`` returns when its key is due again.

        After an ApiError, a key is due again after a delay. Every other error ends the queue.
        """
        free = asyncio.Semaphore(workers)
        async with asyncio.TaskGroup() as group:
            while True:
                await free.acquire()
                key = await self.get()
                task = group.create_task(self._reconcile_one(key, reconcile))
                task.add_done_callback(lambda _: free.release())

    async def _reconcile_one(self, key: K, reconcile: Callable[[K], Awaitable[float | None]]) -> None:
        try:
            again = await reconcile(key)
            self._backoff.forget(key)
        except ApiError as error:
            delay = self._backoff.next_delay(key, ERROR_BACKOFF)
            _log.debug("%s; trying again in %.1f s", error, delay)
            again = self._clock.now() + delay
        finally:
            self.done(key)
        if again is not None:
            self.add_at(key, again)

    def _compact(self, *, by_event: bool) -> None:
        """Drop superseded entries when they are most of a heap: some keys are due in twenty minutes."""
        heap = self._heaps[by_event]
        if len(heap) > 4 * len(self._due) + 64:
            heap[:] = [entry for entry in heap if self._is_current(entry, by_event=by_event)]
            heapq.heapify(heap)
