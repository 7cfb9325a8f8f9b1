"""Calls that wait for their turn take it together.

A turn costs what its syncs to disk cost, however many claims it is about, and a kubelet makes as many calls at a time
as pods start. So the calls that come while a turn is under way gather, and the next one is for all of them: as group
commit in databases. Nobody waits longer for it: who comes alone has a turn of its own at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeAlias, TypeVar

from dra.model.meta import Uid

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

CloseBatch: TypeAlias = Callable[[], Mapping[Uid, RequestT]]
"""To be called once when the turn has come: closes it, and returns the wishes that gathered."""


class _Batch(Generic[RequestT, AnswerT]):
    def __init__(self) -> None:
        self.calls: list[Mapping[Uid, RequestT]] = []
        self.task: asyncio.Task[Mapping[Uid, AnswerT]] | None = None


class CallBatcher(Generic[RequestT, AnswerT]):
    """Wishes about claims, each answered by the turn that it went into."""

    def __init__(self, turn: Callable[[CloseBatch[RequestT]], Awaitable[Mapping[Uid, AnswerT]]]) -> None:
        """`turn` waits until it may, begins, and answers all that it got from there."""
        self._turn = turn
        self._next: _Batch[RequestT, AnswerT] | None = None
        self._under_way: set[asyncio.Task[Mapping[Uid, AnswerT]]] = set()

    async def ask(self, wishes: Mapping[Uid, RequestT]) -> Mapping[Uid, AnswerT]:
        """Return the answers. Who is cancelled before the turn began has wished nothing, and later changes nothing."""
        turn = self._next
        if turn is None or turn.task is None:
            turn = self._next = _Batch()
            turn.task = asyncio.create_task(self._take(turn))
            self._under_way.add(turn.task)
            turn.task.add_done_callback(self._over)
        turn.calls.append(wishes)
        try:
            answers = await asyncio.shield(turn.task)
        except asyncio.CancelledError:
            turn.calls = [call for call in turn.calls if call is not wishes]
            raise
        return {uid: answers[uid] for uid in wishes}

    async def settled(self) -> None:
        """Wait for the turns that nobody waits for any more."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _take(self, turn: _Batch[RequestT, AnswerT]) -> Mapping[Uid, AnswerT]:
        def begin() -> Mapping[Uid, RequestT]:
            if self._next is turn:
                self._next = None
            return {uid: wish for call in turn.calls for uid, wish in call.items()}

        return await self._turn(begin)

    def _over(self, task: asyncio.Task[Mapping[Uid, AnswerT]]) -> None:
        self._under_way.discard(task)
        if self._next is not None and self._next.task is task:
            self._next = None  # it failed before it had begun
        if not task.cancelled():
            task.exception()  # the callers have it, or gave up on it
