"""The amounts that batch pods hold of a node: no batch resource is ever published below them.

A kubelet that restarts admits running pods anew by what the Node's status offers, and fails those for which it is not
enough. So every pod counts that is bound to the node, requests the resource and has not ended: labelled BE or not,
pending, and being deleted.

A pod that the kubelet has not admitted yet counts only up to what is offered already, and not at all if it alone asks
for more: anybody who may create pods may write a node's name into one, and a request beyond all machines must not
become an offer. A bind in flight was counted by the scheduler against the offer, so it fits.
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
    """Return what batch pods hold of a node that offers these amounts, now or lately."""
    cpu = memory = 0
    started = NO_BATCH
    for pod in pods:
        if pod.has_started:
            started = BatchAmounts(cpu=started.cpu + pod.batch_cpu, memory=started.memory + pod.batch_memory)
        elif pod.batch_cpu <= offered.cpu and pod.batch_memory <= offered.memory:
            cpu += pod.batch_cpu
            memory += pod.batch_memory
    return BatchAmounts(
        cpu=min(max(started.cpu, min(started.cpu + cpu, offered.cpu)), AMOUNT_MAX),
        memory=min(max(started.memory, min(started.memory + memory, offered.memory)), AMOUNT_MAX),
    )


def started_batch(pods: Iterable[BatchPod]) -> BatchAmounts:
    """Return what pods hold that the kubelet has admitted."""
    return held_batch(pods, offered=NO_BATCH)
