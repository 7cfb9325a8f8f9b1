"""An agent on a recorded machine, with a clock that a test moves, and an API server in the same process."""

import asyncio
import contextlib
from datetime import timedelta

from prometheus_client import CollectorRegistry

from dra.api.colocation.node_metric_crd import custom_resource_definition
from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import MERGE_PATCH
from kubeletplugin.colocation.metrics import ColocationMetrics
from kubeletplugin.colocation.node_agent import AgentContext, ColocationOptions, NodeAgent
from kubeletplugin.node_events import NodeEventRecorder
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import NOON, seeded
from tests.kubeletplugin.cgroups import recorded
from tests.kubeletplugin.cgroups.recorded import PodUse, add_pod, set_use, write_proc
from tests.kubeletplugin.node import until_async
from tests.localplane.components import User

NODE = "n1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
CONFIG_MAP = "/api/v1/namespaces/koordinator-system/configmaps/slo-controller-config"


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.seconds = 1000.0

    def now(self):
        return self.seconds

    def wall(self):
        return NOON + timedelta(seconds=self.seconds)


class Machine:
    """A recorded machine whose pods have used CPUs at even rates since its start."""

    def __init__(self, root, *, make=recorded.v1, layout="cgroupfs"):
        self.cgroups, self.proc = make(root / "cgroup"), root / "proc"
        self._path, self._container = recorded.LAYOUTS[layout]
        self._pods = {}
        self._kubepods = self._path("", "x").rpartition("/")[0]
        self.node_milli = 0
        self.run(0.0)

    def add(self, uid, *, milli, qos="burstable", container=True):
        path = self._path(qos, uid)
        self._pods[path] = milli
        add_pod(self.cgroups, path, container=self._container if container else "")

    def run(self, seconds):
        """Let all counters be those of so many seconds after the start."""
        write_proc(self.proc, busy_ticks=round(self.node_milli * seconds / 10))
        for path, milli in self._pods.items():
            set_use(self.cgroups, path, PodUse(cpu_nanos=round(milli * seconds * 1e6)))
        if self._pods:
            total = sum(self._pods.values())
            set_use(self.cgroups, self._kubepods, PodUse(cpu_nanos=round(total * seconds * 1e6)))


class Place:
    """A node with its machine, its API objects and its agent."""

    def __init__(self, root, *parts, transport=LocalTransport, **machine):
        self.machine = Machine(root, **machine)
        self.clock = ManualClock()
        self.user = User(ApiServer(clock=SYSTEM, random=seeded(1)))
        self.transport = transport(self.user.server)
        client = Client(self.transport, RateLimiter(1e6, 1e6))
        self.metrics = ColocationMetrics(CollectorRegistry())
        context = AgentContext(
            node=NODE,
            options=ColocationOptions(
                cgroup_root=self.machine.cgroups, proc=self.machine.proc, resctrl=root / "resctrl", marks=root / "marks"
            ),
            drivers=(),
            events=NodeEventRecorder(client, node=NODE),
            metrics=self.metrics,
        )
        self.agent = NodeAgent(client, parts, context, clock=self.clock, random=seeded(1))

    async def define(self):
        await self.user.request("POST", DEFINITIONS, body=custom_resource_definition(), content_type="application/json")

    async def configure(self, data):
        """Write the ConfigMap."""
        body = {"metadata": {"name": "slo-controller-config"}, "data": data}
        try:
            await self.user.request("PATCH", CONFIG_MAP, body={"data": data}, content_type=MERGE_PATCH)
        except AssertionError:
            await self.user.create("namespaces", {"metadata": {"name": "koordinator-system"}})
            await self.user.create("configmaps", body, namespace="koordinator-system")

    async def create_node_metric(self, name=NODE, **policy):
        kind = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
        body = {**kind, "metadata": {"name": name}, "spec": {"metricCollectPolicy": policy}}
        return await self.user.request("POST", NODE_METRICS, body=body, content_type="application/json")

    async def node_metric(self, name=NODE):
        return await self.user.request("GET", f"{NODE_METRICS}/{name}")

    async def create_pod(self, name, *, qos="", node=NODE, annotations=None, phase="Running"):
        labels = {"koordinator.sh/qosClass": qos} if qos else {}
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        made = await self.user.create("pods", {"metadata": metadata, "spec": spec})
        await self.user.patch("pods", name, {"status": {"phase": phase}}, subresource="status")
        return made["metadata"]["uid"]

    async def seen(self, condition):
        """Wait until the agent's informers show something."""

        async def ask():
            return condition(self.agent._informers)

        await until_async(ask)

    async def steps(self, seconds):
        """Let the agent step each second."""
        for _ in range(seconds):
            self.clock.seconds += 1.0
            self.machine.run(self.clock.seconds - 1000.0)
            state = await self.agent.step()
        return state


@contextlib.asynccontextmanager
async def watching(place):
    """The informers of an agent, without its own steps."""
    task = asyncio.create_task(place.agent._informers.group.run())
    try:
        informers = place.agent._informers
        for informer in (informers.pods, informers.node, informers.config_maps):
            await informer.wait_for_sync()
        yield place
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
