"""Which claim is decided next, and when.

Events come in thousands, decisions are about whole claims: a claim is decided a short while after the first event,
for all of them at once. How short depends on what its decisions cost, so that a claim of ten thousand pods takes a
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
"""Seconds from an event to the decision, at least …"""

DELAY_MAX: Final = 1.0
"""… and at most."""

CPU_SHARE: Final = 0.05
"""Share of a core that one claim's decisions may take."""


class WorkQueue(Generic[K]):
    """Claims, or what else is decided about, and when they are due. One consumer per `take`; `done` gives it back."""

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
        """Something happened to the claim."""
        self.at(key, self._clock.now() + self._delay.get(key, DELAY_MIN))

    def at(self, key: K, when: Instant) -> None:
        """Decide the claim at ``when`` at the latest."""
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
                if self._due.get(key) != when:  # superseded by an earlier instant
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
        """Give a claim back; ``cost`` is what deciding it took, in seconds."""
        again = self._running.pop(key)
        delay = min(max(cost / CPU_SHARE, DELAY_MIN), DELAY_MAX)
        if delay > DELAY_MIN:
            self._delay[key] = delay
        else:
            self._delay.pop(key, None)
        self.at(key, again)

    async def serve(self, turn: Callable[[K], Awaitable[float]], *, workers: int) -> None:
        """Give each claim to ``turn`` when it is due, so many at a time, until cancelled; a turn returns its cost."""

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
        """Drop superseded instants when they are most of the heap: some lie twenty minutes ahead."""
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
