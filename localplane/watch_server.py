"""Streams watches: the events of a selection from a revision on, encoded as frames.

A watch holds only a position: its next events are read from the history after the client has read the previous block.
Watches at the same position share encoded blocks.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Hashable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

from localplane import status_errors
from localplane.kinds.kind import Kind
from localplane.objects import encode
from localplane.query_options import ListOptions
from localplane.representations import Representation
from localplane.selection_predicate import SelectionPredicate
from localplane.store import CompactedError, Store, StoredObject, WatchCacheEvent, WatchEventType

BOOKMARK_PERIOD: Final = 60.0
"""Seconds between bookmarks, as upstream."""

BOOKMARK_MARGIN: Final = 2.0
"""Seconds before its end at which a watch sends its last bookmark."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_EVENTS_PER_BLOCK: Final = 256
"""Maximum number of events in a block, which bounds the memory held for a slow reader."""

_BLOCK_CACHE_SIZE: Final = 16
"""Number of encoded blocks kept for other watches at the same position."""


class EncodedBlockCache:
    """A cache of encoded blocks, shared by all watches that need the same block."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    def of(self, events: list[WatchCacheEvent], selection: SelectionPredicate, shape: Representation) -> bytes:
        """Return the frames of the selected events; empty if no event is selected."""
        key = (selection.key, shape.key, events[0].now.revision, events[-1].now.revision)
        if not shape.key or (found := self._kept.get(key)) is None:
            changes = (selection.change(event) for event in events)
            found = b"".join(_encode_frame(change, shape.one(now.raw)) for change, now in filter(None, changes))
            if shape.key:
                self._kept[key] = found
                if len(self._kept) > _BLOCK_CACHE_SIZE:
                    self._kept.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchServer:
    """One validated watch that is ready to start."""

    store: Store
    shared: EncodedBlockCache
    kind: Kind
    selection: SelectionPredicate
    shape: Representation
    options: ListOptions
    lasts: float
    """Seconds after which the watch ends."""

    async def blocks(self) -> AsyncGenerator[bytes]:
        """Yield blocks of frames until the watch times out or its position is compacted."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.lasts
        position = self.store.revision if self._starts_at_latest else self.options.revision or 0
        try:
            if self._sends_initial_events:
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
                due = self._next_bookmark_at(marked, ends=ends)
                if await self._changes(position, within=min(due, ends) - loop.time()):
                    continue
                if loop.time() >= ends:
                    return
                yield self._bookmark(position)
                marked = loop.time()
        except CompactedError as error:
            yield _encode_frame("ERROR", encode(status_errors.expired(str(error)).status))

    def _next_bookmark_at(self, last: float, *, ends: float) -> float:
        """Return the time of the next bookmark: every minute, and once shortly before the end of the watch.

        The last bookmark lets the next watch start from a recent revision.
        """
        if not self.options.bookmarks:
            return inf
        before_end = ends - BOOKMARK_MARGIN
        return min(last + BOOKMARK_PERIOD, before_end if before_end > last else inf)

    @property
    def _sends_initial_events(self) -> bool:
        if self.options.initial_events is not None:
            return self.options.initial_events
        return not self.options.revision

    @property
    def _starts_at_latest(self) -> bool:
        return self._sends_initial_events or not self.options.revision

    def _present(self) -> Iterable[bytes]:
        found = [each for each in self.store.snapshot(self.kind.collection) if each in self.selection]
        for start in range(0, len(found), _EVENTS_PER_BLOCK):
            yield self._added(found[start : start + _EVENTS_PER_BLOCK])

    def _added(self, found: Iterable[StoredObject]) -> bytes:
        return b"".join(_encode_frame(WatchEventType.ADDED, self.shape.one(each.raw)) for each in found)

    async def _changes(self, position: int, *, within: float) -> bool:
        """Wait for events after a position; return whether any has happened in time."""
        try:
            async with asyncio.timeout(max(0.0, within)):
                await self.store.change(self.kind.collection, position)
        except TimeoutError:
            return False
        return True

    def _bookmark(self, position: int, annotations: dict[str, str] | None = None) -> bytes:
        meta = {"resourceVersion": str(position)} | ({"annotations": annotations} if annotations else {})
        obj = {"kind": self.kind.name, "apiVersion": self.kind.api_version, "metadata": meta}
        return _encode_frame("BOOKMARK", self.shape.mark(obj))


def _encode_frame(kind: str, shown: bytes) -> bytes:
    return b"".join((_FRAME_PREFIXES[kind], shown, b"}\n"))


_FRAME_PREFIXES: Final = {
    kind: b'{"type":"' + kind.encode() + b'","object":' for kind in (*map(str, WatchEventType), "BOOKMARK", "ERROR")
}
