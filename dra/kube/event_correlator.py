"""Which events are news and which are repetitions: the part of the event recorder that needs no network.

The same sentence about the same object, said again within ten minutes of the last time, is one Event whose ``series``
counts. The count is written slowly: a claim that waits is looked at every second, and nobody reads that fast.
"""

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra.kube.resources import Resource
from dra.model.meta import ObjectMeta, Struct, Uid

SERIES_WINDOW: Final = 600.0
"""Seconds after which the same sentence is news again."""

SERIES_UPDATE_INTERVAL: Final = 120.0
"""Seconds between two writes of one event's count."""

SERIES_MAX: Final = 2048

NOTE_MAX: Final = 1024
"""Bytes; the API server refuses longer notes."""


class EventType(StrEnum):
    """``type`` of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Regarding(Struct, frozen=True):
    """The object an event is about."""

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

    @property
    def event_namespace(self) -> str:
        """Where its events go; those of cluster-scoped objects are accepted in ``default`` only."""
        return self.namespace or "default"


class EventRecord(Struct, frozen=True):
    """One sentence about one object."""

    regarding: Regarding
    severity: EventType
    reason: str
    action: str
    note: str

    @property
    def identity(self) -> tuple[Uid, str, str, str]:
        """What makes two facts the same."""
        return (self.regarding.uid, self.reason, self.severity, self.note)


@dataclass(slots=True)
class EventSeries:
    """One fact and how often it was stated."""

    fact: EventRecord
    last: float
    """When it was last stated."""

    name: str = ""
    """Name of its Event; empty until that is about to be posted."""

    posted: bool = False
    count: int = 1
    written: int = 1
    written_at: float = 0.0


class EventCorrelator:
    """The series of the last ten minutes, a bounded number of them."""

    def __init__(self) -> None:
        self._series: OrderedDict[tuple[Uid, str, str, str], EventSeries] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def state(self, fact: EventRecord, *, now: float) -> EventSeries | None:
        """Take note of `fact`; return its new series if it is news, None if it was counted."""
        identity = fact.identity
        known = self._series.get(identity)
        if known is not None and now - known.last < SERIES_WINDOW:
            known.count += 1
            known.last = now
            self._series.move_to_end(identity)
            return None
        series = EventSeries(fact, now, written_at=now)
        self._series[identity] = series
        self._series.move_to_end(identity)
        self._trim(now)
        return series

    def due(self, *, now: float, all_of_them: bool = False) -> list[EventSeries]:
        """Return the posted series whose counts should be written now."""
        return [
            each
            for each in self._series.values()
            if each.posted
            and each.count > each.written
            and (all_of_them or now - each.written_at >= SERIES_UPDATE_INTERVAL)
        ]

    def forget(self, series: EventSeries) -> None:
        """Treat the fact as news the next time: its Event is gone, or was never accepted."""
        if self._series.get(series.fact.identity) is series:
            del self._series[series.fact.identity]

    def _trim(self, now: float) -> None:
        """Let go of what is over, and of the oldest when there is too much; they are in order of `last`."""
        while self._series:
            oldest = next(iter(self._series.values()))
            if len(self._series) <= SERIES_MAX and now - oldest.last < SERIES_WINDOW:
                return
            self._series.popitem(last=False)


def truncated_note(note: str) -> str:
    """Return `note`, cut to what the API server accepts."""
    raw = note.encode()
    if len(raw) <= NOTE_MAX:
        return note
    return raw[: NOTE_MAX - len("…".encode())].decode(errors="ignore") + "…"
