"""Composes colocation on the node: the informers, the sampling and reporting of usage, and the parts that change it.

Each second the agent makes a `NodeState` and passes it to its parts, in order (see `node_state`). The informers are
those of one node: its pods, its Node, the ConfigMap with the strategies, and its NodeMetric.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, NoReturn

from dra.api.colocation.well_known import CONFIG_MAP
from dra.engine.instants import Instant
from dra.engine.usage.history import UsageHistory
from dra.engine.usage.report import CollectPolicy
from dra.engine.usage.samples import GpuReading
from dra.kube.backoff import JITTER
from dra.kube.client import Client, Selection
from dra.kube.clock import SYSTEM, Clock
from dra.kube.event_handlers import ignore
from dra.kube.resources import CONFIG_MAPS, NODE_METRICS, NODES, PODS
from dra.kube.shared_informers import SharedInformer, SharedInformers
from dra.model.koordinator_classes import effective_priority_class, effective_qos_class
from dra.model.meta import Struct, Uid
from dra.model.node_pods import AgentNode, ConfigMap, NodePod
from kubeletplugin.cgroups.hierarchy import CgroupsNotFoundError
from kubeletplugin.cgroups.pod_cgroups import Controller, PodCgroup, find_controllers, named_uids
from kubeletplugin.colocation.batch_pods.batch_pods import create_batch_pods
from kubeletplugin.colocation.kernel_facts import KernelFeatureReader
from kubeletplugin.colocation.metrics import ColocationMetrics
from kubeletplugin.colocation.node_state import AgentPart, NodeState, PodOnNode, RestoringPart, SuppressingPart
from kubeletplugin.colocation.options import ColocationOptions
from kubeletplugin.colocation.pod_finder import PodCgroupFinder, PodCgroupView
from kubeletplugin.colocation.resctrl.division import ResctrlDivision
from kubeletplugin.colocation.resctrl.group_record import GroupRecord
from kubeletplugin.colocation.resctrl.group_writer import GroupWriter
from kubeletplugin.colocation.resctrl.metrics import ResctrlMetrics
from kubeletplugin.colocation.resctrl.resctrl_files import ResctrlFiles
from kubeletplugin.colocation.strategy_reader import StrategyReader
from kubeletplugin.colocation.usage.gpu_reader import GpuUseReader
from kubeletplugin.colocation.usage.node_files import NodeFileReader
from kubeletplugin.colocation.usage.pod_files import PodFileReader
from kubeletplugin.colocation.usage.reporter import NodeMetricReporter, OwnNodeMetric
from kubeletplugin.colocation.usage.sampler import POD_INTERVAL, UsageSampler
from kubeletplugin.contract import Driver
from kubeletplugin.inventory.gpu_use import GpuUseSource
from kubeletplugin.node_events import NodeEventRecorder

STEP_INTERVAL: Final = 1.0
"""Seconds between two steps of the parts, and between two samples of the node."""

SAMPLING, REPORT, GPUS = LOOPS = ("sampling", "report", "gpus")
"""The loops beside the parts, as logs and the metric of failures name them."""

_log: Final = logging.getLogger(__name__)


class AgentContext(Struct, frozen=True, kw_only=True):
    """The objects that parts are made from."""

    node: str
    options: ColocationOptions
    drivers: tuple[Driver, ...]
    """The drivers of the plugin; the one of CPUs is the only writer of cpusets."""

    events: NodeEventRecorder
    metrics: ColocationMetrics


def create_parts(context: AgentContext) -> tuple[AgentPart, ...]:
    """Return the parts that change the node, in the order of their steps."""
    batch_pods = create_batch_pods(
        node=context.node,
        drivers=context.drivers,
        events=context.events,
        registry=context.metrics.registry,
        marks=context.options.marks,
    )
    return (batch_pods, create_resctrl_division(context))


def create_resctrl_division(context: AgentContext) -> ResctrlDivision:
    """Return the part that divides L3 cache and memory bandwidth."""
    options, metrics = context.options, ResctrlMetrics(context.metrics.registry)
    files = ResctrlFiles(options.resctrl, proc=options.proc)
    writer = GroupWriter(files, GroupRecord(options.marks), metrics=metrics)
    return ResctrlDivision(writer, events=context.events, metrics=metrics)


def create_node_agent(client: Client, context: AgentContext, *, clock: Clock = SYSTEM) -> "NodeAgent":
    """Return the agent of a node with all its parts; raises ValueError if the machine lacks what the agent needs."""
    root = context.options.cgroup_root
    try:
        _, controllers = find_controllers(root)
    except CgroupsNotFoundError as error:
        raise ValueError(f"node {context.node}: --colocation is impossible: {error}") from error
    missing = [
        controller.value for controller in (Controller.CPUACCT, Controller.MEMORY) if controller not in controllers
    ]
    if missing:
        raise ValueError(
            f"node {context.node}: --colocation is impossible: cgroups at {root}: no controller {', '.join(missing)}; "
            "enable it on the kernel's command line, or run without --colocation"
        )
    return NodeAgent(client, create_parts(context), context, clock=clock)


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
        self.node_metrics: SharedInformer[OwnNodeMetric] = self.group.informer(
            NODE_METRICS, OwnNodeMetric, selection=Selection(fields=f"metadata.name={node}")
        )
        for informer in (self.pods, self.node):
            informer.subscribe(ignore, restored=ignore)


class NodeAgent:
    """Colocation on one node; `run` never returns and ends only by cancellation."""

    def __init__(
        self,
        client: Client,
        parts: Sequence[AgentPart],
        context: AgentContext,
        *,
        clock: Clock = SYSTEM,
        random: Random = JITTER,
    ) -> None:
        """Create the agent; raises OSError if the node's own counters cannot be read."""
        options, metrics = context.options, context.metrics
        policy = CollectPolicy()
        history = UsageHistory(node_seconds=policy.longest_seconds, pod_seconds=policy.aggregate_seconds)
        self._context = context
        self._clock = clock
        self._parts = parts
        self._informers = NodeInformers(client, node=context.node, clock=clock)
        self._finder = PodCgroupFinder(options.cgroup_root, kubepods=options.kubepods)
        self._sampler = UsageSampler(
            history,
            NodeFileReader(options.proc, clock=clock.now),
            PodFileReader(clock=clock.now),
            metrics=metrics,
            clock=clock,
        )
        self._reporter = NodeMetricReporter(
            client, history, node=context.node, metrics=metrics, clock=clock, random=random
        )
        sources = [driver for driver in context.drivers if isinstance(driver, GpuUseSource)]
        self._gpus = GpuUseReader(sources, proc=options.proc) if sources else None
        self._kernel = KernelFeatureReader(ResctrlFiles(options.resctrl, proc=options.proc))
        self._on_node: tuple[PodOnNode, ...] = ()
        for name in (*(part.name for part in parts), *LOOPS):
            metrics.failures.labels(name)
        self._failures: dict[str, str] = {}
        """The last failure of each part and loop that has not worked since."""

        self._history = history
        self._strategies = StrategyReader()
        self._informers.config_maps.subscribe(
            self._strategies.observe,
            self._strategies.forget,
            listed=self._strategies.observe_listed,
            restored=ignore,
        )
        self._informers.node_metrics.subscribe(self._reporter.observe, self._reporter.forget, restored=ignore)

    def not_ready_reasons(self) -> list[str]:
        """Return the reasons why the agent does not work; empty when ready."""
        failure = self._finder.failure
        reasons = [f"node {self._context.node}: pods are not sampled: {failure}"] if failure else []
        return self._informers.group.not_ready_reasons() + reasons

    async def run(self) -> NoReturn:
        """Watch, sample, report and step until cancelled; parts that can restore the node do so at the end."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informers.group.run(), name="informers of colocation")
                loops: dict[str, Callable[[], Awaitable[NoReturn]]] = {
                    SAMPLING: self._step_each_second,
                    REPORT: self._reporter.run,
                }
                if self._gpus is not None:
                    loops[GPUS] = partial(self._sample_gpus_forever, self._gpus)
                for name, loop in loops.items():
                    group.create_task(self._keep_running(name, loop), name=f"colocation: {name}")
        finally:
            for part in self._parts:
                if isinstance(part, RestoringPart):
                    part.restore()
        raise AssertionError("unreachable")  # none has an end

    async def step(self) -> NodeState:
        """Sample, and let each part act; return the state that the parts saw."""
        now = self._clock.now()
        self._sampler.sample_node()
        pods = [pod for pod in self._informers.pods.objects.values() if not pod.terminal]
        view = self._finder.find(pods)
        before = {pod.pod.metadata.uid: pod for pod in self._on_node}
        on_node = tuple(
            _on_node(pod, view.pods.get(uid), before.get(uid)) for pod in pods for uid in (pod.metadata.uid,)
        )
        node = self._informers.node.objects.get(("", self._context.node))
        strategies = None if node is None else self._strategies.strategies(node.metadata.labels or {})
        # While batch pods are held back, what is left for them is computed each second.
        await self._sample_pods(on_node, view, each_second=strategies is not None and strategies.threshold.enable)
        self._on_node = on_node
        self._reporter.observe_pods(on_node)
        self._kernel.look(view.hierarchies, now=now)
        self._reporter.observe_features(self._kernel.reported)
        state = NodeState(
            node=node,
            pods=on_node,
            hierarchies=view.hierarchies,
            sample=self._sampler.sample,
            strategies=strategies,
        )
        for part in self._parts:
            await self._step_part(part, state, now)
            if isinstance(part, SuppressingPart):
                self._reporter.observe_suppression(part.suppression)
        return state

    async def _step_each_second(self) -> NoReturn:
        for informer in (self._informers.pods, self._informers.node):
            await informer.wait_for_sync()
        while True:
            began = self._clock.now()
            await self.step()
            await asyncio.sleep(max(0.0, began + STEP_INTERVAL - self._clock.now()))

    async def _sample_pods(self, pods: Sequence[PodOnNode], view: PodCgroupView, *, each_second: bool) -> None:
        if view.hierarchies is None:
            return
        known = {pod.pod.metadata.uid: pod.cgroup if pod.has_containers else None for pod in pods}
        if await self._sampler.sample_pods(view.hierarchies, known, view.others, each_second=each_second):
            unknown = self._finder.count_unknown([pod.pod for pod in pods], view)
            self._context.metrics.unsampled_pods.set(unknown + self._sampler.unreadable)
            if self._sampler.sample is not None:
                qos_of = {pod.pod.metadata.uid: pod.qos for pod in pods}
                self._context.metrics.observe_sample(self._sampler.sample, qos_of)

    async def _sample_gpus_forever(self, reader: GpuUseReader) -> NoReturn:
        while True:
            await self.sample_gpus(reader)
            await asyncio.sleep(POD_INTERVAL)

    async def sample_gpus(self, reader: GpuUseReader) -> None:
        """Add what the GPUs do to the samples; a lost GPU may block NVML for long, and only this task."""
        uids = {uid: pod.metadata.uid for uid, pod in named_uids([pod.pod for pod in self._on_node]).items()}
        readings = await asyncio.to_thread(self._read_gpus, reader, uids)
        self._history.observe_gpus(self._clock.now(), readings)
        self._context.metrics.observe_gpus(readings, {pod.pod.metadata.uid: pod.qos for pod in self._on_node})

    def _read_gpus(self, reader: GpuUseReader, uids: Mapping[str, Uid]) -> list[GpuReading]:
        began = time.thread_time()
        readings = reader.read(uids)
        self._context.metrics.sampling_seconds.labels("gpus").inc(time.thread_time() - began)
        return readings

    async def _step_part(self, part: AgentPart, state: NodeState, now: Instant) -> None:
        try:
            await part.step(state, now)
        except Exception as error:  # noqa: BLE001 - a part that fails stops no other part
            self._count_failure(part.name, error)
        else:
            self._failures.pop(part.name, None)

    async def _keep_running(self, name: str, loop: Callable[[], Awaitable[NoReturn]]) -> NoReturn:
        """Run a loop again after any failure: the drivers share the process, and would end with it."""
        while True:
            try:
                await loop()
            except Exception as error:  # noqa: BLE001 - see above
                self._count_failure(name, error)
            await asyncio.sleep(STEP_INTERVAL)

    def _count_failure(self, name: str, error: Exception) -> None:
        """Count a failure, and log it unless it is the same as the last one: it may be there each second."""
        self._context.metrics.failures.labels(name).inc()
        text = repr(error)
        if self._failures.get(name) != text:
            self._failures[name] = text
            _log.error("node %s: %s: failed, is tried again in a second", self._context.node, name, exc_info=error)


def _on_node(pod: NodePod, cgroup: PodCgroup | None, before: PodOnNode | None) -> PodOnNode:
    """Return a pod with its classes and its cgroup: what was there `before`, unless something has changed."""
    path = None if cgroup is None else cgroup.path
    has_containers = cgroup is not None and cgroup.has_containers
    if before is not None and before.pod is pod and (before.cgroup, before.has_containers) == (path, has_containers):
        return before
    kubernetes_qos = pod.status.qos_class
    return PodOnNode(
        pod=pod,
        qos=effective_qos_class(pod, kubernetes_qos=kubernetes_qos),
        priority=effective_priority_class(pod, kubernetes_qos=kubernetes_qos),
        cgroup=path,
        has_containers=has_containers,
    )
