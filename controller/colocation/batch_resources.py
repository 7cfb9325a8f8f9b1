"""Writes the batch resources of nodes into the status of their Nodes (``colocation: true``).

`dra.engine.colocation` decides what is written and when. Capacity and allocatable are written in one patch of these two
resources: a kubelet makes allocatable equal to capacity, and writes the rest of the status.
"""

from controller.colocation.events import StateEvents
from controller.colocation.metrics import ColocationMetrics
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.colocation.cache import BatchCache
from dra.engine.colocation.configuration_cache import SloConfigurationCache
from dra.engine.colocation.decide import WriteBatch, decide, status_patch
from dra.engine.colocation.watched import WatchedNodeMetric
from dra.engine.instants import NEVER, Instant, Moment
from dra.kube.errors import NotFound
from dra.kube.resources import NODES
from dra.model.meta import PartialObjectMetadata
from dra.model.node_pods import AgentNode


class BatchResources(Reconciler[str]):
    """The loop that offers batch resources."""

    settings = Settings(name="batch resources of node", workers=8, retry=(0.2, 60.0))
    cache: BatchCache

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        configuration: SloConfigurationCache,
        metrics: ColocationMetrics,
        events: StateEvents,
    ) -> None:
        cache, config_maps = BatchCache(configuration), informers.slo_configuration
        nodes, pods, reports = informers.colocation_nodes, informers.bound_pods, informers.node_metrics
        super().__init__(runtime, informers, cache, needs=(nodes, pods, reports, config_maps))
        self._metrics = metrics
        self._events = events
        nodes.subscribe(self._observe_node, cache.forget_node)
        pods.subscribe(cache.observe_pod, cache.forget_pod)
        reports.subscribe(self._observe_metric, cache.forget_metric)
        config_maps.subscribe(cache.observe_configuration, cache.observe_configuration)

    async def reconcile(self, key: str, now: Moment) -> Instant:
        """Write the batch resources of one node, unless they are right; raise ApiError."""
        view = self.cache.view(key, now=now)
        if view is None:
            self._events.forget(key)
            return NEVER
        plan = decide(view, now=now.instant)
        for action in plan.actions:
            await self._write(action)
        self._events.publish(key, plan.reasons)
        return plan.wake_at

    async def _write(self, action: WriteBatch) -> None:
        try:
            node = await self._runtime.client.merge_patch(
                NODES,
                ("", action.node),
                {"status": status_patch(action)},
                model=PartialObjectMetadata,
                subresource="status",
                uid=action.uid,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound:
            return
        self._metrics.writes.inc()
        self.cache.record_write(action, version=node.metadata.resource_version, now=self._runtime.instant())

    def _observe_node(self, node: AgentNode) -> None:
        self.cache.observe_node(node, now=self._runtime.instant())

    def _observe_metric(self, metric: WatchedNodeMetric) -> None:
        self.cache.observe_metric(metric, now=self._runtime.instant())
