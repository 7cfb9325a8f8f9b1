"""Watch streams: the history of a selection from a revision on, as frames.

A watch holds a position, nothing else: what it sends next is read from the history when the client has taken what was
sent before. Watchers that stand at the same place share the bytes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Hashable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

from dra.local import refusals
from dra.local.kinds.kind import Kind
from dra.local.objects import encode
from dra.local.options import Listing
from dra.local.selection import Selection
from dra.local.store import Change, Event, Expired, Store, Stored
from dra.local.tables import Shape

BOOKMARK_PERIOD: Final = 60.0
"""Seconds between bookmarks, as upstream."""

BOOKMARK_MARGIN: Final = 2.0
"""Seconds before its end at which a watch sends the last."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_EVENTS_PER_BLOCK: Final = 256
"""A block has at most so many events: a reader that is slow holds no more than that."""

_SHARED: Final = 16
"""Blocks that are kept for the next watcher who is at the same place."""


class Blocks:
    """Blocks of frames, made once for all watchers that need the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    def of(self, events: list[Event], selection: Selection, shape: Shape) -> bytes:
        """Return what a selection shows of a stretch of history; empty when nothing."""
        key = (selection.key, shape.key, events[0].now.revision, events[-1].now.revision)
        if not shape.key or (found := self._kept.get(key)) is None:
            changes = (selection.change(event) for event in events)
            found = b"".join(_frame(change, shape.one(now.raw)) for change, now in filter(None, changes))
            if shape.key:
                self._kept[key] = found
                if len(self._kept) > _SHARED:
                    self._kept.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """One watch, checked and ready to begin."""

    store: Store
    shared: Blocks
    kind: Kind
    selection: Selection
    shape: Shape
    options: Listing
    lasts: float
    """Seconds after which it ends."""

    async def blocks(self) -> AsyncGenerator[bytes]:
        """Yield blocks of frames until the time is over or the position is too old."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.lasts
        position = self.store.revision if self._from_now else self.options.revision or 0
        try:
            if self._shows_present:
                position = self.store.revision
                for block in self._present():
                    yield block
                if self.options.initial_events and self.options.bookmarks:
                    yield self._bookmark(position, {INITIAL_EVENTS_END: "true"})
            marked = loop.time()
            while True:
                events = self.store.since(self.kind.collection, position, limit=_EVENTS_PER_BLOCK)
                if events:
                    position = events[-1].now.revision
                    if block := self.shared.of(events, self.selection, self.shape):
                        yield block
                    continue
                position = max(position, self.store.revision)
                due = self._next_bookmark(marked, ends=ends)
                if await self._changes(position, within=min(due, ends) - loop.time()):
                    continue
                if loop.time() >= ends:
                    return
                yield self._bookmark(position)
                marked = loop.time()
        except Expired as error:
            yield _frame("ERROR", encode(refusals.expired(str(error)).status))

    def _next_bookmark(self, last: float, *, ends: float) -> float:
        """Return when to send one: every minute, and shortly before the end so that the next watch begins late."""
        if not self.options.bookmarks:
            return inf
        before_end = ends - BOOKMARK_MARGIN
        return min(last + BOOKMARK_PERIOD, before_end if before_end > last else inf)

    @property
    def _shows_present(self) -> bool:
        if self.options.initial_events is not None:
            return self.options.initial_events
        return not self.options.revision

    @property
    def _from_now(self) -> bool:
        return self._shows_present or not self.options.revision

    def _present(self) -> Iterable[bytes]:
        found = [each for each in self.store.snapshot(self.kind.collection) if each in self.selection]
        for start in range(0, len(found), _EVENTS_PER_BLOCK):
            yield self._added(found[start : start + _EVENTS_PER_BLOCK])

    def _added(self, found: Iterable[Stored]) -> bytes:
        return b"".join(_frame(Change.ADDED, self.shape.one(each.raw)) for each in found)

    async def _changes(self, position: int, *, within: float) -> bool:
        """Wait; return whether something has happened after a position in time."""
        try:
            async with asyncio.timeout(max(0.0, within)):
                await self.store.change(self.kind.collection, position)
        except TimeoutError:
            return False
        return True

    def _bookmark(self, position: int, annotations: dict[str, str] | None = None) -> bytes:
        meta = {"resourceVersion": str(position)} | ({"annotations": annotations} if annotations else {})
        obj = {"kind": self.kind.name, "apiVersion": self.kind.api_version, "metadata": meta}
        return _frame("BOOKMARK", self.shape.mark(obj))


def _frame(kind: str, shown: bytes) -> bytes:
    return b"".join((_HEADS[kind], shown, b"}\n"))


_HEADS: Final = {
    kind: b'{"type":"' + kind.encode() + b'","object":' for kind in (*map(str, Change), "BOOKMARK", "ERROR")
}
