"""Keeps the answers of reviews for seconds, so that a page with open streams does not review at every request.

An answer that allows is kept longer than one that denies: a user to whom a permission was just granted tries again at
once. Revoking a permission takes effect when the answer expires. A review that fails is not kept, and never counts as
an answer. Answers that deny have places of their own, so that a flood of them displaces no answer that allows; and a
review ends with the last request that waits for it, so that clients that leave at once pile up nothing.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Final, Generic, TypeVar

from dra.kube.clock import SYSTEM, Clock

ALLOW_SECONDS: Final = 30.0
"""Seconds for which an answer that allows is kept."""

DENY_SECONDS: Final = 5.0
"""Seconds for which an answer that denies is kept."""

ANSWERS_MAX: Final = 4096
"""Maximum number of kept answers of reviews, of those that allow and of those that deny; beyond it, the answer unused
for longest is forgotten."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReviewCache(Generic[K, V]):
    """The answers of one kind of review; falsy answers deny."""

    def __init__(self, *, clock: Clock = SYSTEM, answers_max: int = ANSWERS_MAX) -> None:
        self._clock = clock
        self._answers_max = answers_max
        self._allowed: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._denied: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._pending: dict[K, asyncio.Task[V]] = {}
        self._waiting: Counter[K] = Counter()

    def __len__(self) -> int:
        return len(self._allowed) + len(self._denied)

    @property
    def pending(self) -> int:
        """Return the number of reviews that are not answered yet."""
        return len(self._pending)

    def last_answer(self, key: K) -> V | None:
        """Return the last answer for a key, even if it has expired; None if it is not remembered."""
        known = self._known(key)
        return known[1] if known is not None else None

    def _known(self, key: K) -> tuple[float, V] | None:
        return self._allowed.get(key) or self._denied.get(key)

    async def answer(self, key: K, review: Callable[[], Awaitable[V]]) -> V:
        """Return the answer for a key; ask ``review`` at most once at a time for it, and raise what it raises."""
        known = self._known(key)
        if known is not None and self._clock.now() < known[0]:
            (self._allowed if known[1] else self._denied).move_to_end(key)
            return known[1]
        task = self._pending.get(key)
        if task is None:
            task = self._pending[key] = asyncio.ensure_future(self._ask(key, review))
            task.add_done_callback(partial(self._on_done, key))
        self._waiting[key] += 1
        try:
            return await asyncio.shield(task)  # other requests may wait for the same answer
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
                if self._pending.get(key) is task:
                    del self._pending[key]
                    task.cancel()

    async def _ask(self, key: K, review: Callable[[], Awaitable[V]]) -> V:
        began = self._clock.now()
        answer = await review()
        self._allowed.pop(key, None)
        self._denied.pop(key, None)
        answers = self._allowed if answer else self._denied
        answers[key] = (began + (ALLOW_SECONDS if answer else DENY_SECONDS), answer)
        if len(answers) > self._answers_max:
            answers.popitem(last=False)
        return answer

    def _on_done(self, key: K, task: asyncio.Task[V]) -> None:
        if self._pending.get(key) is task:
            del self._pending[key]
        if not task.cancelled():
            task.exception()  # else asyncio complains when every request that waited for it is gone
