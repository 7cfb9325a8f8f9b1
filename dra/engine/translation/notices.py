"""Reasons about requests in Koordinator's form that are accepted and have no effect on claims.

A user who writes such a request may expect bound CPUs. Requests that are wrong are refused at creation.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from dra.api.koordinator import resource_spec, well_known
from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import Reason, pod_reason
from dra.engine.instants import WallTime
from dra.engine.translation import classes, cpu_requests
from dra.model.koordinator_classes import LABEL_QOS_CLASS
from dra.model.meta import ObjectMeta, PartialObjectMetadata, Uid

UNBOUND_CLASSES: Final = ("LS", classes.BEST_EFFORT, "SYSTEM")
"""Values of the QoS label for which a pod is never bound to CPUs."""

MAX_AGE: Final = 3600.0
"""Maximum age in seconds of a pod about which a leader reports: API servers keep Events for an hour."""

_KNOWN_CLASSES: Final = (*classes.BOUND_CLASSES, *UNBOUND_CLASSES)


def notices(metadata: ObjectMeta) -> Iterator[Reason]:
    """Yield the reasons about a pod."""
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    pod = {"metadata": {"labels": labels, "annotations": annotations}}
    qos = labels.get(LABEL_QOS_CLASS, "")
    if qos and qos not in _KNOWN_CLASSES:
        yield pod_reason(
            Code.UNKNOWN_QOS_CLASS, key=metadata.key, uid=metadata.uid, qos=qos, known=", ".join(_KNOWN_CLASSES)
        )
    if classes.bound_class(pod) is None or cpu_requests.annotation_refusals(pod):
        return
    if cpu_requests.bind_word(pod) == resource_spec.CONSTRAINED_BURST and not cpu_requests.has_own_cpus(pod):
        yield pod_reason(
            Code.NO_BOUND_CPUS,
            key=metadata.key,
            uid=metadata.uid,
            annotation=well_known.ANNOTATION_RESOURCE_SPEC,
            word=resource_spec.CONSTRAINED_BURST,
        )


def has_notices(pod: PartialObjectMetadata) -> bool:
    """Return whether there are reasons about a pod."""
    return any(notices(pod.metadata))


class NoticeHistory:
    """The pods about which this process has reported: each pod once, however often it changes."""

    def __init__(self) -> None:
        self._reported: set[Uid] = set()

    def new_notices(self, pod: PartialObjectMetadata, *, now: WallTime) -> Iterator[Reason]:
        """Yield the reasons about a pod, unless they were yielded before or the pod is old."""
        metadata = pod.metadata
        if metadata.uid in self._reported:
            return
        self._reported.add(metadata.uid)
        created = metadata.creation_timestamp
        if not created or now - datetime.fromisoformat(created).timestamp() <= MAX_AGE:
            yield from notices(metadata)

    def forget(self, pod: PartialObjectMetadata) -> None:
        """Forget a deleted pod."""
        self._reported.discard(pod.metadata.uid)
