"""Stores objects by key with revisions, as etcd does: each write gets the next revision, recent writes are kept.

The store knows keys and bytes, not the meaning of objects. A watch is a position in the history of its collection
without a queue of its own, so a slow reader costs no memory and gets `CompactedError` once it is too slow. All writes
are synchronous and on one event loop: no other write can come between a decision and its write.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

EVENT_CAPACITY: Final = 20_000
"""Number of events kept per collection, about as many as kube-apiserver's watch cache keeps of a busy resource."""


class WatchEventType(StrEnum):
    """Types of changes to an object; the values are the types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ObjectKey(NamedTuple):
    """The key of an object; `collection` is ``plural.group``, a cluster-scoped object has an empty namespace."""

    collection: str
    namespace: str
    name: str


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One version of one object; `raw` is its JSON with ``metadata.resourceVersion`` = `revision`."""

    key: ObjectKey
    revision: int
    raw: bytes


class WatchCacheEvent(msgspec.Struct, frozen=True, gc=False):
    """One write; `now` is the new version, for a deletion the last version with the revision of the deletion."""

    type: WatchEventType
    object: StoredObject
    previous: StoredObject | None


class CompactedError(Exception):
    """The error of a revision older than the history; `oldest` is the first revision that is still available."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


class _Signal:
    """Wakes all tasks that wait for the next write; most writes have nobody to wake, and cost nothing then."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], None] = {}

    def wake(self) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, {}
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)


@dataclass(slots=True)
class _Collection:
    """The objects of one kind, and their recent events."""

    objects: dict[ObjectKey, StoredObject] = field(default_factory=dict)
    keys: list[ObjectKey] = field(default_factory=list)
    """The keys of `objects` in their order: a page of a list must not sort all objects."""
    history: list[WatchCacheEvent] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)
    """Revisions of the events in `history`, for binary search."""
    compacted: int = 0
    """Revision of the last event that was removed from the history."""
    created_at_revision: int = 0
    """Revision at which the collection was first used: no watch can have begun earlier."""
    changed: _Signal = field(default_factory=_Signal)


class Scan:
    """Objects of a collection in the order of their keys; valid until the next write."""

    def __init__(
        self,
        keys: list[ObjectKey],
        objects: Mapping[ObjectKey, StoredObject],
        undone: Mapping[ObjectKey, StoredObject | None],
    ) -> None:
        """``undone``: what objects were that have changed since the revision of the scan."""
        self._keys = keys
        self._objects = objects
        self._undone = undone

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[StoredObject]:
        objects, undone = self._objects, self._undone
        for key in self._keys:
            yield undone.get(key) or objects[key]


