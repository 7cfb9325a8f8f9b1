"""The graph of owners and dependents, and the actions that follow for one object: pure.

1. An object with owners is deleted when none of its owners exists any longer. While one exists, references to missing
   owners are removed.
2. An owner that is deleted in the foreground stays until no dependent that blocks its deletion is left. Its dependents
   are deleted, in the foreground too if they have dependents of their own.
3. An owner that is deleted with the orphan policy stays until no dependent refers to it.
4. An owner that was never observed is looked up before it counts as gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dra.kube.resources import Resource
from dra.model.meta import ObjectMeta, OwnerReference, Uid

FINALIZER_DELETE_DEPENDENTS: Final = "foregroundDeletion"
FINALIZER_ORPHAN_DEPENDENTS: Final = "orphan"
"""Kubernetes' own finalizers, which record the propagation policy of a deletion."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An object in the dependency graph."""

    resource: Resource
    meta: ObjectMeta

    @property
    def owners(self) -> list[OwnerReference]:
        """Return the owner references of the object."""
        return self.meta.owner_references or []

    def ending(self, how: str) -> bool:
        """Report whether the object is being deleted with this finalizer."""
        return self.meta.deleting and how in (self.meta.finalizers or ())


@dataclass(frozen=True, slots=True)
class LookUpOwner:
    """An action: look up in the API server whether an owner exists."""

    owner: OwnerReference


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """An action: delete the object with a propagation policy."""

    propagation: str


@dataclass(frozen=True, slots=True)
class RemoveOwnerReferences:
    """An action: remove owner references from the object itself or from one of its dependents."""

    item: GraphNode
    owners: tuple[Uid, ...]


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """An action: remove a deletion finalizer from the object."""

    finalizer: str


GarbageAction: TypeAlias = LookUpOwner | DeleteObject | RemoveOwnerReferences | RemoveFinalizer


@dataclass
class DependencyGraph:
    """Holds all objects by uid, and the dependents of each owner."""

    items: dict[Uid, GraphNode] = field(default_factory=dict)
    dependents: dict[Uid, dict[Uid, None]] = field(default_factory=dict)
    """Uids of dependents by owner, including owners that were never observed."""
    gone: dict[Uid, None] = field(default_factory=dict)
    """Owners that are known to be gone, as long as an object refers to them."""

    def put(self, item: GraphNode) -> list[Uid]:
        """Store a version of an object; return the uids to process because of it."""
        uid = item.meta.uid
        before = self.items.get(uid)
        if before is not None and int(before.meta.resource_version) > int(item.meta.resource_version):
            return []  # a watch that lags behind the response to a write of this collector
        self.items[uid] = item
        after = {owner.uid for owner in item.owners}
        for owner in before.owners if before is not None else ():
            if owner.uid not in after:
                self._unlink(owner.uid, uid)
        for owner in item.owners:
            self.dependents.setdefault(owner.uid, {})[uid] = None
        moved = before is None or before.owners != item.owners
        news = (
            [uid]
            if item.ending(FINALIZER_DELETE_DEPENDENTS)
            or item.ending(FINALIZER_ORPHAN_DEPENDENTS)
            or (moved and self._has_absent_owner(item))
            else []
        )
        if item.ending(FINALIZER_DELETE_DEPENDENTS) and not (
            before is not None and before.ending(FINALIZER_DELETE_DEPENDENTS)
        ):
            news += self.dependents.get(uid, ())
        if moved and before is not None:  # an owner that waits for its dependents checks again
            news += (owner.uid for owner in before.owners if owner.uid in self.items)
        return news

    def remove(self, uid: Uid) -> list[Uid]:
        """Remove a deleted object; return the uids to process because of it."""
        item = self.items.pop(uid, None)
        news = list(self.dependents.get(uid, ()))
        if news:
            self.gone[uid] = None
        for owner in item.owners if item is not None else ():
            self._unlink(owner.uid, uid)
            if owner.uid in self.items:
                news.append(owner.uid)
        return news

    def absent(self, uid: Uid) -> None:
        """Record that a looked-up owner does not exist."""
        if self.dependents.get(uid):
            self.gone[uid] = None

    def decide(self, uid: Uid) -> list[GarbageAction]:
        """Return the actions for an object."""
        item = self.items.get(uid)
        if item is None:
            return []
        if item.ending(FINALIZER_ORPHAN_DEPENDENTS):
            return self._orphan_dependents(item)
        if item.ending(FINALIZER_DELETE_DEPENDENTS):
            blocking = [each for each in self._dependents(uid) if _blocks_owner_deletion(each, uid)]
            return [] if blocking else [RemoveFinalizer(FINALIZER_DELETE_DEPENDENTS)]
        if item.meta.deleting or not item.owners:
            return []
        unknown = [o for o in item.owners if o.uid not in self.items and o.uid not in self.gone]
        if unknown:
            return [LookUpOwner(owner) for owner in unknown]
        return self._judged(item)

    def _has_absent_owner(self, item: GraphNode) -> bool:
        """Report whether an owner is unknown or deleted in the foreground; most pods need no second look."""
        owners = (self.items.get(owner.uid) for owner in item.owners)
        return any(owner is None or owner.ending(FINALIZER_DELETE_DEPENDENTS) for owner in owners)

    def _judged(self, item: GraphNode) -> list[GarbageAction]:
        """Return the actions that follow from the state of an object's owners."""
        owners = [(owner.uid, self.items.get(owner.uid)) for owner in item.owners]
        solid = [uid for uid, owner in owners if owner is not None and not owner.ending(FINALIZER_DELETE_DEPENDENTS)]
        if solid:
            rest = tuple(uid for uid, _ in owners if uid not in solid)
            return [RemoveOwnerReferences(item, rest)] if rest else []
        waiting = any(owner is not None for _, owner in owners)
        if waiting and self.dependents.get(item.meta.uid):
            return [DeleteObject("Foreground")]
        finalizers = item.meta.finalizers or ()
        return [
            DeleteObject(
                "Orphan"
                if FINALIZER_ORPHAN_DEPENDENTS in finalizers
                else "Foreground"
                if FINALIZER_DELETE_DEPENDENTS in finalizers
                else "Background"
            )
        ]

    def _orphan_dependents(self, item: GraphNode) -> list[GarbageAction]:
        left: list[GarbageAction] = [
            RemoveOwnerReferences(each, (item.meta.uid,)) for each in self._dependents(item.meta.uid)
        ]
        return left or [RemoveFinalizer(FINALIZER_ORPHAN_DEPENDENTS)]

    def _dependents(self, uid: Uid) -> Iterable[GraphNode]:
        return [self.items[each] for each in self.dependents.get(uid, ()) if each in self.items]

    def _unlink(self, owner: Uid, uid: Uid) -> None:
        found = self.dependents.get(owner)
        if found is not None:
            found.pop(uid, None)
            if not found:
                del self.dependents[owner]
                self.gone.pop(owner, None)


def _blocks_owner_deletion(item: GraphNode, owner: Uid) -> bool:
    return any(each.uid == owner and each.block_owner_deletion for each in item.owners)
