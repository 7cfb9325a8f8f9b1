"""Keeps the answers of reviews for seconds, so that a page with open streams does not review at every request.

An answer that allows is kept longer than one that denies: a user to whom a permission was just granted tries again at
once. Revoking a permission takes effect when the answer expires. A review that fails is not kept, and never counts as
an answer.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Final, Generic, TypeVar

from dra.kube.clock import SYSTEM, Clock

ALLOW_SECONDS: Final = 30.0
"""Seconds for which an answer that allows is kept."""

DENY_SECONDS: Final = 5.0
"""Seconds for which an answer that denies is kept."""

ANSWERS_MAX: Final = 4096
"""Maximum number of answers; beyond it, the answer unused for longest is forgotten."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReviewCache(Generic[K, V]):
    """The answers of one kind of review; falsy answers deny."""

    def __init__(self, *, clock: Clock = SYSTEM, answers_max: int = ANSWERS_MAX) -> None:
        self._clock = clock
        self._answers_max = answers_max
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._pending: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def last_answer(self, key: K) -> V | None:
        """Return the last answer for a key, even if it has expired; None if it is not remembered."""
        known = self._answers.get(key)
        return known[1] if known is not None else None

    async def answer(self, key: K, review: Callable[[], Awaitable[V]]) -> V:
        """Return the answer for a key; ask ``review`` at most once at a time for it, and raise what it raises."""
        known = self._answers.get(key)
        if known is not None and self._clock.now() < known[0]:
            self._answers.move_to_end(key)
            return known[1]
        task = self._pending.get(key)
        if task is None:
            task = self._pending[key] = asyncio.ensure_future(self._ask(key, review))
            task.add_done_callback(partial(self._on_done, key))
        return await asyncio.shield(task)  # other requests may wait for the same answer

    async def _ask(self, key: K, review: Callable[[], Awaitable[V]]) -> V:
        began = self._clock.now()
        found = await review()
        self._answers.pop(key, None)
        self._answers[key] = (began + (ALLOW_SECONDS if found else DENY_SECONDS), found)
        if len(self._answers) > self._answers_max:
            self._answers.popitem(last=False)
        return found

    def _on_done(self, key: K, task: asyncio.Task[V]) -> None:
        self._pending.pop(key, None)
        if not task.cancelled():
            task.exception()  # else asyncio complains when every request that waited for it is gone
