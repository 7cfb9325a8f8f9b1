"""Pods that the extender rejected, and the change that makes kube-scheduler retry them.

kube-scheduler retries a pod after events of nodes or pods, but it knows nothing of reservations: a reservation that
ends frees capacity without such an event, and the pods would wait for the five minutes after which kube-scheduler
retries everything. So when a reservation frees capacity, an annotation of these pods is changed, a few at a time, by
priority.

Pods that the previous process rejected, and capacity freed after its end, are unknown: all pods that kube-scheduler
marked unschedulable are due at the start.
"""

import asyncio
import heapq
import itertools
import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NoReturn

from controller.extender.writer import ExtenderWriter
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.model.meta import Key, Uid
from dra.model.pods import POD_SCHEDULED
from dra.model.scheduling import SchedulerPod

PODS_MAX: Final = 10_000
BATCH_SIZE: Final = 50
"""Maximum number of pods touched in one round; the others follow in later rounds."""

BATCH_PAUSE: Final = 1.0
"""Minimum number of seconds between two rounds."""

_log: Final = logging.getLogger(__name__)


class UnschedulablePods:
    """The rejected pods; `run` touches them when capacity was freed."""

    def __init__(self, *, cache: SchedulerCache, writer: ExtenderWriter, clock: Clock) -> None:
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._pods: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        """Pods for which nothing has changed since their rejection."""
        self._due: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        """Pods that may fit now."""
        self._wakeup = asyncio.Event()
        self._marks = itertools.count()

    def __len__(self) -> int:
        return len(self._pods) + len(self._due)

    def add(self, pod: SchedulerPod) -> None:
        """Add a pod that was rejected on at least one node; capacity freed before was considered."""
        self._due.pop(pod.metadata.uid, None)
        self._add(self._pods, pod)

    def move_all_to_due(self) -> None:
        """Mark all pods as due: a reservation has freed capacity or has become available."""
        self._due.update(self._pods)
        self._pods.clear()
        self._wakeup.set()

    def adopt(self, waiting: Iterable[SchedulerPod]) -> None:
        """Mark unschedulable pods as due after a start: a previous process may have rejected them."""
        for pod in waiting:
            if _is_unschedulable(pod) and pod.metadata.uid not in self._pods:
                self._add(self._due, pod)
        self._wakeup.set()

    async def run(self) -> NoReturn:
        """Touch due pods until cancelled."""
        while True:
            await self._wakeup.wait()
            await asyncio.sleep(BATCH_PAUSE)
            mark = f"{int(self._clock.wall().timestamp())}-{next(self._marks)}"
            for uid, key in self._next_batch():
                try:
                    await self._writer.requeue_pod(key, uid, mark)
                except ApiError as error:  # kube-scheduler retries the pod later anyway
                    _log.info("pod %s/%s: not requeued: %s", *key, error)
            if not self._due:
                self._wakeup.clear()

    def _next_batch(self) -> list[tuple[Uid, Key]]:
        """Remove and return the next batch of due pods."""
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
    found = pod.condition(POD_SCHEDULED)
    return found is not None and found.status == "False" and found.reason == "Unschedulable"
