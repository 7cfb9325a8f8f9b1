"""Events about objects that are too large to be kept: users see there why nothing happens."""

from dra.engine.messages.object_sizes import ObjectSizeReason
from dra.kube.codec import ObjectIdentity
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.events import EventRecorder
from dra.kube.large_objects import Report
from dra.kube.resources import Resource
from dra.model.event_type import EventType


def large_object_reporter(recorder: EventRecorder, *, action: str) -> Report:
    """Return a function that records an Event on an object that is too large."""

    def report(resource: Resource, identity: ObjectIdentity, reason: str) -> None:
        recorder.record(
            EventRecord(
                regarding=Regarding(
                    api_version=resource.api_version,
                    kind=resource.kind,
                    namespace=identity.namespace,
                    name=identity.name,
                    uid=identity.uid,
                ),
                reason=ObjectSizeReason.OBJECT_TOO_LARGE.value,
                action=action,
                note=f"{resource.kind} {identity}: {reason}. Until then its last known state stays in effect",
                severity=EventType.WARNING,
            )
        )

    return report
