"""The cluster of one history: an API server, the processes on it, and users."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from controller.application import Application
from controller.migration.application import Descheduler
from dra.api.configuration import ControllerConfiguration
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.migration import crd
from dra.cli.local.plane_extender import PlaneExtender
from dra.engine.reservations.placeholders import KOORD_SCHEDULER
from dra.kube.resources import TEMPLATES
from dra.kube.transport import Request, Response, Transport
from dra.model.scheduling import SchedulerPod
from localplane.controller_manager.manager import ControllerManager
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.objects import Object
from localplane.scheduler.scheduler import Scheduler
from localplane.scheduler.scheduler_extender import ExtenderRefusedError
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import RequestHandler, WatchResponse
from tests.simulation.migrations.initial_state import TEMPLATE, InitialState
from tests.simulation.migrations.safety import MigrationSafetyChecker
from tests.simulation.processes import SimulatedProcess
from tests.simulation.simulated_plane import DEFINITIONS, SimulatedPlane
from tests.simulation.virtual_loop import VirtualLoop

DESCHEDULER: Final = "descheduler"
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


class MigratingCluster(SimulatedPlane):
    """One run."""

    safety: MigrationSafetyChecker

    def __init__(self, loop: VirtualLoop, initial_state: InitialState, *, seed: int) -> None:
        super().__init__(loop, seed=seed)
        self.initial_state = initial_state
        self.configuration = DeschedulerProcessConfiguration.model_validate(
            {
                "migration": initial_state.limits,
                "probes": None,
                "metrics": None,
                "leaderElection": {"enabled": False, "namespace": "kube-system"},
            }
        )
        self.safety = MigrationSafetyChecker(self)
        self._extender = _CurrentExtender()
        starts: dict[str, Callable[[Transport], Any]] = {
            "scheduler": self._scheduler,
            "extender": self._run_extender,
            "nodes": self._nodes,
            "workloads": self._workloads,
            "controller": self._controller,
            DESCHEDULER: self._descheduler,
        }
        self.processes = {
            name: SimulatedProcess(name, start, server=self._connection(name), faults=self.faults)
            for name, start in starts.items()
        }

    async def start(self) -> None:
        """Create the initial objects and start all processes."""
        await self.create_at(DEFINITIONS, crd.custom_resource_definition())
        for namespace in self.initial_state.namespaces:
            await self.create_at("/api/v1/namespaces", {"metadata": {"name": namespace}})
            await self.create(TEMPLATES, namespace, _TEMPLATE)
        await self.create_at("/apis/resource.k8s.io/v1/deviceclasses", _CLASS)
        for process in self.processes.values():
            process.start()

    def _connection(self, actor: str) -> RequestHandler:
        return _ActorConnection(self, actor)

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
