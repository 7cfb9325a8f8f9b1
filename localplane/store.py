"""The revisioned map behind the API server: each write gets the next revision, the last writes are remembered.

Knows keys and bytes, nothing of what the objects mean. A watch is a position in the history of its collection: it
holds no queue of its own, so a slow reader costs no memory and finds out by `Expired` that it was too slow.
Everything here is synchronous and for one event loop: a decision and its write cannot be torn apart.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Final, NamedTuple

EVENT_CAPACITY: Final = 20_000
"""Events that a collection remembers; a real server's watch cache keeps about as many of a busy one."""


class WatchEventType(StrEnum):
    """What happened to an object; the values are the types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ObjectKey(NamedTuple):
    """Where an object lives; `collection` is ``plural.group``, the namespace is empty for cluster-scoped ones."""

    collection: str
    namespace: str
    name: str


class StoredObject(NamedTuple):
    """One version of one object; `raw` is its JSON with ``metadata.resourceVersion`` = `revision`."""

    key: ObjectKey
    revision: int
    raw: bytes


class WatchCacheEvent(NamedTuple):
    """One write. `now` is the new version, of a deletion the last one with the revision of the deletion."""

    change: WatchEventType
    now: StoredObject
    before: StoredObject | None


class CompactedError(Exception):
    """A revision that is older than the history; `oldest` is the first from which one may still go on."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


@dataclass(slots=True)
class _Collection:
    """The objects of one kind, and what happened to them lately."""

    objects: dict[ObjectKey, StoredObject] = field(default_factory=dict)
    history: list[WatchCacheEvent] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)
    """Those of the history, to find a place in it."""
    compacted: int = 0
    """The revision of the last event that was forgotten."""
    opened: int = 0
    """The revision when the collection was first heard of: nobody can have watched it before."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Store:
    """All objects of one API server."""

    def __init__(self, *, history: int = EVENT_CAPACITY) -> None:
        self.revision = 1
        self._history = history
        self._forgotten = 0
        self._advanced = asyncio.Event()
        self._collections: dict[str, _Collection] = {}
        self._subscribers: list[Callable[[str], None]] = []

    @property
    def next_revision(self) -> int:
        """The revision that the next write will have; the writer puts it into the object."""
        return self.revision + 1

    def follow(self, follower: Callable[[str], None]) -> None:
        """Call somebody right after each write, with the name of the collection; he may write himself."""
        self._subscribers.append(follower)

    def get(self, key: ObjectKey) -> StoredObject | None:
        """Return the current version, None when there is none."""
        return self._collection(key.collection).objects.get(key)

    def put(self, key: ObjectKey, raw: bytes) -> StoredObject:
        """Write a version whose JSON bears `next_revision`."""
        collection = self._collection(key.collection)
        before = collection.objects.get(key)
        self.revision += 1
        now = StoredObject(key, self.revision, raw)
        collection.objects[key] = now
        self._remember(
            collection, WatchCacheEvent(WatchEventType.MODIFIED if before else WatchEventType.ADDED, now, before)
        )
        self._tell(key.collection)
        return now

    def remove(self, key: ObjectKey, raw: bytes) -> StoredObject:
        """Delete an object; `raw` is its last version, bearing `next_revision`. Raises KeyError if there is none."""
        collection = self._collection(key.collection)
        before = collection.objects.pop(key)
        self.revision += 1
        last = StoredObject(key, self.revision, raw)
        self._remember(collection, WatchCacheEvent(WatchEventType.DELETED, last, before))
        self._tell(key.collection)
        return last

    def open(self, collection: str) -> None:
        """Begin to remember the history of a collection, if that has not begun."""
        self._collection(collection)

    def snapshot(self, collection: str, *, namespace: str = "", at: int | None = None) -> list[StoredObject]:
        """Return the objects in the order of their keys, as they are or were at revision `at`; raises `Expired`."""
        found = self._collection(collection)
        objects = found.objects if at is None or at >= self.revision else self._objects_at(found, at)
        if namespace:
            chosen = [each for each in objects.values() if each.key.namespace == namespace]
        else:
            chosen = list(objects.values())
        chosen.sort(key=_key_of)
        return chosen

    def since(self, collection: str, revision: int, *, limit: int | None = None) -> list[WatchCacheEvent]:
        """Return what happened after a revision, oldest first, at most `limit` of it; raises `Expired`."""
        found = self._collection(collection)
        oldest = max(found.compacted, found.opened)
        if revision < oldest:
            raise CompactedError(revision, oldest)
        if not found.revisions or found.revisions[-1] <= revision:
            return []
        start = bisect_right(found.revisions, revision)
        return found.history[start : None if limit is None else start + limit]

    async def change(self, collection: str, revision: int) -> None:
        """Return once something has happened after a revision, or the history does not reach back to it."""
        found = self._collection(collection)
        while revision >= found.compacted and (not found.revisions or found.revisions[-1] <= revision):
            await found.changed.wait()

    async def reach(self, revision: int) -> None:
        """Return once the store is at a revision, whatever was written."""
        while self.revision < revision:
            await self._advanced.wait()

    def restore(self, objects: Iterable[StoredObject], *, revision: int) -> None:
        """Put a saved state in the place of everything; `revision` is the one that it was saved at.

        Goes on with a revision that nobody has seen yet, and forgets the history: whoever watches gets `Expired` and
        lists anew. (What etcd's tools call bumping the revision and marking it compacted.)
        """
        self.revision = max(self.revision, revision) + 1
        for collection in self._collections.values():
            collection.objects.clear()
            collection.history.clear()
            collection.revisions.clear()
            collection.compacted = self.revision
        self._forgotten = self.revision
        for each in objects:
            self._collection(each.key.collection).objects[each.key] = each
        for collection in self._collections.values():
            collection.changed = _wake_waiters(collection.changed)
        self._advanced = _wake_waiters(self._advanced)
        for name in tuple(self._collections):
            self._tell(name)

    def collections(self) -> Iterator[str]:
        """Yield the names of all collections that were ever asked for."""
        return iter(tuple(self._collections))

    def _collection(self, name: str) -> _Collection:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = _Collection(compacted=self._forgotten, opened=self.revision)
        return found

    def _tell(self, collection: str) -> None:
        for follower in self._subscribers:
            follower(collection)

    def _remember(self, collection: _Collection, event: WatchCacheEvent) -> None:
        collection.history.append(event)
        collection.revisions.append(event.now.revision)
        if len(collection.history) >= self._history + max(1, self._history // 4):  # many at once: moving them costs
            excess = len(collection.history) - self._history
            collection.compacted = collection.revisions[excess - 1]
            del collection.history[:excess]
            del collection.revisions[:excess]
        collection.changed = _wake_waiters(collection.changed)
        self._advanced = _wake_waiters(self._advanced)

    @staticmethod
    def _objects_at(collection: _Collection, revision: int) -> dict[ObjectKey, StoredObject]:
        """Return the objects as they were: the present with the events after `revision` undone."""
        if revision < collection.compacted:
            raise CompactedError(revision, collection.compacted)
        objects = dict(collection.objects)
        for event in reversed(collection.history):
            if event.now.revision <= revision:
                break
            if event.before is None:
                objects.pop(event.now.key, None)
            else:
                objects[event.now.key] = event.before
        return objects


_key_of: Final = itemgetter(0)


def _wake_waiters(event: asyncio.Event) -> asyncio.Event:
    """Wake everybody who waits; return what the next ones wait for."""
    event.set()
    return asyncio.Event()
