"""An informer: the objects of one kind as watched, and as the controllers' own writes returned them.

A controller that has created a pod therefore counts the pod before its watch delivers it, and needs no expectations.
Rules: the newer version counts; a deleted object stays deleted, however late a response about it arrives.
"""

from collections import OrderedDict
from collections.abc import Iterable
from random import Random
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.codec import ApiObject
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.reflector import Reflector
from dra.kube.resources import Resource
from dra.model.meta import Key, ObjectMeta, Uid

T = TypeVar("T", bound=ApiObject)
T_contra = TypeVar("T_contra", contravariant=True)

MAX_TOMBSTONES: Final = 50_000
"""Maximum number of remembered uids of deleted objects."""


class ResourceEventHandler(Protocol[T_contra]):
    """Receives every change, including the controllers' own writes; `deleted` comes with the last known version."""

    def __call__(self, obj: T_contra, /, *, deleted: bool) -> None: ...  # noqa: D102 - the class says it


class Informer(Generic[T]):
    """Caches the objects of one kind by key, by uid and by controlling owner."""

    def __init__(self, client: Client, resource: Resource, model: type[T], *, clock: Clock, random: Random) -> None:
        self.resource = resource
        self.model = model
        self.handle = EventHandlerFuncs[T](
            on_upsert=self.observe, on_delete=lambda obj: self.forget(obj.metadata), on_restore=ignore
        )
        """Handles the batches of the watch."""

        self.reflector = Reflector(client, resource, model, handler=self.handle, clock=clock, random=random)
        self.objects: dict[Key, T] = {}
        self._by_controller: dict[Uid, dict[Uid, T]] = {}
        self._tombstones: OrderedDict[Uid, None] = OrderedDict()
        self._handlers: list[ResourceEventHandler[T]] = []

    def add_event_handler(self, handler: ResourceEventHandler[T]) -> None:
        """Add a handler that receives all future changes."""
        self._handlers.append(handler)

    def get(self, key: Key) -> T | None:
        """Return an object by namespace and name."""
        return self.objects.get(key)

    def controlled_by(self, uid: Uid) -> Iterable[T]:
        """Return the objects that an owner controls, oldest first."""
        return tuple(self._by_controller.get(uid, {}).values())

    def observe(self, obj: T) -> None:
        """Store the current version of an object."""
        meta = obj.metadata
        if meta.uid in self._tombstones:
            return
        known = self.objects.get(meta.key)
        if known is not None:
            if known.metadata.uid != meta.uid:
                if int(meta.resource_version) < int(known.metadata.resource_version):
                    return
                self.forget(known.metadata)
            elif int(meta.resource_version) <= int(known.metadata.resource_version):
                return
        self.objects[meta.key] = obj
        self._index(obj, known)
        self._notify(obj, deleted=False)

    def mark_deleting(self, obj: T, wall: str) -> None:
        """Mark an object as being deleted before its next version arrives and says the same."""
        known = self.objects.get(obj.metadata.key)
        if known is None or known.metadata.uid != obj.metadata.uid or known.metadata.deleting:
            return
        meta = msgspec.structs.replace(known.metadata, deletion_timestamp=wall)
        marked = msgspec.structs.replace(known, metadata=meta)  # type: ignore[type-var]
        self.objects[meta.key] = marked
        self._index(marked, known)
        self._notify(marked, deleted=False)

    def forget(self, meta: ObjectMeta) -> None:
        """Remove a deleted object and remember its uid."""
        self._tombstones[meta.uid] = None
        if len(self._tombstones) > MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)
        known = self.objects.get(meta.key)
        if known is None or known.metadata.uid != meta.uid:
            return
        del self.objects[meta.key]
        owner = known.metadata.controller
        if owner is not None:
            siblings = self._by_controller.get(owner.uid, {})
            siblings.pop(meta.uid, None)
            if not siblings:
                self._by_controller.pop(owner.uid, None)
        self._notify(known, deleted=True)

    def _index(self, obj: T, known: T | None) -> None:
        owner = obj.metadata.controller
        before = known.metadata.controller if known is not None else None
        if before is not None and (owner is None or before.uid != owner.uid):
            self._by_controller.get(before.uid, {}).pop(obj.metadata.uid, None)
        if owner is not None:
            self._by_controller.setdefault(owner.uid, {})[obj.metadata.uid] = obj

    def _notify(self, obj: T, *, deleted: bool) -> None:
        for handler in self._handlers:
            handler(obj, deleted=deleted)
