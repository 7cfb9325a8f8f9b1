"""Batches of calls: calls that arrive while a batch runs are answered together by the next batch.

A batch costs its syncs to disk, however many claims it contains, and a kubelet makes one call for each pod that starts.
So the calls that arrive while a batch runs form the next one, as in the group commit of databases. No call waits longer
for this: a call that arrives alone runs at once as a batch of one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from dra.model.meta import Uid

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")


class _Batch(Generic[RequestT, AnswerT]):
    def __init__(self) -> None:
        self.calls: list[Mapping[Uid, RequestT]] = []
        self.task: asyncio.Task[Mapping[Uid, AnswerT]] | None = None


class CallBatcher(Generic[RequestT, AnswerT]):
    """The batcher of requests about claims; each request is answered by the batch that it joined."""

    def __init__(
        self,
        run: Callable[[Mapping[Uid, RequestT]], Awaitable[Mapping[Uid, AnswerT]]],
        *,
        exclusively: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """Create a batcher; `run` answers every request of a batch, within the context that `exclusively` returns.

        A batch accepts calls until that context is entered.
        """
        self._run = run
        self._exclusively = exclusively
        self._open_batch: _Batch[RequestT, AnswerT] | None = None
        self._running_tasks: set[asyncio.Task[Mapping[Uid, AnswerT]]] = set()

    async def submit(self, requests: Mapping[Uid, RequestT]) -> dict[Uid, AnswerT]:
        """Add requests to the open batch and return their answers; raises the failure of the batch.

        A caller that is cancelled before the batch runs withdraws its requests; a later cancellation changes nothing.
        """
        batch = self._open_batch
        if batch is None or batch.task is None:
            batch = self._open_batch = _Batch()
            batch.task = asyncio.create_task(self._run_batch(batch))
            self._running_tasks.add(batch.task)
            batch.task.add_done_callback(self._on_done)
        batch.calls.append(requests)
        try:
            answers = await asyncio.shield(batch.task)
        except asyncio.CancelledError:
            batch.calls = [call for call in batch.calls if call is not requests]
            raise
        return {uid: answers[uid] for uid in requests}

    async def wait_idle(self) -> None:
        """Wait for running batches, those with cancelled callers included."""
        if self._running_tasks:
            await asyncio.wait(self._running_tasks)

    async def _run_batch(self, batch: _Batch[RequestT, AnswerT]) -> Mapping[Uid, AnswerT]:
        try:
            async with self._exclusively():
                self._close(batch)
                requests = {uid: request for call in batch.calls for uid, request in call.items()}
                return await self._run(requests) if requests else {}
        finally:
            self._close(batch)  # still open if the context could not be entered

    def _close(self, batch: _Batch[RequestT, AnswerT]) -> None:
        if self._open_batch is batch:
            self._open_batch = None

    def _on_done(self, task: asyncio.Task[Mapping[Uid, AnswerT]]) -> None:
        self._running_tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved: the callers got it, or were cancelled
