"""Keeps a NodeMetric for each Node, which says how the node is to report (``colocation: true``).

`dra.engine.colocation.node_metric_objects` decides what is written.
"""

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.colocation.configuration_cache import SloConfigurationCache
from dra.engine.colocation.node_metric_objects import CreateNodeMetric, NodeMetricCache, PatchNodeMetric, decide
from dra.engine.instants import NEVER, Instant, Moment
from dra.kube.errors import AlreadyExists, NotFound
from dra.kube.event_handlers import ignore
from dra.kube.resources import NODE_METRICS
from dra.model.meta import PartialObjectMetadata


class NodeMetricObjects(Reconciler[str]):
    """The loop that creates NodeMetrics and keeps their specs."""

    settings = Settings(name="NodeMetric of node", workers=4, retry=(0.2, 60.0))
    cache: NodeMetricCache

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        configuration: SloConfigurationCache,
    ) -> None:
        cache, nodes, metrics = NodeMetricCache(configuration), informers.colocation_nodes, informers.node_metrics
        super().__init__(runtime, informers, cache, needs=(nodes, metrics, informers.slo_configuration))
        self._nodes, self._metrics = nodes, metrics
        nodes.subscribe(cache.observe_node, cache.forget_node, restored=ignore)
        metrics.subscribe(cache.observe_metric, cache.forget_metric, restored=ignore)
        informers.slo_configuration.subscribe(cache.observe_configuration, cache.observe_configuration, restored=ignore)

    async def reconcile(self, key: str, now: Moment) -> Instant:
        """Write the NodeMetric of one node, unless it is right; raise ApiError."""
        view = self.cache.view(key, nodes=self._nodes.objects, metrics=self._metrics.objects)
        if view is None:
            return NEVER
        plan = decide(view, now=now.instant)
        for action in plan.actions:
            match action:
                case CreateNodeMetric():
                    await self._create(action)
                case PatchNodeMetric():
                    await self._patch(action)
        return plan.wake_at

    async def _create(self, action: CreateNodeMetric) -> None:
        content = {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.kind, **action.content}
        try:
            await self._runtime.client.create(
                NODE_METRICS,
                content,
                model=PartialObjectMetadata,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except AlreadyExists:
            return  # the watch will show it

    async def _patch(self, action: PatchNodeMetric) -> None:
        try:
            await self._runtime.client.merge_patch(
                NODE_METRICS,
                ("", action.node),
                action.body,
                model=PartialObjectMetadata,
                uid=action.uid,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound:
            return
        self.cache.record_patch(action.node, now=self._runtime.instant())
