"""Reports scheduling results to users: the condition PodScheduled, and events in upstream's words."""

from typing import Final

from dra.kube.client import Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import ApiError
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.events import EventRecorder
from dra.kube.resources import PODS
from dra.model.event_type import EventType
from dra.model.meta import PartialObjectMetadata
from dra.model.pods import POD_SCHEDULED
from dra.model.scheduling import DEFAULT_SCHEDULER, SchedulerPod

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


class SchedulerEvents:
    """Reports scheduling results of pods; best effort, since nothing depends on the reports."""

    def __init__(self, client: Client, *, clock: Clock, name: str = DEFAULT_SCHEDULER) -> None:
        self.recorder = EventRecorder(client, instance=f"{name}-local", controller=name, clock=clock)
        self._client = client
        self._clock = clock

    def scheduled(self, pod: SchedulerPod, node: str) -> None:
        """Record an event that the pod is bound."""
        meta = pod.metadata
        note = f"Successfully assigned {meta.namespace}/{meta.name} to {node}"
        self._record(pod, EventType.NORMAL, "Scheduled", "Binding", note)

    async def refused(self, pod: SchedulerPod, message: str, *, reason: str = UNSCHEDULABLE) -> None:
        """Record an event that the pod is not bound, and write the condition if it differs."""
        self._record(pod, EventType.WARNING, "FailedScheduling", "Scheduling", message)
        known = pod.condition(POD_SCHEDULED)
        if known is not None and (known.status, known.reason, known.message) == ("False", reason, message):
            return
        condition = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message}
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = rfc3339(self._clock.wall())
        try:
            await self._client.merge_patch(
                PODS,
                pod.metadata.key,
                {"status": {"conditions": [condition]}},
                model=PartialObjectMetadata,
                subresource="status",
                uid=pod.metadata.uid,
                strategic=True,
            )
        except ApiError:
            return  # the pod is gone, or the next attempt reports again

    def _record(self, pod: SchedulerPod, severity: EventType, reason: str, action: str, note: str) -> None:
        regarding = Regarding.of(PODS, pod.metadata)
        self.recorder.record(
            EventRecord(regarding=regarding, severity=severity, reason=reason, action=action, note=note)
        )
