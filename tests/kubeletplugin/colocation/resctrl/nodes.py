"""A node with a fake resctrl kernel and pods, for the part that divides caches."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from dra.api.colocation.strategies import QosStrategy, ResctrlStrategy
from dra.engine.resctrl.decide import ClassShare
from dra.engine.resctrl.groups import ResctrlGroup
from dra.model.koordinator_classes import LABEL_QOS_CLASS, PriorityClass, QosClass
from dra.model.meta import ObjectMeta, Uid
from dra.model.node_pods import NodePod, NodePodSpec, NodePodStatus
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.pod_cgroups import PodHierarchies
from kubeletplugin.colocation.node_state import NodeState, PodOnNode
from kubeletplugin.colocation.resctrl import division
from kubeletplugin.colocation.resctrl.group_writer import GroupWriter
from kubeletplugin.colocation.resctrl.metrics import ResctrlMetrics
from kubeletplugin.colocation.resctrl.task_lists import PodThreads
from tests.dra.engine.resctrl.fake_kernel import FakeKernel
from tests.dra.engine.resctrl.machines import Machine


class MemoryRecord:
    """A record that dies with the kernel of its test only; a write of it is one that a kill may come before."""

    def __init__(self, kernel: FakeKernel) -> None:
        self.groups: frozenset[ResctrlGroup] = frozenset()
        self._kernel = kernel

    def read(self) -> frozenset[ResctrlGroup]:
        return self.groups

    def touch(self) -> None:
        """Nobody looks at the time of this record."""

    def write(self, groups: frozenset[ResctrlGroup]) -> None:
        self._kernel._write(f"record {' '.join(sorted(groups))}")
        self.groups = groups


class Events:
    """The Events that were recorded."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str]] = []

    def record_warning(self, reason: str, text: str, *, action: Any) -> None:  # noqa: ARG002 - as the recorder's
        self.recorded.append((str(reason), text))


class Node:
    """A node whose plugin may be killed and started again."""

    def __init__(self, machine: Machine, monkeypatch) -> None:
        self.kernel = FakeKernel(machine)
        self.record = MemoryRecord(self.kernel)
        self.events = Events()
        self.registry = CollectorRegistry()
        self.pods: dict[str, tuple[str, set[int]]] = {}
        self.runtime_classes: dict[str, str] = {}
        self.unread: set[str] = set()
        self.now = 0.0
        monkeypatch.setattr(division, "read_pod_threads", lambda _, path: self._read_threads(path[-1]))
        self.start()

    def start(self) -> None:
        """Start the plugin, which knows only what files say."""
        self.registry = CollectorRegistry()
        metrics = ResctrlMetrics(self.registry)
        writer = GroupWriter(self.kernel, self.record, metrics=metrics)
        self.part = division.ResctrlDivision(writer, events=self.events, metrics=metrics)

    def run_pod(self, name: str, qos: str, *threads: int, runtime_class: str = "") -> None:
        """Let a pod's threads start in the root group, as those of a new container do."""
        self.pods[name] = (qos, set(threads))
        self.runtime_classes[name] = runtime_class
        self.kernel.threads |= dict.fromkeys(threads, "")

    def end_pod(self, name: str) -> None:
        """End all threads of a pod."""
        for thread in self.pods.pop(name)[1]:
            self.kernel.exit(thread)

    async def round(self, shares: Mapping[ResctrlGroup, ClassShare] | None) -> None:
        """Let the next round of the part begin."""
        self.now += division.INTERVAL
        await self.part.step(self.state(shares), self.now)

    def state(self, shares: Mapping[ResctrlGroup, ClassShare] | None) -> NodeState:
        """Return the node as the part sees it."""
        return NodeState(
            node=None,
            pods=tuple(self._pod(name, qos) for name, (qos, _) in self.pods.items()),
            hierarchies=PodHierarchies(version=CgroupVersion.V1, tops={}, kubepods=("kubepods",)),
            sample=None,
            strategies=None if shares is None else SimpleNamespace(qos=strategy(shares)),
        )

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric of the part."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def _read_threads(self, name: str) -> PodThreads:
        for parent, child in self.kernel.forks:
            if parent in self.kernel.threads:
                self.kernel.fork(parent, child)
                next(threads for _, threads in self.pods.values() if parent in threads).add(child)
            break
        return PodThreads(ids=frozenset(self.pods[name][1]), is_whole=name not in self.unread)

    def _pod(self, name: str, qos: str) -> PodOnNode:
        pod = NodePod(
            metadata=ObjectMeta(name=name, namespace="ml", uid=Uid(name), labels={LABEL_QOS_CLASS: qos}),
            spec=NodePodSpec(runtime_class_name=self.runtime_classes[name]),
            status=NodePodStatus(qos_class="Burstable"),
        )
        return PodOnNode(pod=pod, qos=QosClass.LS, priority=PriorityClass.PROD, cgroup=(name,), has_containers=True)


def strategy(shares: Mapping[ResctrlGroup, ClassShare]) -> QosStrategy:
    """Return the strategy that enables these shares."""
    parts = {
        group.lower(): ResctrlStrategy(
            enable=True,
            cat_range_start_percent=share.cache_start,
            cat_range_end_percent=share.cache_end,
            mba_percent=share.bandwidth,
        )
        for group, share in shares.items()
    }
    return QosStrategy(**parts)
