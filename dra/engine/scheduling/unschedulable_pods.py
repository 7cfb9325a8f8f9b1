"""Pods that the extender rejected, and which of them kube-scheduler is to retry.

kube-scheduler retries a pod after events of nodes or pods, but it knows nothing of reservations: a reservation that
ends frees capacity without such an event, and the pods would wait for the five minutes after which kube-scheduler
retries everything. So these pods are requeued when a reservation frees capacity, a few at a time, by priority.

Pods that the previous process rejected, and capacity freed after its end, are unknown: all pods that kube-scheduler
marked unschedulable are due at the start.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from dra.engine.instants import NEVER, Instant
from dra.model.meta import Key, Uid
from dra.model.pods import POD_SCHEDULED
from dra.model.scheduling import SchedulerPod

PODS_MAX: Final = 10_000
BATCH_SIZE: Final = 50
"""Maximum number of pods in a batch; the others follow in later batches."""


class UnschedulablePods:
    """The rejected pods, and those among them that may fit now."""

    def __init__(self) -> None:
        self._pods: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        """Pods for which nothing has changed since their rejection."""
        self._retry_at: OrderedDict[Uid, Instant] = OrderedDict()
        """Pod → time from which on it may fit although nothing has changed; in the order of the times."""
        self._due: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        """Pods that may fit now."""
        self.on_due: Callable[[], object] = lambda: None
        """Called when `due_at` may be earlier than before."""

    def __len__(self) -> int:
        return len(self._pods) + len(self._due)

    def add(self, pod: SchedulerPod, *, retry_at: Instant = NEVER) -> None:
        """Add a pod that was rejected on at least one node; capacity freed before was considered.

        From ``retry_at`` on the pod may fit although nothing has changed.
        """
        self.forget(pod.metadata.uid)
        if retry_at != NEVER:
            self._retry_at[pod.metadata.uid] = retry_at
        self._add(self._pods, pod)  # may drop the pod itself
        if retry_at != NEVER:
            self.on_due()

    def forget(self, uid: Uid) -> None:
        """Remove a pod that is bound, has finished or was deleted."""
        for pods in (self._pods, self._due, self._retry_at):
            pods.pop(uid, None)

    def move_all_to_due(self) -> None:
        """Mark all pods as due: a reservation has freed capacity or has become available."""
        self._due.update(self._pods)
        self._pods.clear()
        self._retry_at.clear()
        if self._due:
            self.on_due()

    def adopt(self, pending: Iterable[SchedulerPod]) -> None:
        """Mark unschedulable pods as due after a start: a previous process may have rejected them."""
        for pod in pending:
            if _is_unschedulable(pod) and pod.metadata.uid not in self._pods:
                self._add(self._due, pod)

    def due_at(self) -> Instant:
        """Return from when on there is a batch."""
        return -NEVER if self._due else next(iter(self._retry_at.values()), NEVER)

    def next_batch(self, *, now: Instant) -> list[tuple[Uid, Key]]:
        """Remove and return the next batch of due pods, those of the highest priority first."""
        while self._retry_at and next(iter(self._retry_at.values())) <= now:
            uid, _ = self._retry_at.popitem(last=False)
            self._due[uid] = self._pods.pop(uid)
        first = heapq.nsmallest(BATCH_SIZE, self._due.items(), key=lambda item: -item[1][0])
        for uid, _ in first:
            del self._due[uid]
        return [(uid, key) for uid, (_, key) in first]

    def _add(self, where: OrderedDict[Uid, tuple[int, Key]], pod: SchedulerPod) -> None:
        where[pod.metadata.uid] = (pod.spec.priority, pod.metadata.key)
        while len(self) > PODS_MAX:
            uid, _ = (self._pods or self._due).popitem(last=False)
            self._retry_at.pop(uid, None)


def _is_unschedulable(pod: SchedulerPod) -> bool:
    condition = pod.condition(POD_SCHEDULED)
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"
