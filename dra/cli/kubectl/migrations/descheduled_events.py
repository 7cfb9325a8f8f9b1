"""Finds the eviction that a new pod follows, by Events: a job that has been deleted, or an evictor without jobs.

An Event names the pod that was evicted, and that pod is gone. The new pod has the same name, or the name of the same
workload with another end; so the text says how the two were connected.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from dra.cli.kubectl.connection import Connection
from dra.engine.messages.remedies import without_commands
from dra.engine.migration.reasons import MigrationReason
from dra.kube.client import Selection
from dra.kube.errors import ApiError
from dra.kube.resources import EVENTS
from dra.model.meta import BoundedObject, Key, ObjectMeta, Struct

EVENTS_LAST: Final = timedelta(hours=1)
"""Time for which an API server keeps Events by default; a pod that is older needs no look."""

NOTE_LENGTH_MAX: Final = 300
_GENERATED: Final = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""The end of a name that Kubernetes has generated."""


class EventObject(Struct, frozen=True):
    """``regarding`` of an Event."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class DescheduledEvent(BoundedObject, frozen=True):
    """An Event with the fields that tell of an eviction."""

    metadata: ObjectMeta
    regarding: EventObject = EventObject()
    reason: str = ""
    note: str = ""


async def read_evictions(connection: Connection, namespace: str) -> list[DescheduledEvent]:
    """Return the Events on pods of a namespace that the descheduler evicted; empty if they cannot be read."""
    selection = Selection(namespace=namespace, fields=f"reason={MigrationReason.DESCHEDULED}")
    events: list[DescheduledEvent] = []
    try:
        async for page in connection.client.list_pages(EVENTS, DescheduledEvent, selection=selection):
            if page.first:
                events.clear()
            events += page.items
    except ApiError:  # it would only be a hint
        return []
    return events


def eviction_before(events: Iterable[DescheduledEvent], pod: Key, uid: str) -> DescheduledEvent | None:
    """Return the last eviction of a pod that the given one seems to replace; None if there is none."""
    namespace, name = pod
    evictions = [
        event
        for event in events
        if event.reason == MigrationReason.DESCHEDULED
        and (event.regarding.kind, event.regarding.namespace) == ("Pod", namespace)
        and event.regarding.uid != uid
        and _base_name(event.regarding.name) == _base_name(name)
    ]
    return max(evictions, key=lambda event: event.metadata.creation_timestamp, default=None)


def eviction_text(event: DescheduledEvent) -> str:
    """Return who was evicted and why, as the Event says."""
    pod = f"{event.regarding.namespace}/{event.regarding.name}"
    note = without_commands(event.note[:NOTE_LENGTH_MAX])
    return f"pod {pod}, by its name of the same workload, was evicted at {event.metadata.creation_timestamp}: {note}"


def is_recent(created: str, *, now: datetime) -> bool:
    """Report whether Events about the predecessor of a pod may still exist."""
    return bool(created) and now - datetime.fromisoformat(created) < EVENTS_LAST


def _base_name(name: str) -> str:
    return _GENERATED.sub("", name)
