"""The cluster of one history: an API server, the processes on it, and users."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from controller.application import Application
from controller.migration.application import Descheduler
from dra.api.configuration import ControllerConfiguration
from dra.api.descheduler_configuration import DeschedulerConfiguration
from dra.api.migration import crd
from dra.cli.local.plane_extender import PlaneExtender
from dra.engine.reservations.placeholders import KOORD_SCHEDULER
from dra.kube.backoff import JITTER
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import TEMPLATES, Resource
from dra.kube.transport import JSON, MERGE_PATCH, Request, Response, Transport
from dra.model.scheduling import SchedulerPod
from localplane.controller_manager.manager import ControllerManager
from localplane.fault_injection import FaultInjector
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.objects import Object
from localplane.scheduler.scheduler import Scheduler
from localplane.scheduler.scheduler_extender import ExtenderRefusedError
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer, RequestHandler, WatchResponse
from localplane.store import ObjectKey, WatchCacheEvent
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.migrations.initial_state import TEMPLATE, InitialState
from tests.simulation.migrations.safety import MigrationSafetyChecker
from tests.simulation.processes import SimulatedProcess
from tests.simulation.virtual_loop import LoopClock, VirtualLoop
from tests.simulation.write_log import WriteLog

USER: Final = "user"
DESCHEDULER: Final = "descheduler"
RESTART_SECONDS: Final = 3.0
"""Seconds for which a process is down that a fault has ended."""

UNLIMITED: Final = 1e6
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONTROLLER: Final = ControllerConfiguration.model_validate(
    {
        "mode": "replace",
        "reservations": True,
        "probes": None,
        "metrics": None,
        "leaderElection": {"enabled": False, "namespace": "kube-system"},
    }
)


class _ActorConnection:
    """The API server with the author of each request; evictions are checked at the moment they are granted."""

    def __init__(self, cluster: "MigratingCluster", actor: str) -> None:
        self._cluster = cluster
        self._actor = actor

    async def handle(self, request: Request) -> Response | WatchResponse:
        self._cluster.actor = self._actor
        safety = self._cluster.safety
        before = safety.before_request(request, actor=self._actor)
        response = await self._cluster.server.handle(request)
        safety.after_request(request, response, actor=self._actor, before=before)
        return response


class _CurrentExtender:
    """The extender that the scheduler calls: the one of the extender's present process, if it runs."""

    def __init__(self) -> None:
        self.present: PlaneExtender | None = None

    @property
    def is_ready(self) -> bool:
        return self.present is not None and self.present.is_ready

    async def wait_ready(self) -> None:
        while not self.is_ready:  # noqa: ASYNC110 - virtual time, and no event tells of a process that starts
            await asyncio.sleep(0.1)

    def filter(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, str]:
        if self.present is None:
            return dict.fromkeys(nodes, "the extender does not run")
        return self.present.filter(pod, nodes)

    def prioritize(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, int]:
        return self.present.prioritize(pod, nodes) if self.present is not None else {}

    async def bind(self, pod: SchedulerPod, node: str, /) -> None:
        if self.present is None:
            raise ExtenderRefusedError("the extender does not run")
        await self.present.bind(pod, node)


