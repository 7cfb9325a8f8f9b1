"""The cluster of one history: an API server, the processes on it, and users."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from controller.application import Application
from dra.api.colocation import node_metric_crd
from dra.api.colocation.slo_configuration import OFF, read_slo_configuration
from dra.api.colocation.strategies import ThresholdStrategy
from dra.api.colocation.well_known import CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE, KEY_COLOCATION, KEY_THRESHOLD
from dra.api.configuration import ControllerConfiguration
from dra.engine.reservations.placeholders import KOORD_SCHEDULER
from dra.kube.resources import CONFIG_MAPS, NODES
from dra.kube.transport import Transport
from dra.model import quantities
from localplane.objects import Object
from localplane.scheduler.scheduler import Scheduler
from localplane.store import WatchCacheEvent, WatchEventType
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.colocation.agents import HONEST, Agents, Way
from tests.simulation.colocation.initial_state import InitialState
from tests.simulation.colocation.kernel import Kernel
from tests.simulation.colocation.kubelets import SimulatedKubelets
from tests.simulation.colocation.safety import ColocationSafetyChecker
from tests.simulation.colocation.suppression import SuppressedNode, Suppressors, run_kernels
from tests.simulation.processes import SimulatedProcess
from tests.simulation.simulated_plane import DEFINITIONS, SimulatedPlane
from tests.simulation.virtual_loop import VirtualLoop

SUPPRESSORS: Final = "suppressors"
USERS: Final = "ml"


def _configuration(*, colocation: bool) -> ControllerConfiguration:
    return ControllerConfiguration.model_validate(
        {
            "mode": "alongside",
            "colocation": colocation,
            "probes": None,
            "metrics": None,
            "leaderElection": {"enabled": False, "namespace": "kube-system"},
        }
    )


class ColocatedCluster(SimulatedPlane):
    """One run."""

    safety: ColocationSafetyChecker

    def __init__(self, loop: VirtualLoop, initial_state: InitialState, *, seed: int) -> None:
        super().__init__(loop, seed=seed)
        self.initial_state = initial_state
        self.safety = ColocationSafetyChecker(self)
        self.safety.note_strategy(initial_state.strategy)
        self.ways = {node.name: Way.TRUTH for node in initial_state.nodes}
        """Node → how its agent reports."""
        self.measured: dict[str, list[tuple[float, Any]]] = {}
        """Node → the last measurements and their times."""
        self.pods: dict[str, Object] = {}
        """All pods, by uid."""
        self.suppressed = {
            node.name: SuppressedNode(node=node, kernel=Kernel(cpus=node.cpus)) for node in initial_state.nodes
        }
        """The kernels of the nodes, and what the agents know."""
        self.configuration = OFF
        """The ConfigMap, each key in its last good content."""
        self.admitted: dict[str, set[str]] = {node.name: set() for node in initial_state.nodes}
        """Node → uids of the pods that its kubelet has admitted."""
        self.busy_until = 0.0
        """Time at which the last operation has ended."""
        self.older = False
        """Whether the next controller is of a build that knows nothing of colocation."""
        starts: dict[str, Callable[[Transport], Any]] = {
            "scheduler": self._scheduler,
            "nodes": self._kubelets,
            "agents": self._agents,
            SUPPRESSORS: self._suppressors,
            "controller": self._controller,
            "controller-2": self._controller,
        }
        self.processes = {
            name: SimulatedProcess(name, start, server=self._connection(name), faults=self.faults)
            for name, start in starts.items()
        }

    async def start(self) -> None:
        """Create the initial objects and start all processes but the second controller."""
        await self.create_at(DEFINITIONS, node_metric_crd.custom_resource_definition())
        for namespace in (CONFIG_MAP_NAMESPACE, USERS):
            await self.create_at("/api/v1/namespaces", {"metadata": {"name": namespace}})
        await self.create(
            CONFIG_MAPS, CONFIG_MAP_NAMESPACE, config_map(self.initial_state.strategy, self.initial_state.threshold)
        )
        for name, process in self.processes.items():
            if name != "controller-2":
                process.start()
        self._kernels = asyncio.ensure_future(run_kernels(self))

    # Processes

    async def _controller(self, transport: Transport) -> None:
        lives = sum(process.incarnations for process in self.processes.values())
        configuration = _configuration(colocation=not self.older)
        await Application(configuration, transport, clock=self.clock, identity=f"controller_{lives}").run()

    async def _scheduler(self, transport: Transport) -> None:
        client = self._client(transport)
        await Scheduler(client, clock=self.clock, random=self._random, profiles=(KOORD_SCHEDULER,)).run()

    async def _agents(self, transport: Transport) -> None:
        await Agents(self, self._client(transport)).run()

    async def _suppressors(self, transport: Transport) -> None:  # noqa: ARG002 - they need no API server here
        await Suppressors(self).run()

    async def _kubelets(self, transport: Transport) -> None:
        await SimulatedKubelets(self, self._client(transport)).run()

    def restart_kubelet(self, name: str) -> None:
        """Let a kubelet forget which pods it has admitted, and check that it will admit them again."""
        node = self.find(NODES, "", name)
        if node is not None:
            try:
                self.safety.check_restart(name, node)
            except Violation as violation:
                self.failed(violation)
        self.admitted[name].clear()

    def disturb(self, seconds: float) -> None:
        """Take note that the controller does not act for some seconds."""
        self.safety.faults_until = max(self.safety.faults_until, self.clock.now() + seconds)

    def later(self, seconds: float, act: Callable[[], Any]) -> None:
        self.busy_until = max(self.busy_until, self.clock.now() + seconds)
        super().later(seconds, act)

    # Configuration and measurements

    @property
    def suppression(self) -> ThresholdStrategy:
        """The strategy by which all nodes hold batch pods back."""
        return self.configuration.threshold_strategy({})

    def observe_config_map(self, event: WatchCacheEvent) -> None:
        """Take in the ConfigMap as the agents of the nodes do."""
        data = msgspec.json.decode(event.object.raw).get("data")
        deleted = event.type is WatchEventType.DELETED
        self.configuration = OFF if deleted else read_slo_configuration(data, last=self.configuration)

    def believable(self, metric: Object) -> float | None:
        """Return the time of a measurement that says something that can be; None for any other.

        A measurement from the future is as old as the write of it.
        """
        status = metric.get("status") or {}
        system = ((status.get("nodeMetric") or {}).get("systemUsage") or {}).get("resources") or {}
        try:
            amounts = [quantities.parse(str(system[name])) for name in ("cpu", "memory")]
            measured = datetime.fromisoformat(status["updateTime"])
        except (KeyError, ValueError):
            return None
        if min(amounts) < 0:
            return None
        age = (self.clock.wall() - measured).total_seconds()
        return self.clock.now() - max(age, 0.0)

    def is_honest(self, node: str) -> bool:
        """Return whether a node's agent tells the truth now."""
        return self.ways[node] in HONEST


def config_map(strategy: Any, threshold: Any, *, text: str | None = None) -> Object:
    """Return the ConfigMap with both strategies, or with a text that is none."""
    data = {
        KEY_COLOCATION: msgspec.json.encode(strategy).decode() if text is None else text,
        KEY_THRESHOLD: msgspec.json.encode({"clusterStrategy": threshold}).decode() if text is None else text,
    }
    return {"metadata": {"name": CONFIG_MAP_NAME}, "data": data}
