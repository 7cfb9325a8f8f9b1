"""Correlation of Events into series: the part of the event recorder that needs no network.

The same note about the same object, repeated within ten minutes of the last time, is one Event whose ``series`` counts.
The count is written slowly: a waiting claim is reconciled every second, and no user reads that fast.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from dra.kube.resources import Resource
from dra.model.event_type import EventType
from dra.model.meta import ObjectMeta, Struct, Uid

SERIES_WINDOW: Final = 600.0
"""Seconds after which the same note starts a new series."""

SERIES_UPDATE_INTERVAL: Final = 120.0
"""Seconds between two writes of one Event's count."""

SERIES_MAX: Final = 2048

NOTE_MAX: Final = 1024
"""Maximum number of bytes in a note; the API server refuses longer notes."""


class Regarding(Struct, frozen=True):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: Uid

    @classmethod
    def of(cls, resource: Resource, metadata: ObjectMeta) -> "Regarding":
        """Return the reference to an object."""
        return cls(
            api_version=resource.api_version,
            kind=resource.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        )

    @classmethod
    def cluster_scoped(cls, resource: Resource, name: str, uid: Uid) -> "Regarding":
        """Return the reference to an object without a namespace."""
        return cls(api_version=resource.api_version, kind=resource.kind, namespace="", name=name, uid=uid)

    @property
    def event_namespace(self) -> str:
        """Return the namespace for Events about this object; those of cluster-scoped objects must be in ``default``."""
        return self.namespace or "default"


def log_level(severity: EventType) -> int:
    """Return the level of a log line that says the same as an Event."""
    return logging.WARNING if severity is EventType.WARNING else logging.INFO


class EventRecord(Struct, frozen=True):
    """One note about one object."""

    regarding: Regarding
    severity: EventType
    reason: str
    action: str
    note: str

    @property
    def identity(self) -> tuple[Uid, str, str, str]:
        """Return the key by which repetitions of a record are recognized."""
        return (self.regarding.uid, self.reason, self.severity, self.note)


@dataclass(slots=True)
class EventSeries:
    """One record and the number of its repetitions."""

    record: EventRecord
    last: float
    """Time of the last repetition."""

    name: str = ""
    """Name of the Event; empty until the first attempt to create it."""

    posted: bool = False
    count: int = 1
    written: int = 1
    written_at: float = 0.0


class EventCorrelator:
    """The event series of the last ten minutes, at most `SERIES_MAX`."""

    def __init__(self) -> None:
        self._series: OrderedDict[tuple[Uid, str, str, str], EventSeries] = OrderedDict()
        self._repeated: dict[tuple[Uid, str, str, str], EventSeries] = {}
        """Series that were counted up and may not be written yet; the process looks at these several times a second."""

    def __len__(self) -> int:
        return len(self._series)

    def correlate(self, record: EventRecord, *, now: float) -> EventSeries | None:
        """Count `record`; return a new series if the record is new, None if it repeats a known one."""
        identity = record.identity
        known = self._series.get(identity)
        if known is not None and now - known.last < SERIES_WINDOW:
            known.count += 1
            known.last = now
            self._series.move_to_end(identity)
            self._repeated[identity] = known
            return None
        series = EventSeries(record, now, written_at=now)
        self._series[identity] = series
        self._series.move_to_end(identity)
        self._trim(now)
        return series

    def due(self, *, now: float, all_series: bool = False) -> list[EventSeries]:
        """Return the posted series whose counts should be written now."""
        self._repeated = {
            identity: series
            for identity, series in self._repeated.items()
            if series.count > series.written and self._series.get(identity) is series
        }
        return [
            series
            for series in self._repeated.values()
            if series.posted and (all_series or now - series.written_at >= SERIES_UPDATE_INTERVAL)
        ]

    def forget(self, series: EventSeries) -> None:
        """Drop a series, so that its record starts a new one: the Event is gone, or was never accepted."""
        if self._series.get(series.record.identity) is series:
            del self._series[series.record.identity]

    def _trim(self, now: float) -> None:
        """Drop expired series, and the oldest when there are too many; the series are in order of `last`."""
        while self._series:
            oldest = next(iter(self._series.values()))
            if len(self._series) <= SERIES_MAX and now - oldest.last < SERIES_WINDOW:
                return
            self._series.popitem(last=False)


def truncated_note(note: str) -> str:
    """Return `note` truncated to the length that the API server accepts."""
    raw = note.encode()
    if len(raw) <= NOTE_MAX:
        return note
    return raw[: NOTE_MAX - len("…".encode())].decode(errors="ignore") + "…"
