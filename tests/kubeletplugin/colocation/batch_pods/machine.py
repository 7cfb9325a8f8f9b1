"""Machines with batch pods, as folders, and the state of the node that the agent makes of them."""

from prometheus_client import CollectorRegistry

from dra.api.colocation.strategies import QosStrategy, SuppressPolicy, ThresholdStrategy
from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.cpus.cpusets import NO_CPUS
from dra.engine.usage.samples import NodeSample, PodSample
from dra.model.koordinator_classes import PriorityClass, QosClass
from dra.model.meta import ObjectMeta, Uid
from dra.model.node_pods import AgentNode, AgentNodeStatus, NodeContainerStatus, NodePod, NodePodStatus
from dra.model.scheduling import Container, ResourceRequirements, SchedulerPodSpec
from kubeletplugin.cgroups.pod_cgroups import find_pod_hierarchies
from kubeletplugin.colocation.batch_pods.batch_pods import BatchPods
from kubeletplugin.colocation.batch_pods.metrics import BatchPodMetrics
from kubeletplugin.colocation.batch_pods.suppression_mark import SuppressionMark
from kubeletplugin.colocation.node_state import NodeState, PodOnNode
from kubeletplugin.colocation.strategy_reader import NodeStrategies
from tests.kubeletplugin.cgroups import recorded

ID = "0123abcd" * 8
V1_FILES = {
    "cpu": {"cpu.shares": "2", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "cpu.cfs_burst_us": "0"},
    "memory": {"memory.limit_in_bytes": "9223372036854771712", "memory.usage_in_bytes": "4096"},
}
V2_FILES = {
    "cpu.weight": "1",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "memory.max": "max",
    "memory.current": "4096",
}
ON = ThresholdStrategy(enable=True, cpu_suppress_policy=SuppressPolicy.CFS_QUOTA)
CPUSET = ThresholdStrategy(enable=True, cpu_suppress_policy=SuppressPolicy.CPUSET)
OFF = ThresholdStrategy()


class Events:
    """Events that were recorded: reasons, and the texts of the last ones."""

    def __init__(self):
        self.texts = {}
        self.reasons = []

    def record_warning(self, reason, text, *, action):
        assert action == "Limit"
        self.reasons.append(reason)
        self.texts[reason] = text


class Writer:
    """A writer of cpusets."""

    def __init__(self, candidates):
        self.candidates = candidates
        self.best_effort_limit = NO_CPUS
        self.limits = []

    def best_effort_candidates(self):
        return self.candidates

    def limit_best_effort(self, cpus):
        if cpus != self.best_effort_limit:
            self.limits.append(str(cpus))
        self.best_effort_limit = cpus


