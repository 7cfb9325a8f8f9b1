"""Batches of calls: calls that arrive while a batch runs are answered together by the next batch.

A batch costs its syncs to disk, however many claims it contains, and a kubelet makes one call for each pod that starts.
So the calls that arrive while a batch runs form the next one, as in the group commit of databases. No call waits longer
for this: a call that arrives alone runs at once as a batch of one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeAlias, TypeVar

from dra.model.meta import Uid

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

CloseBatch: TypeAlias = Callable[[], Mapping[Uid, RequestT]]
"""A function that closes the open batch and returns its requests; to be called once, when the batch may run."""


class _Batch(Generic[RequestT, AnswerT]):
    def __init__(self) -> None:
        self.calls: list[Mapping[Uid, RequestT]] = []
        self.task: asyncio.Task[Mapping[Uid, AnswerT]] | None = None


class CallBatcher(Generic[RequestT, AnswerT]):
    """The batcher of requests about claims; each request is answered by the batch that it joined."""

    def __init__(self, turn: Callable[[CloseBatch[RequestT]], Awaitable[Mapping[Uid, AnswerT]]]) -> None:
        """Create a batcher; `turn` waits until it may run, closes the batch, and answers every request in the batch."""
        self._turn = turn
        self._next: _Batch[RequestT, AnswerT] | None = None
        self._under_way: set[asyncio.Task[Mapping[Uid, AnswerT]]] = set()

    async def ask(self, wishes: Mapping[Uid, RequestT]) -> Mapping[Uid, AnswerT]:
        """Add requests to the open batch and return their answers.

        A caller that is cancelled before the batch runs withdraws its requests; a later cancellation changes nothing.
        """
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
        """Wait for running batches, those with cancelled callers included."""
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
            self._next = None  # the batch failed before it was closed
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved: the callers got it, or were cancelled
