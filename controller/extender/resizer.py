"""Writes the amounts of reservations that are to be resized; `dra.engine.scheduling.resizing` decides."""

import asyncio
from typing import Final

from controller.extender.events import ExtenderEvents
from controller.extender.informers import ExtenderInformers
from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import ExtenderWriter, UnknownOutcomeError
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.instants import NEVER, Instant, Moment
from dra.engine.scheduling import resizing
from dra.engine.scheduling.resizing import RETRY_AFTER, Resize
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.kube.client import WRITE_TIMEOUT
from dra.model.meta import Uid

READ_INTERVAL: Final = 1.0
"""Seconds between two reads of a reservation whose resize was not answered."""

_RETRY: Final = (RETRY_AFTER, RETRY_AFTER)


class ReservationResizer(Reconciler[Uid]):
    """The loop that resizes reservations to the requested amounts, one after the other."""

    settings = Settings(
        name="reservation",
        workers=1,
        retry=_RETRY,
        retry_after={WriteRefusedError: _RETRY, UnknownOutcomeError: _RETRY},
        batch_delay=1.0,
    )
    cache: SchedulerCache

    def __init__(
        self,
        runtime: Runtime[ExtenderMetrics],
        informers: ExtenderInformers,
        *,
        cache: SchedulerCache,
        writer: ExtenderWriter,
    ) -> None:
        super().__init__(runtime, informers, cache)
        self._writer = writer
        self._events = ExtenderEvents(runtime.recorder)

    async def reconcile(self, key: Uid, now: Moment) -> Instant:
        """Resize one reservation, unless it holds what it requests; return when to try again.

        Raises WriteRefusedError and UnknownOutcomeError.
        """
        known = self.cache.reservation(key)
        if known is None:
            return NEVER
        plan = resizing.decide(self.cache, known, now=now.instant)
        for action in plan.actions:
            await self._resize(known, action)
        for reason in plan.reasons:
            self._events.not_resized(known, reason)
        return plan.wake_at

    def subject(self, key: Uid) -> str:
        """Return the reservation by its name, as log messages have it."""
        known = self.cache.reservation(key)
        return super().subject(key) if known is None else f"reservation {known.name}"

    async def _resize(self, known: CachedReservation, resize: Resize) -> None:
        uid = known.info.uid
        self.cache.hold_for_resize(uid, resize.held)
        try:
            await self._writer.update_status(uid, resize.update, deadline=self._writer.deadline())
        except WriteRefusedError:
            await self._read(known)
            raise
        except UnknownOutcomeError:
            await asyncio.sleep(WRITE_TIMEOUT)  # until then the write may still arrive
            await self._read(known)
            raise
        finally:
            self.cache.hold_for_resize(uid, None)

    async def _read(self, known: CachedReservation) -> None:
        """Read the reservation before giving up the greater amounts."""
        while True:
            try:
                await self._writer.read_reservation(known, deadline=self._writer.deadline())
            except WriteRefusedError:
                await asyncio.sleep(READ_INTERVAL)
            else:
                return
