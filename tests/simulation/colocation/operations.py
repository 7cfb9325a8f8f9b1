"""The operations of a history: values that say when something happens, each complete in itself.

So a history without some of its operations is a history, too: nothing is drawn while it runs.
"""

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from dra.api.colocation.well_known import CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE
from dra.engine.reservations.placeholders import KOORD_SCHEDULER
from dra.kube.resources import CONFIG_MAPS, NODE_METRICS, NODES, PODS
from localplane.fault_injection import FaultRule
from localplane.objects import Object
from tests.simulation.colocation import nodes
from tests.simulation.colocation.agents import Way
from tests.simulation.colocation.cluster import SUPPRESSORS, USERS, config_map
from tests.simulation.colocation.nodes import BATCH, BATCH_CPU, BATCH_MEMORY, QOS, USAGE

if TYPE_CHECKING:
    from tests.simulation.colocation.cluster import ColocatedCluster

FOREVER: Final = float("inf")


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """An operation at some second."""

    at: float

    @property
    def kind(self) -> str:
        """The name under which the operation is counted."""
        return " ".join(filter(None, (type(self).__name__, getattr(self, "how", ""))))

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        """Perform the operation; return whether it had an effect."""
        raise NotImplementedError

    def __str__(self) -> str:
        fields = ((f.name, getattr(self, f.name), f.default) for f in msgspec.structs.fields(self) if f.name != "at")
        text = ", ".join(f"{name}={value!r}" for name, value, default in fields if value != default)
        return f"{self.at:7.2f}  {type(self).__name__}({text})"


class CreatePod(Operation):
    """Create a pod; a batch pod requests batch resources."""

    name: str
    qos: Literal["BE", "LS", "LSE", ""]
    cpu: int
    """Milli-CPUs that the pod requests."""
    memory: int
    used: tuple[int, int]
    """Milli-CPUs and bytes that the pod uses while it runs."""
    node: str = ""
    """Node to which the pod is bound by its author, without any scheduler; empty: a scheduler chooses."""
    grace: int = 5

    @property
    def kind(self) -> str:
        return f"CreatePod {'batch' if self.qos == 'BE' else 'other'}{' without scheduler' if self.node else ''}"

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        if self.qos == "BE":
            requests = {BATCH_CPU: str(self.cpu), BATCH_MEMORY: str(self.memory)}
        else:
            requests = {"cpu": f"{self.cpu}m", "memory": str(self.memory)}
        resources = {"requests": requests, **({"limits": requests} if self.qos == "BE" else {})}
        spec: dict[str, Any] = {
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            "schedulerName": KOORD_SCHEDULER,
            "terminationGracePeriodSeconds": self.grace,
        }
        if self.node:
            spec["nodeName"] = self.node
        metadata = {
            "name": self.name,
            "labels": {QOS: self.qos} if self.qos else {},
            "annotations": {USAGE: f"{self.used[0]},{self.used[1]}"},
        }
        return await cluster.create(PODS, USERS, {"metadata": metadata, "spec": spec})


class DeletePod(Operation):
    """Delete a pod."""

    name: str
    how: Literal["deleted", "forced"]

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        if cluster.find(PODS, USERS, self.name) is None:
            return False
        return await cluster.delete(PODS, USERS, self.name, grace=0 if self.how == "forced" else None)


class Report(Operation):
    """Change how the agent of a node reports, for some seconds."""

    node: str
    how: Way
    seconds: float

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        cluster.ways[self.node] = self.how

        async def end() -> None:
            cluster.ways[self.node] = Way.TRUTH

        cluster.later(self.seconds, end)
        return True


class DeleteNodeMetric(Operation):
    """Delete the NodeMetric of a node."""

    node: str

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        return await cluster.delete(NODE_METRICS, "", self.node)


class Configure(Operation):
    """Change the ConfigMap."""

    how: Literal["changed", "off", "malformed", "invalid", "unknown", "deleted"]
    strategy: dict[str, Any]
    """The strategy, or that of a later repair."""
    threshold: dict[str, Any]
    """The strategy of suppression."""
    repaired_after: float = 60.0

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        broken = self.how not in {"changed", "unknown"}
        match self.how:
            case "changed":
                text = None
            case "unknown":
                text = msgspec.json.encode(self.strategy | {"cpuReclaimThresholdPercnt": 5}).decode()
            case "off":
                text = msgspec.json.encode(self.strategy | {"enable": False}).decode()
            case "malformed":
                text = '{"enable": true, "cpuReclaimThresholdPercent": '
            case "invalid":
                text = msgspec.json.encode(self.strategy | {"cpuReclaimThresholdPercent": -5}).decode()
            case "deleted":
                text = ""
        cluster.safety.note_strategy(self.strategy)
        if self.how == "deleted":
            done = await cluster.delete(CONFIG_MAPS, CONFIG_MAP_NAMESPACE, CONFIG_MAP_NAME)
        else:
            done = await put_config(cluster, config_map(self.strategy, self.threshold, text=text))
        if broken:
            cluster.later(self.repaired_after, lambda: put_config(cluster, config_map(self.strategy, self.threshold)))
        return done


