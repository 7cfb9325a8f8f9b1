"""Plays the agent of colocation on each emulated node: reports what the node uses, and holds best-effort pods back.

A client of the API server like any other, with the decisions of the kubelet plugin (`dra.engine.usage`,
`dra.engine.suppression`) and emulated counters in place of the kernel's. A node is sampled while its NodeMetric exists,
which the controller creates; so a plane that does not use colocation pays nothing.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn

from dra.api.colocation import well_known
from dra.api.colocation.slo_configuration import OFF, read_slo_configuration
from dra.api.colocation.strategies import ThresholdStrategy
from dra.engine.instants import Instant
from dra.engine.usage.collect_policy import collect_policy
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import ApiError
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.event_handlers import ignore
from dra.kube.events import EventRecorder
from dra.kube.resources import CONFIG_MAPS, NODE_METRICS, NODES, PODS
from dra.kube.shared_informers import SharedInformers
from dra.model.event_type import EventType
from dra.model.meta import ObjectMeta, PartialObjectMetadata, Struct, Uid
from dra.model.node_pods import AgentNode, ConfigMap, NodePod
from localplane.nodes.kubelets import SILENT
from localplane.nodes.usage.demand import MalformedUsageError, pod_demand, system_demand
from localplane.nodes.usage.node_agent import EmulatedAgent

STEP_SECONDS: Final = 1.0

_log: Final = logging.getLogger(__name__)


class NodeMetricSpec(Struct, frozen=True):
    """``spec`` of a NodeMetric."""

    metric_collect_policy: dict[str, Any] | None = None


class CollectedNodeMetric(Struct, frozen=True):
    """A NodeMetric, as far as its node reads it."""

    metadata: ObjectMeta
    spec: NodeMetricSpec = NodeMetricSpec()


class NodeAgents:
    """Runs the agents of all emulated nodes; `run` never returns, so cancel it."""

    def __init__(self, client: Client, *, nodes: Collection[str], clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._names = frozenset(nodes)
        self._agents: dict[str, EmulatedAgent] = {}
        self._pods: dict[str, dict[Uid, NodePod]] = {}
        """The pods of each node."""

        self._configuration = OFF
        self._recorder = EventRecorder(client, instance="local", controller="kubelet", clock=clock)
        self._informers = SharedInformers(client, clock=clock)
        self._nodes = self._informers.informer(NODES, AgentNode)
        self._nodes.subscribe(self._observe_node, restored=ignore)
        self._node_metrics = self._informers.informer(NODE_METRICS, CollectedNodeMetric)
        self._node_metrics.subscribe(ignore, restored=ignore)
        config_maps = self._informers.informer(
            CONFIG_MAPS,
            ConfigMap,
            selection=Selection(
                namespace=well_known.CONFIG_MAP_NAMESPACE, fields=f"metadata.name={well_known.CONFIG_MAP_NAME}"
            ),
        )
        config_maps.subscribe(self._observe_config_map, self._forget_config_map, restored=ignore)
        bound = self._informers.informer(PODS, NodePod, keep=lambda pod: pod.spec.node_name in self._names)
        bound.subscribe(self._observe_pod, self._forget_pod, restored=ignore)

    async def run(self) -> None:
        """Sample and report until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="informers of node agents")
            group.create_task(self._step_each_second(), name="node agents")
            group.create_task(self._recorder.run(), name="events of node agents")

    async def _step_each_second(self) -> NoReturn:
        while True:
            for name in sorted(self._names):
                await self._step(name, now=self._clock.now())
            await asyncio.sleep(STEP_SECONDS)

    async def _step(self, name: str, *, now: Instant) -> None:
        """Sample one node, and report what it uses if that is due."""
        node, node_metric = self._nodes.objects.get(("", name)), self._node_metrics.objects.get(("", name))
        if node is None or node_metric is None:
            self._agents.pop(name, None)
            return
        agent = self._agents.get(name)
        if agent is None:
            agent = self._agents[name] = EmulatedAgent(node, now=now)
        pods = self._pods.get(name, {}).values()
        policy, _ = collect_policy(node_metric.spec.metric_collect_policy)
        agent.observe(node, pods, policy, now=now)
        agent.hold_back(node, pods, self._strategy(node), now=now)
        if node.metadata.annotation(SILENT) == "true":
            return
        status = agent.report(pods, policy, now=now, update_time=rfc3339(self._clock.wall()))
        if status is not None:
            await self._write(node_metric.metadata, status)

    async def _write(self, meta: ObjectMeta, status: Mapping[str, Any]) -> None:
        body = {"status": dict(status)}
        try:
            await self._client.merge_patch(
                NODE_METRICS, meta.key, body, model=PartialObjectMetadata, subresource="status", uid=meta.uid
            )
        except ApiError as error:  # the next report is as good
            _log.info("nodemetric %s: is not written: %s", meta.name, error)

    def _strategy(self, node: AgentNode) -> ThresholdStrategy:
        return self._configuration.threshold_strategy(node.metadata.labels or {})

    def _observe_config_map(self, config_map: ConfigMap) -> None:
        self._configuration = read_slo_configuration(config_map.data or {}, last=self._configuration)

    def _forget_config_map(self, config_map: ConfigMap) -> None:  # noqa: ARG002 - there is one
        self._configuration = read_slo_configuration(None)

    def _observe_node(self, node: AgentNode) -> None:
        try:
            system_demand(node)
        except MalformedUsageError as error:
            self._warn(Regarding.of(NODES, node.metadata), str(error))

    def _observe_pod(self, pod: NodePod) -> None:
        pods = self._pods.setdefault(pod.spec.node_name, {})
        if pod.terminal:
            pods.pop(pod.metadata.uid, None)
            return
        if pod.metadata.uid not in pods or pods[pod.metadata.uid].metadata.annotations != pod.metadata.annotations:
            self._check(pod)
        pods[pod.metadata.uid] = pod

    def _check(self, pod: NodePod) -> None:
        try:
            pod_demand(pod)
        except MalformedUsageError as error:
            self._warn(Regarding.of(PODS, pod.metadata), f"{error}; the pod uses half of its requests")

    def _forget_pod(self, pod: NodePod) -> None:
        self._pods.get(pod.spec.node_name, {}).pop(pod.metadata.uid, None)

    def _warn(self, regarding: Regarding, note: str) -> None:
        self._recorder.record(EventRecord(regarding, EventType.WARNING, "InvalidUsage", "Sampling", note))
