"""What a reflector knows, and what changes in it: the part of a reflector that needs no network.

Rules:
1. Identity is the uid. Another uid under a known name is two changes: the old object is deleted, a new one is there.
2. News that are not newer than what is known are ignored, as far as resourceVersions can be compared (they are
   integers on every server we know; KEP-5504 makes that the rule). Lists are the truth and are always believed:
   after a server was restored from a backup, its versions are *lower* than ours, or it shows what is certainly gone.
   That is told (`Rewound`) before anything else of such a list.
3. What `keep` refuses is not stored. What is stored and then refused leaves like something deleted, but not for
   certain.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from dra.kube.codec import ApiObject, ObjectIdentity
from dra.model.meta import Key, ObjectMeta, Uid

T = TypeVar("T", bound=ApiObject)

TOMBSTONES_MAX: Final = 10_000
"""Objects that are gone and remembered, the last ones: a backup is restored soon after what made it necessary."""


class Upserted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The object is new or has changed."""

    obj: T


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The object is not there any more; `obj` is the last that was seen of it.

    `certain`: no object with this uid exists. Otherwise it only left what we look at (selectors, keep-predicate).
    """

    obj: T
    certain: bool


class Synced(msgspec.Struct, frozen=True, gc=False):
    """A list is complete: everything that existed at `resource_version` has been told.

    `first`: there was none before. Otherwise there is a gap: states between the last news and this list were not seen.
    """

    resource_version: str
    first: bool


class ServerRestored(msgspec.Struct, frozen=True, gc=False):
    """The server shows a state from before one that it has shown already: it was restored from a backup.

    What was seen of the time in between never happened, and the objects that were deleted in it may be there again.
    Whoever remembers more than this store must forget all of it.
    """

    what: str
    version: str
    known: str

    def __str__(self) -> str:
        return f"{self.what}: the API server shows version {self.version} after it had shown {self.known}"


class ServerRestoredError(Exception):
    """What we remember of the cluster never happened; only a new start forgets all of it."""

    def __init__(self, rewound: ServerRestored) -> None:
        super().__init__(f"{rewound}; was it restored from a backup? What this process knows is of no use any more")


Change: TypeAlias = Upserted[T] | Deleted[T] | Synced | ServerRestored


class Store(Generic[T]):
    """Objects by key, and the changes that news of them make. All methods append to `out`: one batch per block."""

    def __init__(self, *, keep: Callable[[T], bool] | None = None, narrowed: bool = False) -> None:
        self._objects: dict[Key, T] = {}
        self._keep = keep
        self._certain = not narrowed
        self._listed: set[Key] = set()
        self._gone: dict[tuple[Key, Uid], str] = {}
        """The last versions of objects that are certainly gone: a list that shows one again is of a time before."""

        self._complete = False

    @property
    def objects(self) -> Mapping[Key, T]:
        """All objects stored, read-only."""
        return MappingProxyType(self._objects)

    def upsert(self, obj: T, out: list[Change[T]]) -> None:
        """Take in an ADDED or MODIFIED event."""
        meta = obj.metadata
        known = self._objects.get((meta.namespace, meta.name))
        if known is None or not _is_not_newer(meta, known.metadata):
            self._put(obj, known, out)

    def delete(self, obj: T, out: list[Change[T]]) -> None:
        """Take in a DELETED event; its object is the final state."""
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        known = self._objects.get(key)
        if known is None:
            return
        before = known.metadata
        if before.uid == meta.uid:
            # Not "outdated" when equal: old servers sent the last version instead of that of the deletion.
            if before.resource_version == meta.resource_version or not _is_not_newer(meta, before):
                del self._objects[key]
                self._left(obj, out, certain=self._certain)
        elif not _is_not_newer(meta, before):
            del self._objects[key]
            self._left(known, out, certain=True)

    def forget(self, gone: ObjectIdentity, out: list[Change[T]]) -> None:
        """Take in a DELETED event whose object does not fit; what was known of it goes."""
        known = self._objects.get(gone.key)
        if known is not None and not _is_not_newer(gone, known.metadata):
            del self._objects[gone.key]
            self._left(known, out, certain=self._certain or known.metadata.uid != gone.uid)

    def begin_list(self) -> None:
        """Start a list, or start it over."""
        self._listed.clear()

    def listed(self, objects: Iterable[T], unreadable: Iterable[ObjectIdentity], out: list[Change[T]]) -> None:
        """Take in a page of the list."""
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
                if is_older_version(meta.resource_version, before):
                    out.insert(0, ServerRestored("/".join(filter(None, key)), meta.resource_version, before))
                self._put(obj, known, out)
            self._listed.add(key)
        for each in unreadable:  # exists: keep what we know of it
            known = self._objects.get(each.key)
            if known is not None and known.metadata.uid == each.uid:
                self._listed.add(each.key)

    def end_list(self, resource_version: str, out: list[Change[T]]) -> None:
        """Take in that the list is complete: whatever it did not show is gone."""
        gone = [key for key in self._objects if key not in self._listed]  # in order: runs are to be repeatable
        for key in gone:
            self._left(self._objects.pop(key), out, certain=self._certain)
        self._listed.clear()
        out.append(Synced(resource_version, first=not self._complete))
        self._complete = True

    def _put(self, obj: T, known: T | None, out: list[Change[T]]) -> None:
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        replaced = known is not None and known.metadata.uid != meta.uid
        if known is not None and replaced:
            self._left(known, out, certain=True)
        if self._keep is None or self._keep(obj):
            self._objects[key] = obj
            out.append(Upserted(obj))
        elif known is not None:
            del self._objects[key]
            if not replaced:
                self._left(obj, out, certain=False)

    def _left(self, obj: T, out: list[Change[T]], *, certain: bool) -> None:
        """Tell that an object is not there any more, and remember it if it is certainly gone."""
        meta = obj.metadata
        out.append(Deleted(obj, certain))
        if certain:
            self._gone[((meta.namespace, meta.name), meta.uid)] = meta.resource_version
            if len(self._gone) > TOMBSTONES_MAX:
                del self._gone[next(iter(self._gone))]


def is_older_version(version: str, known: str) -> bool:
    """Whether a version is certainly older than another one."""
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)


def _is_not_newer(meta: ObjectMeta | ObjectIdentity, known: ObjectMeta) -> bool:
    """Whether `meta` is certainly not newer than `known`."""
    try:
        return int(meta.resource_version) <= int(known.resource_version)
    except ValueError:
        return meta.resource_version == known.resource_version
