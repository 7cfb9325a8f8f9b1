"""The object store of a reflector and the changes it reports: the part of a reflector that needs no network.

Rules:
1. Identity is the uid. Another uid under a known name is two changes: the old object is deleted, a new one exists.
2. An event that is not newer than the stored object is ignored, as far as resourceVersions can be compared (they are
   integers on every known server; KEP-5504 makes that the rule). Lists are authoritative and always applied: after a
   server was restored from a backup, its versions are *lower* than the stored ones, or it shows an object that is
   certainly deleted. This is reported (`ServerRestored`) before anything else of such a list.
3. An object that `keep` rejects is not stored. A stored object that `keep` then rejects is reported as deleted, but not
   for certain.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from dra.kube.codec import ApiObject, ObjectIdentity
from dra.model.meta import Key, Uid
from dra.model.resource_versions import is_newer, is_older

T = TypeVar("T", bound=ApiObject)

TOMBSTONES_MAX: Final = 10_000
"""Maximum number of remembered deleted objects, the latest ones: a backup is restored soon after the failure that made
it necessary."""


class Upserted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object that is new or has changed."""

    obj: T


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object that is gone; `obj` is its last known state.

    `certain`: no object with this uid exists. Otherwise it only left the selection (selectors, keep-predicate).
    """

    obj: T
    certain: bool


class Synced(msgspec.Struct, frozen=True, gc=False):
    """The end of a list: everything that existed at `resource_version` has been reported.

    `first`: this is the first list. Otherwise there is a gap: states between the last event and this list were not
    seen.
    """

    resource_version: str
    first: bool


class ServerRestored(msgspec.Struct, frozen=True, gc=False):
    """The server shows a state older than one it has shown already: it was restored from a backup.

    States seen in between are void, and objects deleted in between may exist again. Any component that remembers more
    than this store must forget all of it.
    """

    subject: str
    version: str
    known: str

    def __str__(self) -> str:
        return f"{self.subject}: the API server shows version {self.version} after it had shown {self.known}"


class ServerRestoredError(Exception):
    """The cached state of the cluster is void; only a restart of the process clears all of it."""

    def __init__(self, rewound: ServerRestored) -> None:
        super().__init__(f"{rewound}; was it restored from a backup? What this process knows is of no use any more")


Change: TypeAlias = Upserted[T] | Deleted[T] | Synced | ServerRestored


class Store(Generic[T]):
    """The objects of one kind by key. All methods append their changes to `out`: one batch per block."""

    def __init__(self, *, keep: Callable[[T], bool] | None = None, has_selectors: bool = False) -> None:
        self._objects: dict[Key, T] = {}
        self._keep = keep
        self._certain = not has_selectors
        self._listed: set[Key] = set()
        self._gone: dict[tuple[Key, Uid], str] = {}
        """Last versions of objects that are certainly deleted: a list that shows one of them again is older than the
        deletion."""

        self._complete = False

    @property
    def objects(self) -> Mapping[Key, T]:
        """Return all stored objects, read-only."""
        return MappingProxyType(self._objects)

    def upsert(self, obj: T, out: list[Change[T]]) -> None:
        """Apply an ADDED or MODIFIED event."""
        meta = obj.metadata
        known = self._objects.get((meta.namespace, meta.name))
        if known is None or is_newer(meta.resource_version, known.metadata.resource_version):
            self._put(obj, known, out)

    def delete(self, obj: T, out: list[Change[T]]) -> None:
        """Apply a DELETED event; its object is the final state."""
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        known = self._objects.get(key)
        if known is None:
            return
        before = known.metadata
        if before.uid == meta.uid:
            # Equal versions count as newer: old servers sent the last version instead of that of the deletion.
            version, known_version = meta.resource_version, before.resource_version
            if version == known_version or is_newer(version, known_version):
                del self._objects[key]
                self._report_deleted(obj, out, certain=self._certain)
        elif is_newer(meta.resource_version, before.resource_version):
            del self._objects[key]
            self._report_deleted(known, out, certain=True)

    def forget(self, gone: ObjectIdentity, out: list[Change[T]]) -> None:
        """Apply a DELETED event whose object does not fit the struct; the stored object is removed."""
        known = self._objects.get(gone.key)
        if known is not None and is_newer(gone.resource_version, known.metadata.resource_version):
            del self._objects[gone.key]
            self._report_deleted(known, out, certain=self._certain or known.metadata.uid != gone.uid)

    def begin_list(self) -> None:
        """Start a list, or restart it."""
        self._listed.clear()

    def add_page(self, objects: Iterable[T], unreadable: Iterable[ObjectIdentity], out: list[Change[T]]) -> None:
        """Apply a page of the list."""
        for obj in objects:
            meta = obj.metadata
            key = (meta.namespace, meta.name)
            known = self._objects.get(key)
            if (key, meta.uid) in self._gone:
                before = self._gone.pop((key, meta.uid))
                out.insert(0, ServerRestored("/".join(filter(None, key)), meta.resource_version, before))
            if (
                known is None
                or meta.resource_version != known.metadata.resource_version
                or meta.uid != known.metadata.uid
            ):
                before = known.metadata.resource_version if known is not None else ""
                if is_older(meta.resource_version, before):
                    out.insert(0, ServerRestored("/".join(filter(None, key)), meta.resource_version, before))
                self._put(obj, known, out)
            self._listed.add(key)
        for identity in unreadable:  # the object exists: keep its last known state
            known = self._objects.get(identity.key)
            if known is not None and known.metadata.uid == identity.uid:
                self._listed.add(identity.key)

    def end_list(self, resource_version: str, out: list[Change[T]]) -> None:
        """Complete the list: stored objects that it did not show are deleted."""
        gone = [key for key in self._objects if key not in self._listed]  # in order, so that runs are repeatable
        for key in gone:
            self._report_deleted(self._objects.pop(key), out, certain=self._certain)
        self._listed.clear()
        out.append(Synced(resource_version, first=not self._complete))
        self._complete = True

    def _put(self, obj: T, known: T | None, out: list[Change[T]]) -> None:
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        replaced = known is not None and known.metadata.uid != meta.uid
        if known is not None and replaced:
            self._report_deleted(known, out, certain=True)
        if self._keep is None or self._keep(obj):
            self._objects[key] = obj
            out.append(Upserted(obj))
        elif known is not None:
            del self._objects[key]
            if not replaced:
                self._report_deleted(obj, out, certain=False)

    def _report_deleted(self, obj: T, out: list[Change[T]], *, certain: bool) -> None:
        """Report an object as deleted, and remember it if it is certainly gone."""
        meta = obj.metadata
        out.append(Deleted(obj, certain))
        if certain:
            self._gone[((meta.namespace, meta.name), meta.uid)] = meta.resource_version
            if len(self._gone) > TOMBSTONES_MAX:
                del self._gone[next(iter(self._gone))]
