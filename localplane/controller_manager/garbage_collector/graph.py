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

    def is_deleting_with(self, finalizer: str) -> bool:
        """Report whether the object is being deleted with this finalizer."""
        return self.meta.deleting and finalizer in (self.meta.finalizers or ())


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

    node: GraphNode
    owners: tuple[Uid, ...]


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """An action: remove a deletion finalizer from the object."""

    finalizer: str


GarbageAction: TypeAlias = LookUpOwner | DeleteObject | RemoveOwnerReferences | RemoveFinalizer


@dataclass
class DependencyGraph:
    """Holds all objects by uid, and the dependents of each owner."""

    nodes: dict[Uid, GraphNode] = field(default_factory=dict)
    dependents: dict[Uid, dict[Uid, None]] = field(default_factory=dict)
    """Uids of dependents by owner, including owners that were never observed."""
    absent_owners: dict[Uid, None] = field(default_factory=dict)
    """Owners that are known to be gone, as long as an object refers to them."""

    def put(self, node: GraphNode) -> list[Uid]:
        """Store a version of an object; return the uids to process because of it."""
        uid = node.meta.uid
        before = self.nodes.get(uid)
        if before is not None and int(before.meta.resource_version) > int(node.meta.resource_version):
            return []  # a watch that lags behind the response to a write of this collector
        self.nodes[uid] = node
        after = {owner.uid for owner in node.owners}
        for owner in before.owners if before is not None else ():
            if owner.uid not in after:
                self._unlink(owner.uid, uid)
        for owner in node.owners:
            self.dependents.setdefault(owner.uid, {})[uid] = None
        moved = before is None or before.owners != node.owners
        to_process = (
            [uid]
            if node.is_deleting_with(FINALIZER_DELETE_DEPENDENTS)
            or node.is_deleting_with(FINALIZER_ORPHAN_DEPENDENTS)
            or (moved and self._has_absent_owner(node))
            else []
        )
        if node.is_deleting_with(FINALIZER_DELETE_DEPENDENTS) and not (
            before is not None and before.is_deleting_with(FINALIZER_DELETE_DEPENDENTS)
        ):
            to_process += self.dependents.get(uid, ())
        if moved and before is not None:  # an owner that waits for its dependents checks again
            to_process += (owner.uid for owner in before.owners if owner.uid in self.nodes)
        return to_process

    def remove(self, uid: Uid) -> list[Uid]:
        """Remove a deleted object; return the uids to process because of it."""
        node = self.nodes.pop(uid, None)
        to_process = list(self.dependents.get(uid, ()))
        if to_process:
            self.absent_owners[uid] = None
        for owner in node.owners if node is not None else ():
            self._unlink(owner.uid, uid)
            if owner.uid in self.nodes:
                to_process.append(owner.uid)
        return to_process

    def mark_absent(self, uid: Uid) -> None:
        """Record that a looked-up owner does not exist."""
        if self.dependents.get(uid):
            self.absent_owners[uid] = None

    def decide(self, uid: Uid) -> list[GarbageAction]:
        """Return the actions for an object."""
        node = self.nodes.get(uid)
        if node is None:
            return []
        if node.is_deleting_with(FINALIZER_ORPHAN_DEPENDENTS):
            return self._orphan_dependents(node)
        if node.is_deleting_with(FINALIZER_DELETE_DEPENDENTS):
            blocking = [dependent for dependent in self._dependents(uid) if _blocks_owner_deletion(dependent, uid)]
            return [] if blocking else [RemoveFinalizer(FINALIZER_DELETE_DEPENDENTS)]
        if node.meta.deleting or not node.owners:
            return []
        unknown = [o for o in node.owners if o.uid not in self.nodes and o.uid not in self.absent_owners]
        if unknown:
            return [LookUpOwner(owner) for owner in unknown]
        return self._attempt_to_delete(node)

    def _has_absent_owner(self, node: GraphNode) -> bool:
        """Report whether an owner is unknown or deleted in the foreground; most pods need no second look."""
        owners = (self.nodes.get(owner.uid) for owner in node.owners)
        return any(owner is None or owner.is_deleting_with(FINALIZER_DELETE_DEPENDENTS) for owner in owners)

    def _attempt_to_delete(self, node: GraphNode) -> list[GarbageAction]:
        """Return the actions that follow from the state of an object's owners."""
        owners = [(owner.uid, self.nodes.get(owner.uid)) for owner in node.owners]
        solid = [
            uid
            for uid, owner in owners
            if owner is not None and not owner.is_deleting_with(FINALIZER_DELETE_DEPENDENTS)
        ]
        if solid:
            rest = tuple(uid for uid, _ in owners if uid not in solid)
            return [RemoveOwnerReferences(node, rest)] if rest else []
        waiting = any(owner is not None for _, owner in owners)
        if waiting and self.dependents.get(node.meta.uid):
            return [DeleteObject("Foreground")]
        finalizers = node.meta.finalizers or ()
        return [
            DeleteObject(
                "Orphan"
                if FINALIZER_ORPHAN_DEPENDENTS in finalizers
                else "Foreground"
                if FINALIZER_DELETE_DEPENDENTS in finalizers
                else "Background"
            )
        ]

    def _orphan_dependents(self, node: GraphNode) -> list[GarbageAction]:
        left: list[GarbageAction] = [
            RemoveOwnerReferences(dependent, (node.meta.uid,)) for dependent in self._dependents(node.meta.uid)
        ]
        return left or [RemoveFinalizer(FINALIZER_ORPHAN_DEPENDENTS)]

    def _dependents(self, uid: Uid) -> Iterable[GraphNode]:
        return [self.nodes[dependent] for dependent in self.dependents.get(uid, ()) if dependent in self.nodes]

    def _unlink(self, owner: Uid, uid: Uid) -> None:
        dependents = self.dependents.get(owner)
        if dependents is not None:
            dependents.pop(uid, None)
            if not dependents:
                del self.dependents[owner]
                self.absent_owners.pop(owner, None)


def _blocks_owner_deletion(node: GraphNode, owner: Uid) -> bool:
    return any(reference.uid == owner and reference.block_owner_deletion for reference in node.owners)
