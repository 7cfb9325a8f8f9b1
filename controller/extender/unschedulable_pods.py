"""Pods that wait because we said no, and what makes kube-scheduler ask again.

It asks again when something happens to nodes or pods, but it knows nothing of reservations: one that ends frees room
and makes no event there; the pods would wait for the five minutes after which it tries everything once more. So when a
reservation lets go of something, an annotation of those pods is changed, a few at a time, by priority.

Whom the process before us has refused, and what was let go of after it had died, nobody knows: all pods that the
scheduler calls unschedulable are due when we begin.
"""

import asyncio
import heapq
import itertools
import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NoReturn

from controller.extender.scheduler_cache import SchedulerCache
from controller.extender.writer import ExtenderWriter
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.model.meta import Key, Uid
from dra.model.pods import POD_SCHEDULED
from dra.model.scheduling import SchedulerPod

PODS_MAX: Final = 10_000
BATCH_SIZE: Final = 50
"""Pods touched in one round; the others in the next ones."""

BATCH_PAUSE: Final = 1.0
"""Seconds between two rounds, at least."""

_log: Final = logging.getLogger(__name__)


class UnschedulablePods:
    """Remembers them; `run` touches them when it is worth it."""

    def __init__(self, *, picture: SchedulerCache, writing: ExtenderWriter, clock: Clock) -> None:
        self._picture = picture
        self._writing = writing
        self._clock = clock
        self._pods: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        """Those for whom nothing has changed since they were refused."""
        self._due: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        """Those for whom something has."""
        self._freed = asyncio.Event()
        self._marks = itertools.count()

    def __len__(self) -> int:
        return len(self._pods) + len(self._due)

    def note(self, pod: SchedulerPod) -> None:
        """A pod was refused at least one node; what was let go of before that, it has been told."""
        self._due.pop(pod.metadata.uid, None)
        self._remember(self._pods, pod)

    def freed(self) -> None:
        """A reservation has let go of something, or has become usable."""
        self._due.update(self._pods)
        self._pods.clear()
        self._freed.set()

    def adopt(self, waiting: Iterable[SchedulerPod]) -> None:
        """After a start: those may have been refused by somebody who cannot tell them any more."""
        for pod in waiting:
            if _is_unschedulable(pod) and pod.metadata.uid not in self._pods:
                self._remember(self._due, pod)
        self._freed.set()

    async def run(self) -> NoReturn:
        """Touch pods, until cancelled."""
        while True:
            await self._freed.wait()
            await asyncio.sleep(BATCH_PAUSE)
            mark = f"{int(self._clock.wall().timestamp())}-{next(self._marks)}"
            for uid, key in self._round():
                try:
                    await self._writing.touch(key, uid, mark)
                except ApiError as error:  # the scheduler looks at it sometime
                    _log.info("pod %s/%s: not touched: %s", *key, error)
            if not self._due:
                self._freed.clear()

    def _round(self) -> list[tuple[Uid, Key]]:
        """Take those out that come next."""
        for uid in [uid for uid in self._due if self._picture.waiting(uid) is None]:
            del self._due[uid]
        first = heapq.nsmallest(BATCH_SIZE, self._due.items(), key=lambda item: -item[1][0])
        for uid, _ in first:
            del self._due[uid]
        return [(uid, key) for uid, (_, key) in first]

    def _remember(self, where: OrderedDict[Uid, tuple[int, Key]], pod: SchedulerPod) -> None:
        where[pod.metadata.uid] = (pod.spec.priority, pod.metadata.key)
        while len(self) > PODS_MAX:
            (self._pods or self._due).popitem(last=False)


def _is_unschedulable(pod: SchedulerPod) -> bool:
    found = pod.condition(POD_SCHEDULED)
    return found is not None and found.status == "False" and found.reason == "Unschedulable"