class Store:
    """The store of all objects of one API server."""

    def __init__(self, *, event_capacity: int = EVENT_CAPACITY) -> None:
        self.revision = 1
        self._event_capacity = event_capacity
        self._compacted_revision = 0
        self._revision_changed = _Signal()
        self._collections: dict[str, _Collection] = {}
        self._subscribers: list[Callable[[str], None]] = []

    @property
    def next_revision(self) -> int:
        """Return the revision of the next write; the writer sets the object's resourceVersion to it."""
        return self.revision + 1

    def subscribe(self, subscriber: Callable[[str], None]) -> None:
        """Call a function after each write, with the name of the collection; the function may write."""
        self._subscribers.append(subscriber)

    def get(self, key: ObjectKey) -> StoredObject | None:
        """Return the current version of an object, None if there is none."""
        return self._collection(key.collection).objects.get(key)

    def put(self, key: ObjectKey, raw: bytes) -> StoredObject:
        """Write a version of an object; its JSON has `next_revision` as resourceVersion."""
        collection = self._collection(key.collection)
        before = collection.objects.get(key)
        self.revision += 1
        now = StoredObject(key, self.revision, raw)
        if before is None:
            insort(collection.keys, key)
        collection.objects[key] = now
        self._record_event(
            collection, WatchCacheEvent(WatchEventType.MODIFIED if before else WatchEventType.ADDED, now, before)
        )
        self._notify(key.collection)
        return now

    def remove(self, key: ObjectKey, raw: bytes) -> StoredObject:
        """Delete an object; `raw` is its last version with `next_revision`. Raises KeyError if there is none."""
        collection = self._collection(key.collection)
        before = collection.objects.pop(key)
        del collection.keys[bisect_left(collection.keys, key)]
        self.revision += 1
        last = StoredObject(key, self.revision, raw)
        self._record_event(collection, WatchCacheEvent(WatchEventType.DELETED, last, before))
        self._notify(key.collection)
        return last

    def start_history(self, collection: str) -> None:
        """Start the history of a collection, if it has not started."""
        self._collection(collection)

    def snapshot(self, collection: str, *, namespace: str = "", at: int | None = None) -> list[StoredObject]:
        """Return the objects ordered by key, as they are or were at revision `at`; raises `CompactedError`."""
        return [*self.scan(collection, namespace=namespace, at=at)]

    def scan(
        self, collection: str, *, namespace: str = "", at: int | None = None, after: tuple[str, str] | None = None
    ) -> "Scan":
        """Return the objects of a snapshot whose namespace and name are greater than `after`, to be read one by one."""
        state = self._collection(collection)
        undone = {} if at is None or at >= self.revision else _versions_at(state, at)
        keys = state.keys
        if undone:
            remaining = [key for key in keys if undone.get(key, key) is not None]
            removed = [key for key, was in undone.items() if was is not None and key not in state.objects]
            keys = sorted(remaining + removed)
        start = 0 if not namespace else bisect_left(keys, (collection, namespace))
        end = len(keys) if not namespace else bisect_left(keys, (collection, f"{namespace}\0"), lo=start)
        if after is not None:
            start = bisect_right(keys, (collection, *after), lo=start, hi=end)
        return Scan(keys[start:end], state.objects, undone)

    def events_since(self, collection: str, revision: int, *, limit: int | None = None) -> list[WatchCacheEvent]:
        """Return the events after a revision, oldest first, at most `limit`; raises `CompactedError`."""
        state = self._collection(collection)
        oldest = max(state.compacted, state.created_at_revision)
        if revision < oldest:
            raise CompactedError(revision, oldest)
        if not state.revisions or state.revisions[-1] <= revision:
            return []
        start = bisect_right(state.revisions, revision)
        return state.history[start : None if limit is None else start + limit]

    async def wait_for_change(self, collection: str, revision: int) -> None:
        """Wait for an event after a revision; return at once if the history does not reach back to the revision."""
        state = self._collection(collection)
        while revision >= state.compacted and (not state.revisions or state.revisions[-1] <= revision):
            await state.changed.wait()

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until the store has reached a revision, by writes to any collection."""
        while self.revision < revision:
            await self._revision_changed.wait()

    def restore(self, objects: Iterable[StoredObject], *, revision: int) -> None:
        """Replace all objects by a saved state; `revision` is the revision at which the state was saved.

        The store continues with a revision that no client has seen, and drops the history: open watches get
        `CompactedError`, so that clients list again. (etcdutl: ``--bump-revision`` and ``--mark-compacted``.)
        """
        self.revision = max(self.revision, revision) + 1
        for collection in self._collections.values():
            collection.objects.clear()
            collection.keys.clear()
            collection.history.clear()
            collection.revisions.clear()
            collection.compacted = self.revision
        self._compacted_revision = self.revision
        for stored in objects:
            self._collection(stored.key.collection).objects[stored.key] = stored
        for collection in self._collections.values():
            collection.keys = sorted(collection.objects)
            collection.changed.wake()
        self._revision_changed.wake()
        for name in tuple(self._collections):
            self._notify(name)

    def collections(self) -> Iterator[str]:
        """Yield the names of all collections that were ever used."""
        return iter(tuple(self._collections))

    def _collection(self, name: str) -> _Collection:
        state = self._collections.get(name)
        if state is None:
            state = self._collections[name] = _Collection(
                compacted=self._compacted_revision, created_at_revision=self.revision
            )
        return state

    def _notify(self, collection: str) -> None:
        for subscriber in self._subscribers:
            subscriber(collection)

    def _record_event(self, collection: _Collection, event: WatchCacheEvent) -> None:
        collection.history.append(event)
        collection.revisions.append(event.object.revision)
        if len(collection.history) >= self._event_capacity + max(
            1, self._event_capacity // 4
        ):  # in batches: moving the rest of the list is expensive
            excess = len(collection.history) - self._event_capacity
            collection.compacted = collection.revisions[excess - 1]
            del collection.history[:excess]
            del collection.revisions[:excess]
        collection.changed.wake()
        self._revision_changed.wake()


def _versions_at(collection: _Collection, revision: int) -> dict[ObjectKey, StoredObject | None]:
    """Return what objects that changed after a revision were then; None for an object that did not exist."""
    if revision < collection.compacted:
        raise CompactedError(revision, collection.compacted)
    later = collection.history[bisect_right(collection.revisions, revision) :]
    return {event.object.key: event.previous for event in reversed(later)}
