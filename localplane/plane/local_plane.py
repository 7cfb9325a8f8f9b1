"""Runs the local plane: one API server, its components, and fault injection between both.

Every component has its own handler in front of the server, so that each can be disconnected alone. So have clients over
HTTP, which are distinguished by the first word of their User-Agent (``kubectl``, ``dra-reserve``).
"""

import asyncio
from collections.abc import Collection
from random import Random

from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Request, Response
from localplane import controller_manager, nodes, scheduler, snapshots
from localplane.fault_injection import FaultInjector, FaultyHandler
from localplane.objects import decode
from localplane.plane import components
from localplane.plane.admin import ADMIN_PATH, AdminHandler
from localplane.plane.components import fork_random
from localplane.plane.options import PlaneOptions
from localplane.plane.supervisor import ComponentStarter, Supervisor
from localplane.scheduler.scheduler_extender import Extender
from localplane.server import ApiServer, WatchResponse
from localplane.transport import LocalTransport

UNLIMITED_QPS = 1e6
"""Requests per second of a client: components in the same process need no rate limit."""


class LocalPlane:
    """The local plane: a cluster without containers, in one process."""

    def __init__(self, options: PlaneOptions, *, clock: Clock = SYSTEM, random: Random | None = None) -> None:
        random = random or Random()  # noqa: S311 - names, uids and timing; tokens are made elsewhere
        self.options = options
        self.clock = clock
        self.server = ApiServer(api=options.api, release=options.release, clock=clock, random=fork_random(random))
        self.faults = FaultInjector(clock=clock, random=fork_random(random))
        self.supervisor = Supervisor()
        self.faults.crash_component = self.supervisor.crash
        self.faults.current_revision = lambda: self.server.store.revision
        self._random = random
        self._handlers: dict[str, FaultyHandler] = {}
        self._extension = components.SchedulerExtension()
        self._components = dict(
            components.component_starters(
                options, client=self.client, clock=clock, random=random, extension=self._extension
            )
        )
        self.sibling_processes: dict[str, int] = {}
        """Processes that the caller runs beside the plane: pids by name."""

        admin = AdminHandler(
            options=options,
            server=self.server,
            faults=self.faults,
            supervisor=self.supervisor,
            sibling_processes=self.sibling_processes,
        )
        self.server.non_resource_handlers[ADMIN_PATH] = admin.handle
        self.server.not_enforced += (f"scheduler: {feature}" for feature in scheduler.NOT_ENFORCED)
        self.server.not_enforced += nodes.not_enforced(processes=options.processes, plugins=options.plugins is not None)
        self.server.not_enforced += controller_manager.NOT_ENFORCED

    def add_component(self, name: str, start: ComponentStarter) -> None:
        """Add a component; call this before the plane runs."""
        self._components[name] = start

    def remove_component(self, name: str) -> None:
        """Remove a component that the caller replaces; call this before the plane runs."""
        del self._components[name]

    def use_extender(self, extender: Extender, *, profiles: Collection[str] = ()) -> None:
        """Set the scheduler's extender and additional scheduler names; call this before the plane runs."""
        self._extension.extender, self._extension.profiles = extender, profiles

    def handler_for(self, component: str) -> FaultyHandler:
        """Return the handler in front of the server for a client."""
        handler = self._handlers.get(component)
        if handler is None:
            handler = self._handlers[component] = FaultyHandler(self.server, self.faults, component=component)
        return handler

    def client(self, component: str) -> Client:
        """Return a client of the server for a component."""
        limiter = RateLimiter(UNLIMITED_QPS, int(UNLIMITED_QPS), clock=self.clock)
        return Client(LocalTransport(self.handler_for(component)), limiter, clock=self.clock)

    async def handle(self, request: Request) -> Response | WatchResponse:
        """Answer a request that arrived over HTTP."""
        return await self.handler_for(request.agent.partition("/")[0]).handle(request)

    def snapshot(self) -> bytes:
        """Return the state as a snapshot."""
        return snapshots.dump(self.server.store, api=self.options.api.value)

    def restore(self, raw: bytes) -> snapshots.SnapshotHeader:
        """Replace the state by a snapshot; raises MalformedSnapshotError."""
        return snapshots.load(raw, self.server.store)

    async def wait_ready(self) -> None:
        """Wait until all nodes are ready."""
        if components.KUBELETS not in self._components:
            return
        while self._ready_nodes() < self.options.nodes:
            await self.server.store.wait_for_change("nodes", self.server.store.revision)

    def _ready_nodes(self) -> int:
        nodes = (decode(stored.raw) for stored in self.server.store.snapshot("nodes"))
        conditions = (node.get("status", {}).get("conditions") or () for node in nodes)
        return sum(any(c["type"] == "Ready" and c["status"] == "True" for c in of_node) for of_node in conditions)

    async def run(self) -> None:
        """Run all components until cancelled; raises ComponentDiedError."""
        try:
            async with asyncio.TaskGroup() as group:
                for name, start in self._components.items():
                    group.create_task(self.supervisor.supervise(name, start), name=f"keep {name}")
                group.create_task(_wait_forever(), name="plane")
        finally:
            for handler in self._handlers.values():
                await handler.close()


async def _wait_forever() -> None:
    await asyncio.get_running_loop().create_future()
