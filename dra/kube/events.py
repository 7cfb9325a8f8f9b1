"""Recording of Kubernetes Events, the only channel that ``kubectl describe`` shows.

Best effort by design: an Event that cannot be written is counted and dropped, and recording never blocks, because no
decision may depend on it. Information that must not be lost is in conditions and annotations.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import msgspec

from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock, rfc3339_micro
from dra.kube.errors import AlreadyExists, ApiError, NotFound, ServerError, TooManyRequests, Unreachable
from dra.kube.event_correlator import SERIES_UPDATE_INTERVAL, EventCorrelator, EventRecord, EventSeries, truncated_note
from dra.kube.fair_queue import FairQueue
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import EVENTS
from dra.model.meta import PartialObjectMetadata

CONTROLLER: Final = "reserve.dra/controller"

QUEUE_MAX: Final = 1000
"""Maximum number of queued Events, of which namespaces take turns; beyond it, Events of the namespace with most of them
are discarded."""

ATTEMPTS: Final = 3
FLUSH_TIMEOUT: Final = 5.0
_NAME_MAX: Final = 200

_log: Final = logging.getLogger(__name__)


class EventRecorder:
    """A recorder that writes Events one after the other.

    Call `record` from anywhere; run `run` as a task; call `close` at the end.
    """

    def __init__(
        self,
        client: Client,
        *,
        instance: str,
        controller: str = CONTROLLER,
        clock: Clock = SYSTEM,
        on_discard: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Create a recorder; ``on_discard`` is called with the number of Events that were just discarded."""
        self.posted = 0
        self.discarded = 0
        """Events that were not written: queue full, forbidden, namespace terminating, or server unreachable."""

        self._client = client
        self._instance = instance
        self._controller = controller
        self._clock = clock
        self._on_discard = on_discard
        self._correlator = EventCorrelator()
        self._queue: FairQueue[EventSeries] = FairQueue(QUEUE_MAX)
        self._posting: EventSeries | None = None
        self._wakeup = asyncio.Event()
        self._numbers = itertools.count()

    def record(self, record: EventRecord) -> None:
        """Record an Event; one that was recorded recently is only counted."""
        series = self._correlator.correlate(record, now=self._clock.now())
        if series is None:
            return
        dropped = self._queue.put(series, namespace=record.regarding.event_namespace)
        if dropped is not None:
            self._discard(dropped)
        self._wakeup.set()

    def _discard(self, series: EventSeries) -> None:
        self.discarded += 1
        self._on_discard(1)
        self._correlator.forget(series)

    async def run(self) -> NoReturn:
        """Write recorded Events until cancelled."""
        while True:
            await self._drain()
            for series in self._correlator.due(now=self._clock.now()):
                await self._count(series)
                await self._drain()  # thousands of counts of one namespace must not keep the Events of others
            self._wakeup.clear()
            if self._queue:
                continue
            try:
                async with asyncio.timeout(SERIES_UPDATE_INTERVAL / 4.0):
                    await self._wakeup.wait()
            except TimeoutError:
                continue  # counts may be due

    async def close(self) -> None:
        """Write the remaining Events, for at most `FLUSH_TIMEOUT` seconds. Cancel `run` before."""
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT):
                await self._drain()
                for series in self._correlator.due(now=self._clock.now(), all_series=True):
                    await self._count(series)
        except TimeoutError:
            left = self._queue.clear() + (self._posting is not None)
            self._posting = None
            self.discarded += left
            self._on_discard(left)

    async def _drain(self) -> None:
        while self._posting is not None or self._queue:
            self._posting = self._posting or self._queue.pop()
            await self._post(self._posting)
            self._posting = None  # only now: `close` repeats a cancelled post under the same name

    async def _post(self, series: EventSeries) -> None:
        """Create the Event of a new series."""
        record = series.record
        try:
            series.name = series.name or self._name(record)
            await self._create(record.regarding.event_namespace, self._body(series))
        except Exception as error:  # noqa: BLE001 - one event must not stop all others
            if isinstance(error, ApiError):
                _log.debug("%s", error)
            else:
                _log.exception("event %r not created, internal error", record.note)
            self._discard(series)
        else:
            self.posted += 1
            series.posted = True

    def _body(self, series: EventSeries) -> dict[str, Any]:
        record = series.record
        return {
            "metadata": {"name": series.name},
            "eventTime": rfc3339_micro(self._clock.wall()),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": record.action,
            "reason": record.reason,
            "regarding": msgspec.to_builtins(record.regarding),
            "note": truncated_note(record.note),
            "type": record.severity,
        }

    async def _create(self, namespace: str, body: Mapping[str, Any]) -> None:
        """Create an Event, retrying while the server is unreachable: the fixed name makes a retry safe."""
        backoff = Backoff(base=0.5)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._client.create(
                    EVENTS, body, model=PartialObjectMetadata, namespace=namespace, priority=RequestPriority.REPORT
                )
            except AlreadyExists:  # an earlier attempt succeeded
                return
            except (Unreachable, ServerError, TooManyRequests):
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _count(self, series: EventSeries) -> None:
        """Write the count of a series to its Event."""
        regarding = series.record.regarding
        count = series.count
        change: dict[str, Any] = {"series": {"count": count, "lastObservedTime": rfc3339_micro(self._clock.wall())}}
        try:
            await self._client.merge_patch(
                EVENTS,
                (regarding.event_namespace, series.name),
                change,
                model=PartialObjectMetadata,
                priority=RequestPriority.REPORT,
            )
        except NotFound:  # Events expire after an hour
            self._correlator.forget(series)
        except ApiError as error:
            _log.debug("%s", error)
        series.written = count
        series.written_at = self._clock.now()

    def _name(self, record: EventRecord) -> str:
        """Return a unique name, built as in client-go from the object's name and the time, plus a sequence number."""
        micros = int(self._clock.wall().timestamp() * 1_000_000)
        return f"{record.regarding.name[:_NAME_MAX].rstrip('.-')}.{micros:x}{next(self._numbers):04x}"