async def put_config(cluster: "ColocatedCluster", body: Object) -> bool:
    """Create or replace the ConfigMap."""
    if await cluster.create(CONFIG_MAPS, CONFIG_MAP_NAMESPACE, body):
        return True
    return await cluster.patch(CONFIG_MAPS, CONFIG_MAP_NAMESPACE, CONFIG_MAP_NAME, {"data": body["data"]})


class ChangeLoad(Operation):
    """Let pods that are no batch pods use more or less for some seconds."""

    node: str
    factor: float
    seconds: float

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        node = cluster.suppressed[self.node]
        node.load = self.factor

        async def end() -> None:
            node.load = 1.0

        cluster.later(self.seconds, end)
        return True


class LoseSamples(Operation):
    """Take the samples of a node from its agent for some seconds."""

    node: str
    seconds: float

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        node = cluster.suppressed[self.node]
        node.blind_since = cluster.clock.now()

        async def end() -> None:
            node.blind_since = None

        cluster.later(self.seconds, end)
        return True


class ResetQuota(Operation):
    """Write the quota of the class as somebody else would: a daemon-reload, a kubelet, an administrator."""

    node: str
    how: Literal["unlimited", "halved", "least"]

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        kernel = cluster.suppressed[self.node].kernel
        cluster.suppressed[self.node].recent.clear()
        match self.how:
            case "unlimited":
                kernel.quota = None
            case "halved":
                kernel.quota = None if kernel.quota is None else max(kernel.quota // 2, 1000)
            case "least":
                kernel.quota = 1000
        return True


class RestartKubelet(Operation):
    """Restart the kubelet of a node; some write the Node's batch resources, or register a new Node."""

    node: str
    how: Literal["keeping", "zeroing", "dropping", "anew"]

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        found = cluster.find(NODES, "", self.node)
        if found is None:
            return False
        cluster.restart_kubelet(self.node)
        match self.how:
            case "zeroing":
                amounts: dict[str, Any] = dict.fromkeys(BATCH, "0")
            case "dropping":
                amounts = dict.fromkeys(BATCH)
            case "keeping":
                return True
            case "anew":
                return await _register_anew(cluster, found)
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        return await cluster.patch(NODES, "", self.node, status, "status")


async def _register_anew(cluster: "ColocatedCluster", found: Object) -> bool:
    """Delete a Node, and create it with another uid; the garbage collector deletes what the old one owned."""
    name = found["metadata"]["name"]
    await cluster.delete(NODES, "", name)
    status = found["status"]
    for part in ("capacity", "allocatable"):
        status[part] = {key: amount for key, amount in status[part].items() if key not in BATCH}
    metadata = {"name": name, "labels": found["metadata"].get("labels") or {}}
    done = await cluster.create(NODES, "", {"metadata": metadata, "spec": {}})
    cluster.admitted[name].clear()
    await cluster.patch(NODES, "", name, {"spec": {"taints": None}})
    await cluster.patch(NODES, "", name, {"status": status}, "status")

    async def collect() -> None:
        metric = cluster.find(NODE_METRICS, "", name)
        alive = {node["metadata"]["uid"] for node in nodes.all_nodes(cluster).values()}
        owners = [each["uid"] for each in (metric or {"metadata": {}})["metadata"].get("ownerReferences") or ()]
        if owners and not alive & set(owners):
            await cluster.delete(NODE_METRICS, "", name)

    for seconds in (5.0, 40.0):
        cluster.later(seconds, collect)
    return done


class KillProcess(Operation):
    """End a process between two instructions."""

    component: str
    down: float

    @property
    def kind(self) -> str:
        return f"KillProcess {self.component}"

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        if self.component == SUPPRESSORS:
            for node in cluster.suppressed.values():
                node.recent.clear()
        if self.component == "controller":
            cluster.disturb(self.down)
        return cluster.kill(self.component, down=self.down)


class RunOlderBuild(Operation):
    """Let a build without colocation lead for some seconds."""

    seconds: float

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        cluster.older = True
        cluster.disturb(self.seconds + 2)
        cluster.kill("controller", down=1.0)

        async def update() -> None:
            cluster.older = False
            cluster.kill("controller", down=1.0)

        cluster.later(self.seconds, update)
        return True


class RunTwoControllers(Operation):
    """Let a second controller act beside the first for some seconds, as after a lease that was lost unnoticed."""

    seconds: float

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        second = cluster.processes["controller-2"]
        second.start()

        async def end() -> None:
            second.kill()

        cluster.later(self.seconds, end)
        return True


class InjectFaults(Operation):
    """Replace the rules by which requests and watches fail."""

    rules: tuple[FaultRule, ...] = ()

    async def apply(self, cluster: "ColocatedCluster") -> bool:
        cluster.faults.set(self.rules)
        cluster.safety.faults_until = FOREVER if self.rules else cluster.clock.now()
        return bool(self.rules)