class MigratingCluster:
    """One run."""

    def __init__(self, loop: VirtualLoop, initial_state: InitialState, *, seed: int) -> None:
        JITTER.seed(seed)
        self.initial_state = initial_state
        self.clock = LoopClock(loop)
        self.server = ApiServer(api=Dialect.STOCK, clock=self.clock, random=Random(seed))
        self.faults = FaultInjector(clock=self.clock, random=Random(seed + 1))
        self.faults.crash_component = self._crash
        self.faults.current_revision = lambda: self.server.store.revision
        self.write_log = WriteLog()
        self.actor = USER
        self.violation: Violation | None = None
        self.effects: Counter[str] = Counter()
        """Number of times that each kind of operation, or outcome of a migration, occurred."""
        self.configuration = DeschedulerConfiguration.model_validate(
            {
                "migration": initial_state.limits,
                "probes": None,
                "metrics": None,
                "leaderElection": {"enabled": False, "namespace": "kube-system"},
            }
        )
        self.safety = MigrationSafetyChecker(self)
        self._loop = loop
        self._random = Random(seed + 2)
        self._user = _ActorConnection(self, USER)
        self._extender = _CurrentExtender()
        self._watch_writes()
        starts: dict[str, Callable[[Transport], Any]] = {
            "scheduler": self._scheduler,
            "extender": self._run_extender,
            "nodes": self._nodes,
            "workloads": self._workloads,
            "controller": self._controller,
            DESCHEDULER: self._descheduler,
        }
        self.processes = {
            name: SimulatedProcess(name, start, server=_ActorConnection(self, name), faults=self.faults)
            for name, start in starts.items()
        }

    async def start(self) -> None:
        """Create the initial objects and start all processes."""
        await self.create_at(_DEFINITIONS, crd.custom_resource_definition())
        for namespace in self.initial_state.namespaces:
            await self.create_at("/api/v1/namespaces", {"metadata": {"name": namespace}})
            await self.create(TEMPLATES, namespace, _TEMPLATE)
        await self.create_at("/apis/resource.k8s.io/v1/deviceclasses", _CLASS)
        for process in self.processes.values():
            process.start()

    # Processes

    async def _controller(self, transport: Transport) -> None:
        identity = f"controller_{self.processes['controller'].incarnations}"
        await Application(_CONTROLLER, transport, clock=self.clock, identity=identity).run()

    async def _descheduler(self, transport: Transport) -> None:
        identity = f"descheduler_{self.processes[DESCHEDULER].incarnations}"
        first = self.processes[DESCHEDULER].incarnations == 1
        quiet = {"previous_writes_seconds": 0.0} if first else {}
        await Descheduler(self.configuration, transport, clock=self.clock, identity=identity, **quiet).run()

    async def _run_extender(self, transport: Transport) -> None:
        handler = _HandlerOf(transport)
        site = SimpleNamespace(
            clock=self.clock, handler_for=lambda _: handler, client=lambda _: self._client(transport)
        )
        found = PlaneExtender(site)  # type: ignore[arg-type]  # the three members that it uses of a plane
        found._runs = self.processes["extender"].incarnations - 1
        self._extender.present = found
        try:
            await found.run()
        finally:
            if self._extender.present is found:
                self._extender.present = None

    async def _scheduler(self, transport: Transport) -> None:
        await Scheduler(
            self._client(transport),
            clock=self.clock,
            random=self._random,
            profiles=(KOORD_SCHEDULER,),
            extender=self._extender,
        ).run()

    async def _workloads(self, transport: Transport) -> None:
        await ControllerManager(self._client(transport), clock=self.clock, random=self._random).run()

    async def _nodes(self, transport: Transport) -> None:
        await Kubelets(
            self._client(transport),
            nodes=[
                EmulatedNode(
                    name=name,
                    capacity={"cpu": str(cpu), "memory": "64Gi", "pods": "110"},
                    devices=self.initial_state.devices,
                    start_seconds=self.initial_state.start_seconds,
                )
                for name, cpu in self.initial_state.nodes
            ],
            clock=self.clock,
            random=self._random,
            api=Dialect.STOCK,
            leases=False,
        ).run()

    def _client(self, transport: Transport) -> Client:
        return Client(transport, RateLimiter(UNLIMITED, int(UNLIMITED), clock=self.clock), clock=self.clock)

    def kill(self, component: str, *, down: float) -> bool:
        """End a process between two instructions; the process starts again after `down` seconds."""
        killed = self.processes[component].kill(down=down)
        if killed:
            self.note(f"{component} ends, and starts again in {down:g} s")
        return killed

    def _crash(self, component: str) -> bool:
        return self.kill(component, down=RESTART_SECONDS)

    def later(self, seconds: float, act: Callable[[], Any]) -> None:
        """Perform an action after some seconds."""
        self._loop.call_later(seconds, lambda: self._loop.create_task(act()))

    def fault_counts(self) -> Counter[str]:
        """Return how often each kind of fault occurred."""
        return Counter({str(fault): count for fault, count in self.faults.counts.items()})

    def note(self, text: str) -> None:
        """Write a line into the history."""
        self.write_log.note(text, actor="simulation", at=self.clock.now())

    # Objects

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object as the API server has it."""
        found = self.server.store.get(ObjectKey(resource.label, namespace, name))
        return msgspec.json.decode(found.raw) if found is not None else None

    def all(self, resource: Resource) -> list[Object]:
        """Return all objects of a kind."""
        return [msgspec.json.decode(each.raw) for each in self.server.store.snapshot(resource.label)]

    async def create(self, resource: Resource, namespace: str, body: Object) -> bool:
        """Create an object as a user; a name that is taken keeps its object."""
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self.create_at(resource.path(namespace or None), typed)

    async def create_at(self, path: str, body: Object) -> bool:
        return await self._request("POST", path, body, accepted_errors=(404, 409))

    async def delete(self, resource: Resource, namespace: str, name: str, *, grace: int | None = None) -> bool:
        """Delete an object as a user."""
        options = {"gracePeriodSeconds": grace} if grace is not None else {}
        return await self._request("DELETE", resource.path(namespace or None, name), options, accepted_errors=(404,))

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: Object, subresource: str | None = None
    ) -> bool:
        """Patch an object as a user."""
        path = resource.path(namespace or None, name, subresource)
        return await self._request("PATCH", path, body, accepted_errors=(404, 409, 422))

    async def _request(self, method: str, path: str, body: Object, *, accepted_errors: tuple[int, ...] = ()) -> bool:
        kind = MERGE_PATCH if method == "PATCH" else JSON
        request = Request(method=method, path=path, body=msgspec.json.encode(body), content_type=kind, timeout=30.0)
        response = await self._user.handle(request)
        assert isinstance(response, Response)
        if response.status >= 300 and response.status not in accepted_errors:
            raise Violation(f"{method} {path}: {response.status} {response.body.decode()}")
        return response.status < 300

    # Every write is checked at the moment it is done.

    def _watch_writes(self) -> None:
        store = self.server.store
        remember = store._record_event

        def remember_and_check(collection: Any, event: WatchCacheEvent) -> None:
            remember(collection, event)
            self.write_log.record(event, actor=self.actor, at=self.clock.now())
            if self.violation is None:
                try:
                    self.safety.check_write(event, actor=self.actor)
                except Violation as violation:
                    self.failed(violation)

        store._record_event = remember_and_check

    def failed(self, violation: Violation) -> None:
        """End the run after this step: whatever follows a violation proves nothing."""
        if self.violation is None:
            self.violation = violation
            self._loop.stop()


class _HandlerOf:
    """The handler behind a transport, for components that make a transport of their own."""

    def __init__(self, transport: Transport) -> None:
        self._server: RequestHandler = transport._server  # type: ignore[attr-defined]

    async def handle(self, request: Request) -> Response | WatchResponse:
        return await self._server.handle(request)


_DRIVER: Final = "gpu.example.com"
_CLASS: Final[Object] = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{_DRIVER}'"}}]},
}
_TEMPLATE: Final[Object] = {
    "metadata": {"name": TEMPLATE},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
}
