"""Tasks whose end somebody must hear of.

A task group hears of all its tasks, and is the first choice. Two kinds of work do not fit into one: what must outlive
the work that it serves (`beside`), and what is begun by a call that does not wait for it (`Detached`). asyncio keeps
what such a task has failed with for whoever asks, and nobody does: a mistake in it shows only as a hang of all that
waits for its effects.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

_log: Final = logging.getLogger(__name__)


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, Any], *, name: str) -> AsyncIterator[asyncio.Task[Any]]:
    """Let work run for as long as the block does; what it fails with ends the block."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work, name=name)
            yield task
            task.cancel()
    except BaseExceptionGroup as failures:
        if len(failures.exceptions) > 1:
            raise
        [only] = failures.exceptions
    else:
        return
    raise only  # here, so that its own context stays


class BackgroundTasks:
    """Tasks that nobody awaits. What one fails with is logged at once, and raised by `failed`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None
        self._fell = asyncio.Event()

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Begin some work; its name is what the log tells."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    async def failed(self) -> NoReturn:
        """Wait for the first failure, and raise it: for whoever cannot go on without the work."""
        await self._fell.wait()
        if self._failure is None:
            raise AssertionError("what fell has failed")
        raise self._failure

    async def settled(self) -> None:
        """Wait until all that was begun is over."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancel all, and wait for them."""
        for task in self._tasks:
            task.cancel()
        await self.settled()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (failure := task.exception()) is None:
            return
        _log.error("%s has failed, by a mistake of ours", task.get_name(), exc_info=failure)
        self._failure = self._failure or failure
        self._fell.set()
