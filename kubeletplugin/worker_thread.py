"""A worker thread for one caller: handing work over takes half the time that `asyncio.to_thread` takes.

``asyncio.to_thread`` makes a future for threads and a future for the event loop, and has each follow the other. A call
of the kubelet waits for files once, and its other work takes a few hundred microseconds.
"""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Work(NamedTuple):
    do: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class WorkerThread:
    """A thread that does one piece of work after the other; starts with the first piece, and ends with the object."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread: Thread | None = None
        weakref.finalize(self, self._queue.put, None)

    async def run(self, do: Callable[[], T]) -> T:
        """Return what `do` returns in the thread, or raise what it raises; a cancellation does not stop the work.

        Raises RuntimeError if the thread cannot be started.
        """
        if self._thread is None:
            thread = Thread(target=_do_all, args=(self._queue,), name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._queue.put(_Work(do, loop, done))
        return await done


def _do_all(queue: "SimpleQueue[_Work | None]") -> None:
    while (work := queue.get()) is not None:
        settle: Callable[[], None]
        try:
            settle = partial(work.done.set_result, work.do())
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            settle = partial(work.done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            work.loop.call_soon_threadsafe(_settle, work.done, settle)
        del work, settle  # or they would live until the next piece of work


def _settle(done: asyncio.Future[Any], settle: Callable[[], None]) -> None:
    if not done.cancelled():
        settle()
