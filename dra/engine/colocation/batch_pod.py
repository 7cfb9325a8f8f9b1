"""A pod of a node as the sum of batch resources sees it."""

from typing import Final

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.model.koordinator_classes import (
    LABEL_QOS_CLASS,
    PriorityClass,
    effective_priority_class,
)
from dra.model.meta import Key, Struct, Uid
from dra.model.quantities import CPU, NANOS_PER_UNIT
from dra.model.scheduling import SchedulerPod

MEMORY: Final = "memory"
_BATCH_CLASSES: Final = frozenset({PriorityClass.BATCH, PriorityClass.FREE})


class BatchPod(Struct, frozen=True):
    """A pod that is bound to a node and has not ended."""

    namespace: str
    name: str
    uid: Uid
    cpu: int
    """Requested CPUs, in billionths."""

    memory: int
    """Requested memory, in billionths of a byte."""

    batch_cpu: int = 0
    """Requested ``kubernetes.io/batch-cpu``, in milli-CPUs."""

    batch_memory: int = 0
    """Requested ``kubernetes.io/batch-memory``, in bytes."""

    is_batch: bool = False
    """Whether its priority class is batch or free: what it uses is not subtracted."""

    is_lse: bool = False
    """Whether its CPUs are its own, used or not."""

    has_started: bool = False
    """Whether the kubelet has admitted it; before that, anybody may have written its node's name."""

    @property
    def key(self) -> Key:
        """The pair (namespace, name)."""
        return (self.namespace, self.name)


def batch_pod(pod: SchedulerPod) -> BatchPod:
    """Return what the sum needs of a pod."""
    requests, metadata = pod_requests(pod), pod.metadata
    return BatchPod(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        cpu=requests.get(CPU, 0),
        memory=requests.get(MEMORY, 0),
        batch_cpu=_whole(requests.get(BATCH_CPU, 0)),
        batch_memory=_whole(requests.get(BATCH_MEMORY, 0)),
        is_batch=effective_priority_class(pod, kubernetes_qos=pod.status.qos_class) in _BATCH_CLASSES,
        is_lse=(metadata.labels or {}).get(LABEL_QOS_CLASS) == "LSE",
        has_started=pod.status.start_time is not None,
    )


def _whole(nanos: int) -> int:
    """Return units of a batch resource, rounded up: ``batch-cpu: 200m`` is accepted, and means 1 milli-CPU here."""
    return -(-nanos // NANOS_PER_UNIT)
