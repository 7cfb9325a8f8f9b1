"""Reports requests in Koordinator's form that have no effect (`dra.engine.translation.notices`).

Such pods have no claims, so the informer of pods with claims does not store them.
"""

from controller.claim_events import ClaimEvents
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.runtime import Runtime
from dra.engine.translation.notices import NoticeHistory
from dra.kube.event_handlers import ignore
from dra.model.meta import PartialObjectMetadata


class RequestNotices:
    """The recorder of an Event on each pod with a request that has no effect."""

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers, *, events: ClaimEvents
    ) -> None:
        self._runtime = runtime
        self._pods = informers.noticed_pods
        self._namespaces = informers.enabled_namespaces
        self._events = events
        self._history = NoticeHistory()
        self._acting = False
        self._pods.subscribe(self._observe, self._history.forget, restored=ignore)
        self._namespaces.subscribe(self._namespace_enabled, restored=ignore)

    async def run(self) -> None:
        """Report about the pods that exist; from then on, about each pod that is created."""
        await self._namespaces.wait_for_sync()
        await self._pods.wait_for_sync()
        self._acting = True
        for pod in self._pods.objects.values():
            self._observe(pod)

    def _namespace_enabled(self, namespace: PartialObjectMetadata) -> None:
        for pod in self._pods.objects.values():
            if pod.metadata.namespace == namespace.metadata.name:
                self._observe(pod)

    def _observe(self, pod: PartialObjectMetadata) -> None:
        if self._acting and ("", pod.metadata.namespace) in self._namespaces.objects:
            for reason in self._history.new_notices(pod, now=self._runtime.moment().wall):
                self._events.record(reason)
