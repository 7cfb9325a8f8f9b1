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
        self._blocks: OrderedDict[Hashable, bytes] = OrderedDict()

    def encode(
        self, events: list[WatchCacheEvent], selection: SelectionPredicate, representation: Representation
    ) -> bytes:
        """Return the frames of the selected events; empty if no event is selected."""
        key = (selection.key, representation.key, events[0].object.revision, events[-1].object.revision)
        if not representation.key or (block := self._blocks.get(key)) is None:
            watch_events = (selection.to_watch_event(event) for event in events)
            block = b"".join(
                _encode_frame(event_type, representation.encode_object(stored.raw))
                for event_type, stored in filter(None, watch_events)
            )
            if representation.key:
                self._blocks[key] = block
                if len(self._blocks) > _BLOCK_CACHE_SIZE:
                    self._blocks.popitem(last=False)
        return block


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchServer:
    """One validated watch that is ready to start."""

    store: Store
    block_cache: EncodedBlockCache
    kind: Kind
    selection: SelectionPredicate
    representation: Representation
    options: ListOptions
    timeout_seconds: float
    """Seconds after which the watch ends."""

    async def blocks(self) -> AsyncGenerator[bytes]:
        """Yield blocks of frames until the watch times out or its position is compacted."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_seconds
        position = self.store.revision if self._starts_at_latest else self.options.revision or 0
        try:
            if self._sends_initial_events:
                position = self.store.revision
                for block in self._initial_blocks():
                    yield block
                if self.options.send_initial_events and self.options.allow_watch_bookmarks:
                    yield self._bookmark(position, {INITIAL_EVENTS_END: "true"})
            last_bookmark = loop.time()
            while True:
                events = self.store.events_since(self.kind.collection, position, limit=_EVENTS_PER_BLOCK)
                if events:
                    position = events[-1].object.revision
                    if block := self.block_cache.encode(events, self.selection, self.representation):
                        yield block
                    continue
                position = max(position, self.store.revision)
                next_bookmark = self._next_bookmark_at(last_bookmark, deadline=deadline)
                if await self._wait_for_change(position, within=min(next_bookmark, deadline) - loop.time()):
                    continue
                if loop.time() >= deadline:
                    return
                yield self._bookmark(position)
                last_bookmark = loop.time()
        except CompactedError as error:
            yield _encode_frame("ERROR", encode(status_errors.expired(str(error)).status))

    def _next_bookmark_at(self, last: float, *, deadline: float) -> float:
        """Return the time of the next bookmark: every minute, and once shortly before the end of the watch.

        The last bookmark lets the next watch start from a recent revision.
        """
        if not self.options.allow_watch_bookmarks:
            return inf
        before_end = deadline - BOOKMARK_MARGIN
        return min(last + BOOKMARK_PERIOD, before_end if before_end > last else inf)

    @property
    def _sends_initial_events(self) -> bool:
        if self.options.send_initial_events is not None:
            return self.options.send_initial_events
        return not self.options.revision

    @property
    def _starts_at_latest(self) -> bool:
        return self._sends_initial_events or not self.options.revision

    def _initial_blocks(self) -> Iterable[bytes]:
        objects = [stored for stored in self.store.snapshot(self.kind.collection) if stored in self.selection]
        for start in range(0, len(objects), _EVENTS_PER_BLOCK):
            yield self._added_frames(objects[start : start + _EVENTS_PER_BLOCK])

    def _added_frames(self, objects: Iterable[StoredObject]) -> bytes:
        return b"".join(
            _encode_frame(WatchEventType.ADDED, self.representation.encode_object(stored.raw)) for stored in objects
        )

    async def _wait_for_change(self, position: int, *, within: float) -> bool:
        """Wait for events after a position; return whether any has happened in time."""
        try:
            async with asyncio.timeout(max(0.0, within)):
                await self.store.wait_for_change(self.kind.collection, position)
        except TimeoutError:
            return False
        return True

    def _bookmark(self, position: int, annotations: dict[str, str] | None = None) -> bytes:
        meta = {"resourceVersion": str(position)} | ({"annotations": annotations} if annotations else {})
        obj = {"kind": self.kind.name, "apiVersion": self.kind.api_version, "metadata": meta}
        return _encode_frame("BOOKMARK", self.representation.encode_bookmark(obj))


def _encode_frame(kind: str, shown: bytes) -> bytes:
    return b"".join((_FRAME_PREFIXES[kind], shown, b"}\n"))


_FRAME_PREFIXES: Final = {
    kind: b'{"type":"' + kind.encode() + b'","object":' for kind in (*map(str, WatchEventType), "BOOKMARK", "ERROR")
}
