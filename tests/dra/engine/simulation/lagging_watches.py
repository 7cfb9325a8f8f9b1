"""Watches: events of one kind, in order, as late as the machine likes.

What the reflector does with them is modelled after dra/kube/store.py: another uid under a known name is two changes,
and a list is compared with what is known, so that objects that vanished in a gap are reported as deleted.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from dra.model.meta import Key, Uid
from tests.dra.engine.simulation.server import Object, Server

T = TypeVar("T", bound=Object)


class LaggingWatch(Generic[T]):
    """One watch. ``upserted`` and ``deleted`` are called with what has changed."""

    def __init__(
        self, server: Server, kind: type[T], *, upserted: Callable[[T], None], deleted: Callable[[T], None]
    ) -> None:
        self.listed = False
        self.lag = 0.0
        """Seconds by which the watch is behind; only the machine sets it."""

        self.seen: dict[Key, T] = {}
        self.known: set[Uid] = set()
        """The uids of all objects that were ever shown."""

        self._server = server
        self._kind = kind
        self._upserted = upserted
        self._deleted = deleted
        self._position = 0

    @property
    def pending_events(self) -> int:
        """How many events have not been delivered."""
        return len(self._server.log[self._kind]) - self._position

    @property
    def due_events(self) -> int:
        """How many events that have not been delivered are old enough to have arrived."""
        log, due = self._server.log[self._kind], self._server.now - self.lag
        position = self._position
        while position < len(log) and log[position].at <= due:
            position += 1
        return position - self._position

    def list(self) -> None:
        """List everything and go on from there; it is the beginning, or the watch was too old (410)."""
        objects = {obj.metadata.key: obj for obj in self._server.list(self._kind)}
        for obj in objects.values():
            known = self.seen.get(obj.metadata.key)
            if known is None or known.metadata.resource_version != obj.metadata.resource_version:
                self._put(obj)
        for key in [key for key in self.seen if key not in objects]:
            self._deleted(self.seen.pop(key))
        self._position = len(self._server.log[self._kind])
        self.listed = True

    def deliver(self, count: int) -> None:
        """Deliver events; the first delivery of all is the list."""
        if not self.listed:
            self.list()
            return
        for event in self._server.log[self._kind][self._position : self._position + count]:
            self._position += 1
            if event.after is not None:
                self._put(event.after)  # type: ignore[arg-type]
            elif event.key in self.seen:
                self._deleted(self.seen.pop(event.key))

    def _put(self, obj: T) -> None:
        known = self.seen.get(obj.metadata.key)
        if known is not None and known.metadata.uid != obj.metadata.uid:
            self._deleted(known)
        self.seen[obj.metadata.key] = obj
        self.known.add(obj.metadata.uid)
        self._upserted(obj)
