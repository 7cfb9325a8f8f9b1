"""What users are told of a pod: its condition PodScheduled, and events, as upstream words them."""

from typing import Final

from dra.kube.client import Client
from dra.kube.clock import Clock, second_time
from dra.kube.errors import ApiError
from dra.kube.events import Recorder
from dra.kube.resources import PODS
from dra.kube.series import Fact, Regarding, Severity
from dra.model.meta import PartialObject
from dra.model.placement import DEFAULT_SCHEDULER, PlacedPod
from dra.model.pods import SCHEDULED

UNSCHEDULABLE: Final = "Unschedulable"
ERROR: Final = "SchedulerError"


class Reports:
    """Says what became of pods. Best effort: nothing depends on it."""

    def __init__(self, client: Client, *, clock: Clock, name: str = DEFAULT_SCHEDULER) -> None:
        self.recorder = Recorder(client, instance=f"{name}-local", controller=name, clock=clock)
        self._client = client
        self._clock = clock

    def scheduled(self, pod: PlacedPod, node: str) -> None:
        """The pod is bound."""
        meta = pod.metadata
        note = f"Successfully assigned {meta.namespace}/{meta.name} to {node}"
        self._record(pod, Severity.NORMAL, "Scheduled", "Binding", note)

    async def refused(self, pod: PlacedPod, message: str, *, reason: str = UNSCHEDULABLE) -> None:
        """The pod is not bound; the condition is written if it says something else so far."""
        self._record(pod, Severity.WARNING, "FailedScheduling", "Scheduling", message)
        known = pod.condition(SCHEDULED)
        if known is not None and (known.status, known.reason, known.message) == ("False", reason, message):
            return
        condition = {"type": SCHEDULED, "status": "False", "reason": reason, "message": message}
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = second_time(self._clock.wall())
        try:
            await self._client.merge_patch(
                PODS,
                pod.metadata.key,
                {"status": {"conditions": [condition]}},
                model=PartialObject,
                subresource="status",
                uid=pod.metadata.uid,
                strategic=True,
            )
        except ApiError:
            return  # the pod is gone, or the next attempt says it again

    def _record(self, pod: PlacedPod, severity: Severity, reason: str, action: str, note: str) -> None:
        regarding = Regarding.of(PODS, pod.metadata)
        self.recorder.record(Fact(regarding=regarding, severity=severity, reason=reason, action=action, note=note))
