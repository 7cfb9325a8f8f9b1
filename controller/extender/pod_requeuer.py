"""Changes an annotation of rejected pods when capacity was freed, so that kube-scheduler retries them."""

import asyncio
import contextlib
import itertools
import logging
from typing import Final, NoReturn

from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import ExtenderWriter
from controller.runtime import Runtime
from dra.engine.instants import NEVER
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.errors import ApiError

BATCH_PAUSE: Final = 1.0
"""Seconds between two batches."""

_log: Final = logging.getLogger(__name__)


class PodRequeuer:
    """A loop that requeues rejected pods in kube-scheduler, batch by batch."""

    def __init__(self, runtime: Runtime[ExtenderMetrics], *, cache: SchedulerCache, writer: ExtenderWriter) -> None:
        self._runtime = runtime
        self._cache = cache
        self._writer = writer
        self._marks = itertools.count()
        self._wakeup = asyncio.Event()
        cache.unschedulable.on_due = self._wakeup.set

    async def run(self) -> NoReturn:
        """Requeue due pods until cancelled."""
        self._cache.unschedulable.adopt(self._cache.pending_pods())
        while True:
            await asyncio.sleep(BATCH_PAUSE)
            await self._wait_for_batch()
            mark = f"{int(self._runtime.moment().wall)}-{next(self._marks)}"
            for uid, key in self._cache.unschedulable.next_batch(now=self._runtime.instant()):
                try:
                    await self._writer.requeue_pod(key, uid, mark)
                except ApiError as error:  # kube-scheduler retries the pod later anyway
                    _log.info("pod %s/%s: not requeued: %s", *key, error)

    async def _wait_for_batch(self) -> None:
        while (due_at := self._cache.unschedulable.due_at()) > (now := self._runtime.instant()):
            self._wakeup.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due_at == NEVER else due_at - now):
                    await self._wakeup.wait()
