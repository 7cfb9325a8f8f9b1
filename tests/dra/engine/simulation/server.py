"""The API server: objects, one resourceVersion for all of them, compare-and-swap, and the log that watches read.

A write that changes nothing makes no new version, as in ``GuaranteedUpdate`` (apiserver, storage/etcd3/store.go).
Deletion waits for finalizers, and for the kubelet if a pod is bound and not finished
(``podStrategy.CheckGracefulDelete``, pkg/registry/core/pod/strategy.go).
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from itertools import count
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from dra.engine.instants import Instant
from dra.model.claims import RESERVED_FOR_MAX_SIZE, ResourceClaim
from dra.model.meta import Key, ObjectMeta, Uid
from dra.model.nodes import Node
from dra.model.pods import Pod
from dra.model.templates import PodGroup
from tests.dra.engine.simulation.objects import Job, Reservation
from tests.dra.engine.simulation.requests import Conflict, Invalid, NotFound

Object: TypeAlias = ResourceClaim | Pod | Node | Job | PodGroup | Reservation
T = TypeVar("T", bound=Object)


class Clock:
    """A number that only the machine moves."""

    def __init__(self) -> None:
        self.now: Instant = 0.0

    @property
    def stamp(self) -> str:
        """The present as an API timestamp: whole seconds, like ``metav1.Time``, so two changes may share one."""
        return f"{int(self.now)}s"


class Actor(StrEnum):
    """Who made a write."""

    US = "us"
    SCHEDULER = "the scheduler"
    KUBELET = "a kubelet"
    OWNER = "the owner of a workload"
    USER = "a user"
    STOCK = "the stock claim controller"
    BACKUP = "whoever restored a backup"


class Event(NamedTuple):
    """One write. ``after`` is None when the object is gone, ``before`` when it was not there."""

    version: int
    key: Key
    before: Object | None
    after: Object | None
    at: float
    actor: Actor


class DecisionBasis(NamedTuple):
    """What the watches of our process had shown when it decided."""

    nodes: Mapping[Key, Node] = MappingProxyType({})
    pods: Mapping[Key, Pod] = MappingProxyType({})


KINDS: Final[tuple[type[Object], ...]] = (ResourceClaim, Pod, Node, Job, PodGroup, Reservation)


class Server:
    """The truth."""

    def __init__(self, clock: Clock) -> None:
        self.log: dict[type[Object], list[Event]] = {kind: [] for kind in KINDS}
        self.listeners: list[Callable[[Event], None]] = []
        self._clock = clock
        self._objects: dict[type[Object], dict[Key, Object]] = {kind: {} for kind in self.log}
        self.version = 0
        self.basis = DecisionBasis()
        """What our process had been shown when it decided on the write that it makes now."""

        self._uids = count(1)

    @property
    def now(self) -> float:
        """The time of the log."""
        return self._clock.now

    # Reads:

    def find(self, kind: type[T], key: Key) -> T | None:
        """Return an object, or None."""
        return cast("T | None", self._objects[kind].get(key))

    def get(self, kind: type[T], key: Key) -> T:
        """Return an object; raises NotFound."""
        found = self.find(kind, key)
        if found is None:
            raise NotFound(f"{kind.__name__} {key} not found")
        return found

    def list(self, kind: type[T]) -> list[T]:
        """Return all objects of a kind, in the order of their creation."""
        return cast("list[T]", list(self._objects[kind].values()))

    # Writes:

    def create(self, obj: T, *, by: Actor) -> T:
        """Store a new object; raises Conflict if the name is taken."""
        kind, meta = type(obj), obj.metadata
        if meta.key in self._objects[kind]:
            raise Conflict(f"{kind.__name__} {meta.key} already exists")
        created = f"{int(self._clock.now):09d}s"
        fresh = msgspec.structs.replace(meta, uid=Uid(f"uid-{next(self._uids)}"), creation_timestamp=created)
        return self._commit(None, msgspec.structs.replace(obj, metadata=fresh), by)

    def patch(self, kind: type[T], key: Key, uid: Uid, change: Callable[[T], T], *, by: Actor) -> T:
        """Change an object whatever its version; raises NotFound, or Conflict if it has another uid."""
        found = self.get(kind, key)
        if found.metadata.uid != uid:
            raise Conflict(f"{kind.__name__} {key} has another uid")
        return self._write(found, change(found), by)

    def update(self, obj: T, *, by: Actor) -> T:
        """Write an object, the status of a claim excepted; raises NotFound, or Conflict if it is not the newest."""
        found = self._newest(obj)
        if isinstance(found, ResourceClaim):
            obj = msgspec.structs.replace(obj, status=found.status)
        return self._write(found, obj, by)

    def update_status(self, claim: ResourceClaim, *, by: Actor) -> ResourceClaim:
        """Write the status of a claim and nothing else of it; raises Invalid as well."""
        found = self._newest(claim)
        changed = msgspec.structs.replace(found, status=claim.status)
        check_status_update(found, changed)
        return self._write(found, changed, by)

    def merge_patch(
        self, kind: type[T], key: Key, body: dict[str, Any], *, uid: Uid, version: str, status: bool, by: Actor
    ) -> T:
        """Apply a JSON merge patch with uid and resourceVersion in it, to the object or its status."""
        found = self.get(kind, key)
        if found.metadata.uid != uid or (version and found.metadata.resource_version != version):
            raise Conflict(f"{kind.__name__} {key} has changed")
        merged = msgspec.convert(_merge(msgspec.to_builtins(found), body), kind)
        if not isinstance(merged, ResourceClaim):
            return self._write(found, merged, by)
        return cast("T", (self.update_status if status else self.update)(merged, by=by))

    def delete(self, kind: type[T], key: Key, *, by: Actor, force: bool = False) -> None:
        """Ask for deletion; the object stays while a finalizer or a kubelet keeps it."""
        found = self.find(kind, key)
        if found is None:
            return
        if not _must_wait_for_deletion(found) or (force and not found.metadata.finalizers):
            self._commit(found, None, by)
        elif not found.metadata.deleting:
            self._write(found, _with_meta(found, deletion_timestamp=self._clock.stamp), by)

    def remove(self, kind: type[T], key: Key, uid: Uid, *, by: Actor) -> None:
        """Ask for the deletion of the very object of that uid; raises NotFound, or Conflict if it has another uid."""
        if self.get(kind, key).metadata.uid != uid:
            raise Conflict(f"{kind.__name__} {key} has another uid")
        self.delete(kind, key, by=by)

    # Backups:

    def backup(self) -> dict[type[Object], dict[Key, Object]]:
        """Return everything as it is."""
        return {kind: dict(found) for kind, found in self._objects.items()}

    def restore(self, backup: dict[type[Object], dict[Key, Object]]) -> None:
        """Be as at the time of a backup, with versions that go on from now (``etcdutl --bump-revision``).

        Nodes stay as they are: their kubelets register and report anew within seconds.
        """
        for kind in KINDS:
            if kind is Node:
                continue
            for key, present in list(self._objects[kind].items()):
                if key not in backup[kind]:
                    self._commit(present, None, Actor.BACKUP)
            for key, known in backup[kind].items():
                now = self._objects[kind].get(key)
                if now is not None and now.metadata.uid != known.metadata.uid:
                    self._commit(now, None, Actor.BACKUP)
                    now = None
                if now != known:
                    self._commit(now, known, Actor.BACKUP)

    # Below: how a write is stored and passed to watches.

    def _newest(self, obj: T) -> T:
        found = self.get(type(obj), obj.metadata.key)
        if found.metadata.resource_version != obj.metadata.resource_version:
            raise Conflict(f"{type(obj).__name__} {obj.metadata.key} has changed")
        return found

    def _write(self, before: T, after: T, by: Actor) -> T:
        if after.metadata.deleting and not _must_wait_for_deletion(after):
            self._commit(before, None, by)
            return after
        return before if before == after else self._commit(before, after, by)

    def _commit(self, before: T | None, after: T | None, by: Actor) -> T:
        known = after if after is not None else before
        assert known is not None
        kind, key = type(known), known.metadata.key
        self.version += 1
        if after is None:
            del self._objects[kind][key]
        else:
            after = known = _with_meta(after, resource_version=str(self.version))
            self._objects[kind][key] = after
        event = Event(version=self.version, key=key, before=before, after=after, at=self._clock.now, actor=by)
        self.log[kind].append(event)
        for listener in self.listeners:
            listener(event)
        return known


def check_status_update(before: ResourceClaim, after: ResourceClaim) -> None:
    """Raise Invalid if the status may not become what it is in ``after``.

    Read from ``validateResourceClaimStatusUpdate`` (pkg/apis/resource/validation/validation.go), 1.36.3. It does not
    look whether a consumer exists, whether anybody uses what is deallocated, or whether another claim has the same
    device.
    """
    entries, known = after.entries, before.entries
    allocation, earlier = after.status.allocation, before.status.allocation
    if len(entries) > RESERVED_FOR_MAX_SIZE:
        raise Invalid(f"status.reservedFor: must have at most {RESERVED_FOR_MAX_SIZE} items")
    if len({e.uid for e in entries}) < len(entries):
        raise Invalid("status.reservedFor: duplicate uid")
    if any(not (e.resource and e.name and e.uid) for e in entries):
        raise Invalid("status.reservedFor: resource, name and uid are required")
    if entries and allocation is None:
        raise Invalid("status.reservedFor: may not be specified when `allocated` is not set")
    if entries and after.metadata.deleting and set(entries) - set(known):
        raise Invalid("status.reservedFor: new entries may not be added while `deletionTimestamp` is set")
    if earlier is not None and allocation is not None and earlier != allocation:
        raise Invalid("status.allocation: field is immutable")


def _must_wait_for_deletion(obj: Object) -> bool:
    """Whether something must happen before the object may go: a finalizer's work, or a kubelet's."""
    running = isinstance(obj, Pod) and bool(obj.spec.node_name) and not obj.terminal
    return running or bool(obj.metadata.finalizers)


def _with_meta(obj: T, **changes: object) -> T:
    meta: ObjectMeta = msgspec.structs.replace(obj.metadata, **changes)
    return msgspec.structs.replace(obj, metadata=meta)


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged
