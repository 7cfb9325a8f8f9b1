"""Writes what pods were given into annotations that Koordinator's tools read (``koordinator: true``).

`dra.engine.pod_reports` decides what is written. Only pods in namespaces with the label ``reserve.dra/koordinator:
enabled`` have reports. The reports are in the pods themselves, so a controller that starts writes only those that are
missing or no longer true.
"""

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.instants import NEVER, Instant, Moment
from dra.engine.pod_reports.cache import PodReportCache
from dra.engine.pod_reports.decide import AwaitCards, WriteReports, decide
from dra.kube.errors import NotFound
from dra.kube.event_handlers import ignore
from dra.kube.resources import PODS
from dra.model.meta import Key, PartialObjectMetadata


class PodReports(Reconciler[Key]):
    """The loop that reports allocations on the pods of enabled namespaces."""

    settings = Settings(name="reports of pod", workers=8, retry=(0.2, 60.0))
    cache: PodReportCache

    def __init__(self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers) -> None:
        cache, namespaces, slices = PodReportCache(), informers.enabled_namespaces, informers.card_slices
        super().__init__(runtime, informers, cache, needs=(namespaces, slices))
        self._informers = informers
        informers.pods.subscribe(cache.observe_pod, cache.forget_pod)
        informers.claims.subscribe(cache.observe_claim)
        namespaces.subscribe(cache.observe_namespace, cache.forget_namespace, restored=ignore)
        slices.subscribe(cache.observe_slice, cache.forget_slice, restored=ignore)

    async def reconcile(self, key: Key, now: Moment) -> Instant:  # noqa: ARG002 - no report depends on the time
        """Write the reports of one pod, unless they are right; raise ApiError."""
        view = self.cache.view(key, pods=self._informers.pods.objects, claims=self._informers.claims.objects)
        if view is None:
            return NEVER
        plan = decide(view)
        for action in plan.actions:
            match action:
                case WriteReports():
                    await self._write(action)
                case AwaitCards():
                    self.cache.await_cards(action.pod)
                    self._log.debug("pod %s/%s: its devices are not reported yet: %s", *action.pod, action.error)
        return plan.wake_at

    async def _write(self, action: WriteReports) -> None:
        try:
            await self._runtime.client.merge_patch(
                PODS,
                action.pod,
                {"metadata": {"annotations": action.annotations}},
                model=PartialObjectMetadata,
                uid=action.uid,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound:
            return
        self.cache.reports_written(action.uid, action.annotations)
