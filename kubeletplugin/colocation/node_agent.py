"""Composes colocation on the node: the informers, the sampling and reporting of usage, and the parts that change it.

Each second the agent makes a `NodeState` and passes it to its parts, in order (see `node_state`). The informers are
those of one node: its pods, its Node, the ConfigMap with the strategies, and its NodeMetric.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from dra.engine.instants import Instant
from dra.kube.client import Client, Selection
from dra.kube.clock import SYSTEM, Clock
from dra.kube.event_handlers import ignore
from dra.kube.resources import CONFIG_MAPS, NODES, PODS
from dra.kube.shared_informers import SharedInformer, SharedInformers
from dra.model.koordinator_classes import effective_priority_class, effective_qos_class
from dra.model.meta import Struct
from dra.model.node_pods import AgentNode, ConfigMap, NodePod
from kubeletplugin.cgroups.hierarchy import CGROUP_ROOT, CgroupsNotFoundError
from kubeletplugin.cgroups.pod_cgroups import (
    PodCgroup,
    PodHierarchies,
    find_controllers,
    find_pod_hierarchies,
    named_uids,
)
from kubeletplugin.colocation.metrics import ColocationMetrics
from kubeletplugin.colocation.node_state import AgentPart, NodeState, PodOnNode
from kubeletplugin.contract import Driver
from kubeletplugin.node_events import NodeEventRecorder

STEP_INTERVAL: Final = 1.0
"""Seconds between two steps of the parts, and between two samples of the node."""

CONFIG_MAP: Final = ("koordinator-system", "slo-controller-config")

_log: Final = logging.getLogger(__name__)


class ColocationOptions(Struct, frozen=True, kw_only=True):
    """The options of colocation on a node; the roots are those of a recorded machine in tests."""

    cgroup_root: Path = CGROUP_ROOT
    proc: Path = Path("/proc")
    kubepods: str = ""
    """The kubelet's cgroup of all pods; empty: found by search."""


class AgentContext(Struct, frozen=True, kw_only=True):
    """What parts are made from."""

    node: str
    options: ColocationOptions
    drivers: tuple[Driver, ...]
    """The drivers of the plugin; the one of CPUs is the only writer of cpusets."""

    events: NodeEventRecorder
    metrics: ColocationMetrics


def create_parts(context: AgentContext) -> tuple[AgentPart, ...]:  # noqa: ARG001 - no part yet
    """Return the parts that change the node, in the order of their steps."""
    return ()


def create_node_agent(client: Client, context: AgentContext, *, clock: Clock = SYSTEM) -> "NodeAgent":
    """Return the agent of a node with all its parts; raises ValueError if the machine lacks what the agent needs."""
    try:
        find_controllers(context.options.cgroup_root)
    except CgroupsNotFoundError as error:
        raise ValueError(f"node {context.node}: --colocation is impossible: {error}") from error
    return NodeAgent(NodeInformers(client, node=context.node, clock=clock), create_parts(context), context, clock=clock)


class NodeInformers:
    """The informers of one node's agent."""

    def __init__(self, client: Client, *, node: str, clock: Clock = SYSTEM) -> None:
        self.group = SharedInformers(client, clock=clock)
        namespace, name = CONFIG_MAP
        self.pods: SharedInformer[NodePod] = self.group.informer(
            PODS, NodePod, selection=Selection(fields=f"spec.nodeName={node}")
        )
        self.node: SharedInformer[AgentNode] = self.group.informer(
            NODES, AgentNode, selection=Selection(fields=f"metadata.name={node}")
        )
        self.config_maps: SharedInformer[ConfigMap] = self.group.informer(
            CONFIG_MAPS, ConfigMap, selection=Selection(namespace=namespace, fields=f"metadata.name={name}")
        )
        for informer in (self.pods, self.node, self.config_maps):
            informer.subscribe(ignore, restored=ignore)


class NodeAgent:
    """Colocation on one node; `run` never returns and ends only by cancellation."""

    def __init__(
        self, informers: NodeInformers, parts: Sequence[AgentPart], context: AgentContext, *, clock: Clock = SYSTEM
    ) -> None:
        self._informers = informers
        self._parts = parts
        self._context = context
        self._clock = clock
        self._hierarchies: PodHierarchies | None = None
        self._failure = ""

    def not_ready_reasons(self) -> list[str]:
        """Return the reasons why the agent does not work; empty when ready."""
        return self._informers.group.not_ready_reasons() + ([self._failure] if self._failure else [])

    async def run(self) -> NoReturn:
        """Watch, sample, report and step until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.group.run(), name="informers of colocation")
            group.create_task(self._step_each_second(), name="colocation")
        raise AssertionError("unreachable")  # neither has an end

    async def _step_each_second(self) -> NoReturn:
        await self._informers.pods.wait_for_sync()
        await self._informers.node.wait_for_sync()
        while True:
            began = self._clock.now()
            state = self._state()
            for part in self._parts:
                await self._step(part, state, began)
            await asyncio.sleep(max(0.0, began + STEP_INTERVAL - self._clock.now()))

    async def _step(self, part: AgentPart, state: NodeState, now: Instant) -> None:
        try:
            await part.step(state, now)
        except Exception:  # noqa: BLE001 - a part that fails stops no other part
            self._context.metrics.failures.labels(part.name).inc()
            _log.exception("node %s: %s: failed, is tried again in a second", self._context.node, part.name)

    def _state(self) -> NodeState:
        pods = tuple(pod for pod in self._informers.pods.objects.values() if not pod.terminal)
        cgroups = self._pod_cgroups(pods)
        return NodeState(
            node=self._informers.node.objects.get(("", self._context.node)),
            pods=tuple(_on_node(pod, cgroups) for pod in pods),
            hierarchies=self._hierarchies,
            sample=None,
            strategies=None,
        )

    def _pod_cgroups(self, pods: Sequence[NodePod]) -> dict[str, PodCgroup]:
        """Return the cgroups of pods by the uid of the pod's object."""
        named, options = named_uids(pods), self._context.options
        try:
            if self._hierarchies is None:
                self._hierarchies = find_pod_hierarchies(options.cgroup_root, pods=options.kubepods, uids=named.keys())
            present = self._hierarchies.read_pods()
        except (CgroupsNotFoundError, OSError) as error:
            self._failure = f"node {self._context.node}: cgroups of pods are not read: {error}"
            return {}
        self._failure = ""
        return {named[uid].metadata.uid: cgroup for uid, cgroup in present.items() if uid in named}


def _on_node(pod: NodePod, cgroups: dict[str, PodCgroup]) -> PodOnNode:
    cgroup, kubernetes_qos = cgroups.get(pod.metadata.uid), pod.status.qos_class
    return PodOnNode(
        pod=pod,
        qos=effective_qos_class(pod, kubernetes_qos=kubernetes_qos),
        priority=effective_priority_class(pod, kubernetes_qos=kubernetes_qos),
        cgroup=None if cgroup is None else cgroup.path,
        has_containers=cgroup is not None and cgroup.has_containers,
    )
