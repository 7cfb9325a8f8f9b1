"""Changes an annotation of rejected pods when capacity was freed, so that kube-scheduler retries them."""

import asyncio
import itertools
import logging
from typing import Final, NoReturn

from controller.extender.writer import ExtenderWriter
from dra.engine.scheduling.unschedulable_pods import UnschedulablePods
from dra.kube.clock import Clock
from dra.kube.errors import ApiError

BATCH_PAUSE: Final = 1.0
"""Minimum number of seconds between two batches."""

_log: Final = logging.getLogger(__name__)


class PodRequeuer:
    """A loop that requeues rejected pods in kube-scheduler, batch by batch."""

    def __init__(self, pods: UnschedulablePods, *, writer: ExtenderWriter, clock: Clock) -> None:
        self.pods = pods
        self._writer = writer
        self._clock = clock
        self._wakeup = asyncio.Event()
        self._marks = itertools.count()

    def requeue_all(self) -> None:
        """Requeue all rejected pods: a reservation has freed capacity or has become available."""
        self.pods.move_all_to_due()
        self._wakeup.set()

    async def run(self) -> NoReturn:
        """Requeue due pods until cancelled."""
        self.pods.adopt()
        self._wakeup.set()
        while True:
            await self._wakeup.wait()
            await asyncio.sleep(BATCH_PAUSE)
            mark = f"{int(self._clock.wall().timestamp())}-{next(self._marks)}"
            for uid, key in self.pods.next_batch():
                try:
                    await self._writer.requeue_pod(key, uid, mark)
                except ApiError as error:  # kube-scheduler retries the pod later anyway
                    _log.info("pod %s/%s: not requeued: %s", *key, error)
            if not self.pods.has_due:
                self._wakeup.clear()
