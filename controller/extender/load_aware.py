"""The calls of the second entry in the scheduler's file: filter and prioritize by the measured load of nodes."""

from controller.extender.informers import ExtenderInformers
from controller.extender.metrics import ExtenderMetrics
from controller.runtime import Runtime
from dra.api.extender_configuration import LoadAware
from dra.engine.scheduling import node_loads
from dra.engine.scheduling.node_loads import RETRY_SECONDS, LoadPolicy, NodeLoads
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.event_handlers import ignore
from dra.model import extender_protocol
from dra.model.extender_protocol import ExtenderFilterResult, HostPriority


class LoadAwareVerbs:
    """Answers filter and prioritize by what NodeMetrics report."""

    def __init__(
        self,
        runtime: Runtime[ExtenderMetrics],
        informers: ExtenderInformers,
        *,
        cache: SchedulerCache,
        configuration: LoadAware,
    ) -> None:
        """Subscribe the loads of nodes to NodeMetrics."""
        self._runtime = runtime
        self._cache = cache
        policy = LoadPolicy(
            thresholds=configuration.usage_thresholds.model_dump(),
            weights=configuration.resource_weights.model_dump(),
            scaling=configuration.estimated_scaling_factors.model_dump(),
            expiration=configuration.node_metric_expiration_seconds,
        )
        self._loads = NodeLoads(cache, policy)
        informers.node_metrics.subscribe(self._loads.observe, self._loads.forget, restored=ignore)

    async def filter(self, body: bytes) -> ExtenderFilterResult:
        """Return the nodes that are not loaded above a threshold; a pod with refused nodes is tried again."""
        pod, names = extender_protocol.decode_filter_args(body)
        now = self._runtime.moment()
        result = node_loads.filter_nodes(self._loads, pod, names, now=now.wall)
        if result.failed_nodes:
            self._cache.unschedulable.add(pod, retry_at=now.instant + RETRY_SECONDS)
        return result

    async def prioritize(self, body: bytes) -> list[HostPriority]:
        """Return the scores of nodes by their headroom."""
        pod, names = extender_protocol.decode_filter_args(body)
        return node_loads.prioritize_nodes(self._loads, pod, names, now=self._runtime.moment().wall)
