"""Writes the amounts of reservations that are to be resized; `dra.engine.scheduling.resizing` decides."""

import asyncio
import logging
from typing import Final, NoReturn

from controller.extender.events import ExtenderEvents
from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import ExtenderWriter, UnknownOutcomeError
from controller.runtime import Runtime
from dra.engine.scheduling import resizing
from dra.engine.scheduling.resizing import RETRY_AFTER, CheckedReservations, Resize
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.kube.client import WRITE_TIMEOUT

ROUND_INTERVAL: Final = 1.0
"""Seconds between two rounds."""

_log: Final = logging.getLogger(__name__)


class ReservationResizer:
    """A loop that resizes reservations to the requested amounts."""

    def __init__(self, runtime: Runtime[ExtenderMetrics], *, cache: SchedulerCache, writer: ExtenderWriter) -> None:
        self._runtime = runtime
        self._cache = cache
        self._writer = writer
        self._events = ExtenderEvents(runtime.recorder)
        self._checked = CheckedReservations()

    async def run(self) -> NoReturn:
        """Check changed reservations until cancelled."""
        while True:
            await asyncio.sleep(ROUND_INTERVAL)
            for known in self._checked.due(self._cache.available(), now=self._runtime.instant()):
                await self._resize(known)

    async def _resize(self, known: CachedReservation) -> None:
        plan = resizing.decide(self._cache, known, now=self._runtime.instant())
        self._checked.add(known, next_check=plan.wake_at)
        for action in plan.actions:
            await self._write(known, action)
        for reason in plan.reasons:
            self._events.not_resized(known, reason)

    async def _write(self, known: CachedReservation, resize: Resize) -> None:
        uid = known.info.uid
        self._cache.hold_for_resize(uid, resize.held)
        try:
            await self._writer.update_status(uid, resize.update, deadline=self._writer.deadline())
        except (WriteRefusedError, UnknownOutcomeError) as error:
            _log.info("reservation %s: not resized, retrying: %s", known.name, error)
            self._checked.add(known, next_check=self._runtime.instant() + RETRY_AFTER)
            await self._wait_for_outcome(
                known, after_seconds=WRITE_TIMEOUT if isinstance(error, UnknownOutcomeError) else 0.0
            )
        finally:
            self._cache.hold_for_resize(uid, None)

    async def _wait_for_outcome(self, known: CachedReservation, *, after_seconds: float) -> None:
        """Read the reservation before giving up the greater amounts, once no write can arrive any more."""
        await asyncio.sleep(after_seconds)
        while True:
            try:
                await self._writer.read_reservation(known, deadline=self._writer.deadline())
            except WriteRefusedError:
                await asyncio.sleep(ROUND_INTERVAL)
            else:
                return
