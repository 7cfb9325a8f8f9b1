"""The handle that users' evictors and controllers get to work with, and the runner of their controllers."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Final, NoReturn, cast

from controller.runtime import ProcessMetrics, Runtime
from dra.engine.descheduling.cache import DeschedulingCache
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.shared_informers import SharedInformers

RESTART: Final = (1.0, 300.0)
"""Seconds, minimum and maximum, before a controller that has ended or failed is run again."""

CANCEL_SECONDS: Final = 2.0
"""Seconds that a user's coroutine has for its end once it is cancelled."""

_log: Final = logging.getLogger(__name__)


class PluginHandle:
    """The process as users' evictors and controllers see it: they act with the rights of its account."""

    def __init__(
        self, runtime: Runtime[ProcessMetrics], *, cache: DeschedulingCache, informers: SharedInformers
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._informers = informers

    @property
    def client(self) -> Client:
        """Return the client of the process, whose rate of requests is limited."""
        return self._runtime.client

    def write_timeout(self) -> float:
        """Return how long a write that begins now may take, in seconds: it must end before the lease can expire."""
        return self._runtime.write_timeout()

    def request_round(self, cause: str) -> None:
        """Have a round begin at once, some seconds after the last one at the earliest."""
        self._cache.request_round(cause)
        self._informers.notify()


async def call_plugin(
    name: str, call: Coroutine[Any, Any, object], *, within: float | None = None
) -> BaseException | None:
    """Return what a user's coroutine raised, None if it returned; it has ended when this function returns.

    One that takes longer than ``within`` seconds is cancelled, and the result is a TimeoutError. One that ignores its
    cancellation, as every stop of the process is, would keep the process from giving its lease back: it is closed.
    """
    task = asyncio.create_task(_failure_of(call), name=name)
    in_time: set[asyncio.Task[BaseException | None]] = set()
    try:
        in_time, _ = await asyncio.wait({task}, timeout=within)
    finally:
        await _end(task)
    return task.result() if in_time else TimeoutError(f"takes longer than {within:g} s")


async def _failure_of(call: Coroutine[Any, Any, object]) -> BaseException | None:
    """Return what a user's coroutine raised, None if it returned.

    SystemExit would end the process, and CancelledError the task of the caller without a word. Only the cancellation of
    this task is raised.
    """
    try:
        await call
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        return error
    return None


async def _end(task: asyncio.Task[BaseException | None]) -> None:
    """End the task of a user's coroutine: cancel it, and close the coroutine if it goes on all the same."""
    for close in (False, True):
        if task.done():
            return
        if close:
            _log.error("%s: ignores its cancellation, and is closed", task.get_name())
            with contextlib.suppress(RuntimeError):  # it ignores this, too
                cast("Coroutine[Any, Any, object]", task.get_coro()).close()
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_SECONDS)
    if task.done() and not task.cancelled():
        task.exception()  # of a coroutine that was closed: nobody else looks


async def run_controllers(controllers: Mapping[str, Any], handle: PluginHandle) -> None:
    """Run users' controllers until cancelled; one that ends or fails is run again, later and later."""
    async with asyncio.TaskGroup() as group:
        for name, controller in controllers.items():
            group.create_task(_run_again_and_again(name, controller, handle), name=f"plugin {name}")


async def _run_again_and_again(name: str, controller: Any, handle: PluginHandle) -> NoReturn:  # noqa: ANN401 - a user's
    backoff = Backoff(*RESTART)
    while True:
        error = await call_plugin(f"plugin {name}", controller.run(handle))
        verb = "has ended" if error is None else "failed"
        _log.warning("plugin %s: its controller %s, and is run again", name, verb, exc_info=error)
        await asyncio.sleep(backoff.next())
