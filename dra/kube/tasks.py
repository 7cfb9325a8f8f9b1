"""Background tasks whose failures are never lost.

A task group reports the failures of all its tasks, and is the first choice. Two kinds of work do not fit into a group:
work that must outlive its caller's other tasks (`background_task`), and work started by a call that does not wait for
it (`BackgroundTasks`). asyncio keeps the exception of such a task until it is retrieved, which never happens: a bug in
it shows only as a hang of everything that waits for its effects.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

_log: Final = logging.getLogger(__name__)


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, Any], *, name: str) -> AsyncIterator[asyncio.Task[Any]]:
    """Run a coroutine for as long as the block runs; its failure ends the block."""
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
    raise only  # here, so that the exception keeps its own context


class BackgroundTasks:
    """Tasks that are not awaited. A failure of a task is logged at once, and raised by `wait_for_failure`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start a task; the log shows its name."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def wait_for_failure(self) -> NoReturn:
        """Wait for the first failure and raise it: for callers that cannot continue without the work."""
        await self._failed.wait()
        if self._failure is None:
            raise AssertionError("a failed task has an exception")
        raise self._failure

    async def wait_for_all(self) -> None:
        """Wait until all started tasks have ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancel all tasks and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await self.wait_for_all()

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (failure := task.exception()) is None:
            return
        _log.error("%s failed, internal error", task.get_name(), exc_info=failure)
        self._failure = self._failure or failure
        self._failed.set()