class BatchNode:
    """A node of two CPUs whose part for batch pods is stepped by hand."""

    def __init__(self, root, *, layout="cgroupfs", make=recorded.v1, writer=None, top=""):
        self.root, self.marks = make(root / "cgroup"), root / "cdi"
        self.is_v2 = make is recorded.v2
        path, self._container = recorded.LAYOUTS[layout]
        self._path = lambda qos, uid: top + path(qos, uid)
        self._container = self._container.replace("0123abcd", ID)
        self.pods = []
        self.uses = {}
        self.system_milli = 150.0
        self.strategy = ON
        self.now = 1000.0
        self.sampled = True
        self.sample_at, self.sampled_uses = None, {}
        self.allocatable = "2"
        self.add("other", qos="burstable", milli=700)
        self.start(writer=writer)

    def start(self, *, writer=None):
        """Start the part anew: what it remembered is gone."""
        self.events = Events()
        self.registry = CollectorRegistry()
        self.part = BatchPods(
            node="n1",
            writer=writer,
            events=self.events,
            metrics=BatchPodMetrics(self.registry),
            mark=SuppressionMark(self.marks),
        )

    def add(self, name, *, qos="besteffort", cpu=None, memory=None, milli=0.0, label="BE", request=None, plain=None):
        """Add a pod with one container, running."""
        uid = f"{len(self.pods):08d}-31b8-4d3b-9c1d-0f5a7a5f3a01"
        path = self._path(qos, uid)
        self._make_cgroups(path)
        limits = {k: v for k, v in {BATCH_CPU: cpu, BATCH_MEMORY: memory}.items() if v is not None}
        requests = limits | ({BATCH_CPU: request} if request else {}) | ({"cpu": plain} if plain else {})
        resources = ResourceRequirements(requests=requests, limits=limits)
        pod = NodePod(
            metadata=ObjectMeta(
                name=name, namespace="default", uid=Uid(uid), labels={"koordinator.sh/qosClass": label} if label else {}
            ),
            spec=SchedulerPodSpec(containers=[Container(name="c", resources=resources)]),
            status=NodePodStatus(
                phase="Running",
                container_statuses=[NodeContainerStatus(name="c", container_id=f"containerd://{ID}")],
            ),
        )
        relative = tuple(path.removeprefix(self._kubepods()).strip("/").split("/"))
        on_node = PodOnNode(
            pod=pod,
            qos=QosClass.BE if label == "BE" else QosClass.LS,
            priority=PriorityClass.BATCH,
            cgroup=relative,
            has_containers=True,
        )
        self.pods.append(on_node)
        self.uses[uid] = milli
        return on_node

    def remove(self, pod):
        self.pods.remove(pod)

    async def step(self, seconds=1):
        for _ in range(seconds):
            self.now += 1.0
            if self.sampled:
                self.sample_at, self.sampled_uses = self.now, dict(self.uses)
            await self.part.step(self.state(), self.now)

    def state(self):
        sample = self.sample_at and NodeSample(
            at=self.sample_at,
            cpu_milli=0.0,
            memory_bytes=0,
            pods_at=self.sample_at,
            pods={uid: PodSample(cpu_milli=milli, memory_bytes=0) for uid, milli in self.sampled_uses.items()},
            system_cpu_milli=self.system_milli,
        )
        return NodeState(
            node=AgentNode(
                metadata=ObjectMeta(name="n1"),
                status=AgentNodeStatus(capacity={"cpu": "2"}, allocatable={"cpu": self.allocatable}),
            ),
            pods=tuple(self.pods),
            hierarchies=find_pod_hierarchies(self.root, pods=self._kubepods()),
            sample=sample,
            strategies=self.strategy and NodeStrategies(threshold=self.strategy, qos=QosStrategy()),
        )

    def use(self, name, milli):
        (pod,) = (each for each in self.pods if each.pod.metadata.name == name)
        self.uses[pod.pod.metadata.uid] = milli

    def file(self, name, pod=None, *, container=False):
        """Return the file of the class, of a pod or of its container."""
        controller = "" if self.is_v2 else name.partition(".")[0]
        path = self._path("besteffort", "x").rpartition("/")[0]
        if pod is not None:
            path = "/".join((self._kubepods(), *pod.cgroup))
        return self.root / controller / path / (self._container if container else "") / name

    def values(self, *names, pod=None, container=False):
        return [self.file(name, pod, container=container).read_text().strip() for name in names]

    @property
    def quota(self):
        return self.values("cpu.max" if self.is_v2 else "cpu.cfs_quota_us")[0].partition(" ")[0]

    def metric(self, name, **labels):
        return self.registry.get_sample_value(f"dra_reserve_node_{name}", labels)

    def _kubepods(self):
        return self._path("", "x").rpartition("/")[0]

    def _make_cgroups(self, path):
        recorded.add_pod(self.root, path, container=self._container)
        for folder in (path, f"{path}/{self._container}", path.rpartition("/")[0], self._kubepods()):
            self._make_files(folder)

    def _make_files(self, folder):
        for controller, files in ({"": V2_FILES} if self.is_v2 else V1_FILES).items():
            for name, content in files.items():
                file = self.root / controller / folder / name
                if not file.exists():
                    file.write_text(content + "\n")
