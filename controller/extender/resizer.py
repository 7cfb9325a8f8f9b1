"""Resizing of reservations, requested by the annotation ``reservation-resize-allocatable``.

An increase is granted only if the node has all of it free; a decrease is always granted. While the status is being
written, the maximum of both amounts is held, so that no other pod gets the old or the new amounts in between.
"""

import asyncio
import logging
from typing import Final, NoReturn

from controller.extender.events import ExtenderEvents
from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import ExtenderWriter, UnknownOutcomeError
from controller.runtime import Runtime
from dra.engine.reservations import reservation_info, reservation_placement, statuses
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import ResizeReservation, WriteRefusedError
from dra.kube.client import WRITE_TIMEOUT
from dra.model import quantities
from dra.model.meta import Uid
from dra.model.quantities import NANOS_PER_UNIT, PODS

ROUND_INTERVAL: Final = 1.0
"""Seconds between two rounds."""

RETRY_AFTER: Final = 15.0
"""Seconds after which a resize that did not fit is retried."""

_log: Final = logging.getLogger(__name__)


class ReservationResizer:
    """A loop that resizes reservations to the requested amounts."""

    def __init__(self, runtime: Runtime[ExtenderMetrics], *, cache: SchedulerCache, writer: ExtenderWriter) -> None:
        self._runtime = runtime
        self._cache = cache
        self._writer = writer
        self._events = ExtenderEvents(runtime.recorder)
        self._seen: dict[Uid, tuple[str, float]] = {}
        """The version that was checked, and the time of the next check."""

    async def run(self) -> NoReturn:
        """Check changed reservations until cancelled."""
        while True:
            await asyncio.sleep(ROUND_INTERVAL)
            known = self._cache.available()
            for each in known:
                version, again = self._seen.get(each.info.uid, ("", 0.0))
                if version != each.version or again <= self._runtime.instant():
                    await self._resize(each)
            available = {each.info.uid for each in known}
            self._seen = {uid: seen for uid, seen in self._seen.items() if uid in available}

    async def _resize(self, known: CachedReservation) -> None:
        uid = known.info.uid
        self._seen[uid] = (known.version, float("inf"))
        if known.info.parse_error or known.info.terminating or statuses.resized_status(known.reservation) is None:
            return
        wanted = reservation_info.reservation_requests(known.reservation)
        node = self._cache.accounting.node(known.info.node)
        if node is None or uid not in node.reservations:
            return
        if lacking := reservation_placement.insufficient_for_resize(node, uid, wanted):
            self._seen[uid] = (known.version, self._runtime.instant() + RETRY_AFTER)
            self._events.not_resized(known, ", ".join(each.text for each in lacking))
            return
        self._cache.hold_for_resize(uid, quantities.maximum(known.info.allocatable, {PODS: NANOS_PER_UNIT, **wanted}))

        try:
            await self._writer.update_status(uid, ResizeReservation(wanted), deadline=self._writer.deadline())
        except (WriteRefusedError, UnknownOutcomeError) as error:
            _log.info("reservation %s: not resized, retrying: %s", known.name, error)
            self._seen[uid] = (known.version, self._runtime.instant() + RETRY_AFTER)
            await self._wait_for_outcome(
                known, after_seconds=WRITE_TIMEOUT if isinstance(error, UnknownOutcomeError) else 0.0
            )
        finally:
            self._cache.hold_for_resize(uid, None)

    async def _wait_for_outcome(self, known: CachedReservation, *, after_seconds: float) -> None:
        """Read the reservation before giving up the greater amounts.

        After `quiet` seconds no write can arrive any more.
        """
        await asyncio.sleep(after_seconds)
        while True:
            try:
                await self._writer.read_reservation(known, deadline=self._writer.deadline())
            except WriteRefusedError:
                await asyncio.sleep(ROUND_INTERVAL)
            else:
                return
