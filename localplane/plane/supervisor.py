"""Supervises the components: restarts a component that crashes on request, stops the plane if a component dies.

A crash acts like a power cut: the task of the component ends wherever it is, and a new instance starts with only the
state of the API server. A component that fails by itself has a bug; a plane without the component would be misleading.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeAlias

RESTART_DELAY: Final = 1.0
"""Seconds from a crash until the component is restarted."""

ComponentStarter: TypeAlias = Callable[[], Awaitable[None]]
"""Function that creates an instance of a component and runs the instance until cancelled."""

_log: Final = logging.getLogger(__name__)


class ComponentDiedError(RuntimeError):
    """The error of a component that ended without a request to crash."""

    def __init__(self, name: str, cause: BaseException | None) -> None:
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        why = "it returned" if cause is None else f"{type(cause).__name__}: {cause}"
        super().__init__(f"{name} failed ({why}), so the plane stops; the log has the traceback")
        self.name = name


class Supervisor:
    """Runs and restarts components by name."""

    def __init__(self) -> None:
        self.crashes: Counter[str] = Counter()
        """Number of requested crashes of each component."""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._crashed: set[str] = set()

    @property
    def running(self) -> tuple[str, ...]:
        """Return the names of the running components."""
        return tuple(self._running)

    def crash(self, name: str) -> bool:
        """Cancel a component; return whether a component of that name was running."""
        task = self._running.get(name)
        if task is None or name in self._crashed:
            return False
        self._crashed.add(name)
        self.crashes[name] += 1
        task.cancel()
        return True

    async def supervise(self, name: str, start: ComponentStarter) -> NoReturn:
        """Run a component until cancelled, restarting after crashes; raises ComponentDiedError."""
        while True:
            failure = await self._run_once(name, start)
            if name not in self._crashed:
                _log.error("%s failed", name, exc_info=failure)
                raise ComponentDiedError(name, failure) from failure
            self._crashed.discard(name)
            _log.warning("%s crashed as requested; it is started again in %g s", name, RESTART_DELAY, exc_info=failure)
            await asyncio.sleep(RESTART_DELAY)

    async def _run_once(self, name: str, start: ComponentStarter) -> BaseException | None:
        """Run a component once; return the exception that ended the component, None if cancelled."""
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
