"""Keeps the components running: one that crashes on request is started anew, one that dies takes the plane down.

A crash is what a power cut is to a process: its task ends wherever it is, and a new instance begins with nothing but
what the API server knows. A component that fails by itself has a bug, and a plane without it would only confuse.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeAlias

RESTART_DELAY: Final = 1.0
"""Seconds from a crash to the next start."""

ComponentStarter: TypeAlias = Callable[[], Awaitable[None]]
"""Makes a fresh instance of a component and runs it until it is cancelled."""

_log: Final = logging.getLogger(__name__)


class ComponentDiedError(RuntimeError):
    """A component ended, though nobody had asked it to."""

    def __init__(self, name: str, cause: BaseException | None) -> None:
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        why = "it returned" if cause is None else f"{type(cause).__name__}: {cause}"
        super().__init__(f"{name} has died ({why}), and the plane goes down with it; the log has the traceback")
        self.name = name


class Supervisor:
    """Runs components by name."""

    def __init__(self) -> None:
        self.crashes: Counter[str] = Counter()
        """How often each component was ended on request."""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._crashed: set[str] = set()

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the components that run right now."""
        return tuple(self._running)

    def crash(self, name: str) -> bool:
        """End a component where it is; returns whether there is one of that name that runs."""
        task = self._running.get(name)
        if task is None or name in self._crashed:
            return False
        self._crashed.add(name)
        self.crashes[name] += 1
        task.cancel()
        return True

    async def keep(self, name: str, start: ComponentStarter) -> NoReturn:
        """Run a component until cancelled; raises ComponentDiedError."""
        while True:
            failure = await self._once(name, start)
            if name not in self._crashed:
                _log.error("%s has died", name, exc_info=failure)
                raise ComponentDiedError(name, failure) from failure
            self._crashed.discard(name)
            _log.warning("%s has crashed; it is started again in %g s", name, RESTART_DELAY, exc_info=failure)
            await asyncio.sleep(RESTART_DELAY)

    async def _once(self, name: str, start: ComponentStarter) -> BaseException | None:
        """Run a component once; returns what ended it."""
        task = self._running[name] = asyncio.ensure_future(_await_component(start))
        task.set_name(name)
        try:
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            del self._running[name]
        return None if task.cancelled() else task.exception()


async def _await_component(start: ComponentStarter) -> None:
    await start()
