"""What batch pods hold of a node: no batch resource is ever published below it.

A kubelet that restarts admits running pods anew by what the Node's status offers, and fails those for which it is not
enough. So every pod counts that is bound to the node, requests the resource and has not ended: labelled BE or not,
pending, and being deleted.

A pod that the kubelet has not admitted yet counts only up to what is offered already: anybody who may create pods may
write a node's name into one, and a request beyond all machines must not become an offer. A bind in flight was counted
by the scheduler against the offer, so it fits.
"""

from collections.abc import Iterable
from typing import Final

from dra.engine.colocation.batch_pod import BatchPod
from dra.model.meta import Struct

AMOUNT_MAX: Final = 2**63 - 1
"""The largest amount that a Node's status can have."""


class BatchAmounts(Struct, frozen=True):
    """Amounts of both batch resources: milli-CPUs and bytes."""

    cpu: int = 0
    memory: int = 0


NO_BATCH: Final = BatchAmounts()


def held_batch(pods: Iterable[BatchPod], *, offered: BatchAmounts) -> BatchAmounts:
    """Return what batch pods hold of a node that offers these amounts."""
    cpu = memory = started_cpu = started_memory = 0
    for pod in pods:
        cpu += pod.batch_cpu
        memory += pod.batch_memory
        if pod.has_started:
            started_cpu += pod.batch_cpu
            started_memory += pod.batch_memory
    return BatchAmounts(
        cpu=min(max(started_cpu, min(cpu, offered.cpu)), AMOUNT_MAX),
        memory=min(max(started_memory, min(memory, offered.memory)), AMOUNT_MAX),
    )
