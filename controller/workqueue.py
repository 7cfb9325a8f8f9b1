"""The work queue: which item is reconciled next, and when.

Events come in thousands, decisions concern whole claims: a claim is decided a short while after the first event, for
all events at once. The delay depends on the cost of its decisions, so that a claim of ten thousand pods takes a
twentieth of a core and not all of it. A claim is never decided twice at the same time.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from dra.engine.instants import NEVER, Instant
from dra.kube.clock import Clock

K = TypeVar("K", bound=Hashable)
DELAY_MIN: Final = 0.05
"""Minimum number of seconds from an event to the decision."""

DELAY_MAX: Final = 1.0
"""Maximum number of seconds from an event to the decision."""

CPU_SHARE: Final = 0.05
"""Share of a core that one claim's decisions may take."""


class WorkQueue(Generic[K]):
    """A queue of claims, or of other items, by the time at which they are due.

    Each key has one consumer at a time, from `take` to `done`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[K, Instant] = {}
        self._heap: list[tuple[Instant, int, K]] = []
        self._order = itertools.count()
        self._running: dict[K, Instant] = {}
        self._delay: dict[K, float] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def touch(self, key: K) -> None:
        """Enqueue a claim after an event."""
        self.at(key, self._clock.now() + self._delay.get(key, DELAY_MIN))

    def at(self, key: K, when: Instant) -> None:
        """Enqueue a claim to be decided at ``when`` at the latest."""
        if when == NEVER:
            return
        if key in self._running:
            self._running[key] = min(self._running[key], when)
            return
        if when < self._due.get(key, NEVER):
            self._due[key] = when
            heapq.heappush(self._heap, (when, next(self._order), key))
            self._tidy()
            self._changed.set()

    async def take(self) -> K:
        """Wait for the next claim that is due."""
        while True:
            self._changed.clear()
            now = self._clock.now()
            while self._heap:
                when, _, key = self._heap[0]
                if self._due.get(key) != when:  # superseded by an earlier time
                    heapq.heappop(self._heap)
                    continue
                if when > now:
                    break
                heapq.heappop(self._heap)
                del self._due[key]
                self._running[key] = NEVER
                return key
            await self._until(self._heap[0][0] if self._heap else NEVER)

    def done(self, key: K, *, cost: float = 0.0) -> None:
        """Mark a claim as processed; ``cost`` is the duration of its decisions in seconds."""
        again = self._running.pop(key)
        delay = min(max(cost / CPU_SHARE, DELAY_MIN), DELAY_MAX)
        if delay > DELAY_MIN:
            self._delay[key] = delay
        else:
            self._delay.pop(key, None)
        self.at(key, again)

    async def serve(self, turn: Callable[[K], Awaitable[float]], *, workers: int) -> None:
        """Call ``turn`` for each due claim, in ``workers`` tasks, until cancelled; ``turn`` returns its cost."""

        async def work() -> None:
            while True:
                key = await self.take()
                cost = 0.0
                try:
                    cost = await turn(key)
                finally:
                    self.done(key, cost=cost)

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())

    def _tidy(self) -> None:
        """Drop superseded entries when they are most of the heap: some are due in twenty minutes."""
        if len(self._heap) > 4 * len(self._due) + 64:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    async def _until(self, when: Instant) -> None:
        """Wait for a change, until ``when`` at the latest."""
        try:
            async with asyncio.timeout(None if when == NEVER else max(when - self._clock.now(), 0.0)):
                await self._changed.wait()
        except TimeoutError:
            pass
