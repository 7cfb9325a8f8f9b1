"""Who talks to the server: processes that die between any two writes, and come back without their memory.

What a dead process has sent may still arrive (`localplane.fault_injection`); what it would send no more does not.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dra.kube.errors import Unreachable
from dra.kube.transport import Request, Response, Transport
from localplane.fault_injection import FaultInjector, FaultyHandler
from localplane.server import RequestHandler, WatchResponse
from localplane.transport import LocalTransport

StartComponent: TypeAlias = Callable[[Transport], Awaitable[object]]


class ProcessConnection:
    """A `Handler` that is of no use any more once its process is dead."""

    def __init__(self, server: RequestHandler) -> None:
        self.closed = False
        self._server = server

    async def handle(self, request: Request) -> Response | WatchResponse:
        if self.closed:
            raise Unreachable(request.path, "the process is dead", outcome_unknown=False)
        return await self._server.handle(request)


class SimulatedProcess:
    """One component: each of its lives has its own connection."""

    def __init__(self, name: str, start: StartComponent, *, server: RequestHandler, faults: FaultInjector) -> None:
        self.name = name
        self.incarnations = 0
        self.failure: BaseException | None = None
        """Why it ended by itself, if it did."""
        self._start = start
        self._server = server
        self._faults = faults
        self._connection: ProcessConnection | None = None
        self._task: asyncio.Task[object] | None = None
        self._restart_timer: asyncio.TimerHandle | None = None

    @property
    def up(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        """Start, if it does not run."""
        if self._restart_timer is not None:
            self._restart_timer.cancel()
            self._restart_timer = None
        if self._task is not None:
            return
        self.incarnations += 1
        self._connection = ProcessConnection(FaultyHandler(self._server, self._faults, component=self.name))
        transport = LocalTransport(self._connection)

        async def live() -> object:
            return await self._start(transport)

        self._task = asyncio.get_running_loop().create_task(live(), name=self.name)
        self._task.add_done_callback(self._on_exit)

    def kill(self, *, down: float | None = None) -> bool:
        """End it in the middle of whatever it does; it comes back after ``down`` seconds. Tells whether it was there.

        Its tasks still run to their ends, and nobody hears of it.
        """
        task, self._task = self._task, None
        if task is None or self._connection is None:
            return False
        self._connection.closed = True
        task.cancel()
        if down is not None:
            self._restart_timer = asyncio.get_running_loop().call_later(down, self.start)
        return True

    def _on_exit(self, task: asyncio.Task[object]) -> None:
        """Take note of a process that ends by itself; whoever runs it starts it anew a little later."""
        if self._task is not task:
            if not task.cancelled():
                task.exception()  # of the dead nothing is of interest
            return
        self._task = None
        if self._connection is not None:
            self._connection.closed = True
        self.failure = None if task.cancelled() else task.exception()
        self._restart_timer = asyncio.get_running_loop().call_later(1.0, self.start)
