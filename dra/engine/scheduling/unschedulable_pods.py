"""Pods that the extender rejected, and which of them kube-scheduler is to retry.

kube-scheduler retries a pod after events of nodes or pods, but it knows nothing of reservations: a reservation that
ends frees capacity without such an event, and the pods would wait for the five minutes after which kube-scheduler
retries everything. So these pods are requeued when a reservation frees capacity, a few at a time, by priority.

Pods that the previous process rejected, and capacity freed after its end, are unknown: all pods that kube-scheduler
marked unschedulable are due at the start.
"""

import heapq
from collections import OrderedDict
from typing import Final

from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.meta import Key, Uid
from dra.model.pods import POD_SCHEDULED
from dra.model.scheduling import SchedulerPod

PODS_MAX: Final = 10_000
BATCH_SIZE: Final = 50
"""Maximum number of pods in a batch; the others follow in later batches."""


class UnschedulablePods:
    """The rejected pods, and those among them that may fit now."""

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._pods: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        """Pods for which nothing has changed since their rejection."""
        self._due: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        """Pods that may fit now."""

    def __len__(self) -> int:
        return len(self._pods) + len(self._due)

    @property
    def has_due(self) -> bool:
        """Whether a pod is left that may fit now."""
        return bool(self._due)

    def add(self, pod: SchedulerPod) -> None:
        """Add a pod that was rejected on at least one node; capacity freed before was considered."""
        self._due.pop(pod.metadata.uid, None)
        self._add(self._pods, pod)

    def move_all_to_due(self) -> None:
        """Mark all pods as due: a reservation has freed capacity or has become available."""
        self._due.update(self._pods)
        self._pods.clear()

    def adopt(self) -> None:
        """Mark unschedulable pods of the cache as due after a start: a previous process may have rejected them."""
        for pod in self._cache.pending_pods():
            if _is_unschedulable(pod) and pod.metadata.uid not in self._pods:
                self._add(self._due, pod)

    def next_batch(self) -> list[tuple[Uid, Key]]:
        """Remove and return the next batch of due pods, those of the highest priority first."""
        for uid in [uid for uid in self._due if self._cache.pending_pod(uid) is None]:
            del self._due[uid]
        first = heapq.nsmallest(BATCH_SIZE, self._due.items(), key=lambda item: -item[1][0])
        for uid, _ in first:
            del self._due[uid]
        return [(uid, key) for uid, (_, key) in first]

    def _add(self, where: OrderedDict[Uid, tuple[int, Key]], pod: SchedulerPod) -> None:
        where[pod.metadata.uid] = (pod.spec.priority, pod.metadata.key)
        while len(self) > PODS_MAX:
            (self._pods or self._due).popitem(last=False)


def _is_unschedulable(pod: SchedulerPod) -> bool:
    condition = pod.condition(POD_SCHEDULED)
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"
