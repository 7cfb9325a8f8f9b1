"""Reports errors of the ConfigMap slo-controller-config, in Events of the ConfigMap and in a metric."""

from controller.colocation.events import StateEvents
from controller.colocation.metrics import ColocationMetrics
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.colocation.configuration_cache import SloConfigurationCache
from dra.engine.instants import NEVER, Instant, Moment
from dra.kube.event_handlers import ignore
from dra.model.meta import Key


class SloConfigurationReports(Reconciler[Key]):
    """The loop that reports the problems of the ConfigMap."""

    settings = Settings(name="ConfigMap", workers=1, retry=(0.2, 60.0))
    cache: SloConfigurationCache

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        metrics: ColocationMetrics,
        events: StateEvents,
    ) -> None:
        """Create the loop; it is the first to see the ConfigMap, and others read its cache."""
        cache, config_maps = SloConfigurationCache(), informers.slo_configuration
        super().__init__(runtime, informers, cache, needs=(config_maps,))
        self._metrics = metrics
        self._events = events
        config_maps.subscribe(cache.observe, cache.forget, restored=ignore)

    async def reconcile(self, key: Key, now: Moment) -> Instant:  # noqa: ARG002 - no problem depends on the time
        """Report the problems that are new."""
        for name, number in self.cache.error_counts().items():
            self._metrics.config_errors.labels(name).set(number)
        self._events.publish(key, self.cache.events())
        return NEVER
