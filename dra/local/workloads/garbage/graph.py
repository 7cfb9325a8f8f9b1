"""Who owns whom: what is known of all objects, and what is to be done with one of them. Pure.

1. An object goes when it has owners and none of them is there any more. While one is, references to those that are gone
   are taken away.
2. An owner that is deleted in the foreground stays until no dependent that blocks its deletion is left; its dependents
   are deleted, in the foreground too if they have dependents of their own.
3. An owner that is deleted as an orphanage stays until no dependent refers to it.
4. An owner that nobody has seen is looked up before it counts as gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dra.kube.resources import Resource
from dra.model.meta import ObjectMeta, OwnerReference, Uid

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
"""The API's own finalizers, by which a deletion says how it is to proceed."""


@dataclass(frozen=True, slots=True)
class Item:
    """An object."""

    resource: Resource
    meta: ObjectMeta

    @property
    def owners(self) -> list[OwnerReference]:
        """Its owners."""
        return self.meta.owner_references or []

    def ending(self, how: str) -> bool:
        """Whether it is being deleted that way."""
        return self.meta.deleting and how in (self.meta.finalizers or ())


@dataclass(frozen=True, slots=True)
class LookUp:
    """Find out whether an owner is there."""

    owner: OwnerReference


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object."""

    propagation: str


@dataclass(frozen=True, slots=True)
class Disown:
    """Take references away from an object: the item itself, or one of its dependents."""

    item: Item
    owners: tuple[Uid, ...]


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take the API's finalizer off the object."""

    finalizer: str


Action: TypeAlias = LookUp | Delete | Disown | LetGo


@dataclass
class Graph:
    """All objects, by uid, and their dependents."""

    items: dict[Uid, Item] = field(default_factory=dict)
    dependents: dict[Uid, dict[Uid, None]] = field(default_factory=dict)
    """Also of owners that nobody has seen."""
    gone: dict[Uid, None] = field(default_factory=dict)
    """Owners that certainly are not there, as long as somebody refers to them."""

    def put(self, item: Item) -> list[Uid]:
        """Take in an object as it is now; return who is to be looked at because of it."""
        uid = item.meta.uid
        before = self.items.get(uid)
        if before is not None and int(before.meta.resource_version) > int(item.meta.resource_version):
            return []  # a watch that lags behind the answer to one of our writes
        self.items[uid] = item
        after = {owner.uid for owner in item.owners}
        for owner in before.owners if before is not None else ():
            if owner.uid not in after:
                self._unlink(owner.uid, uid)
        for owner in item.owners:
            self.dependents.setdefault(owner.uid, {})[uid] = None
        moved = before is None or before.owners != item.owners
        news = [uid] if item.ending(FOREGROUND) or item.ending(ORPHAN) or (moved and self._doubtful(item)) else []
        if item.ending(FOREGROUND) and not (before is not None and before.ending(FOREGROUND)):
            news += self.dependents.get(uid, ())
        if moved and before is not None:  # who waits for a dependent looks whether it still does
            news += (owner.uid for owner in before.owners if owner.uid in self.items)
        return news

    def remove(self, uid: Uid) -> list[Uid]:
        """Take in that an object is gone; return who is to be looked at because of it."""
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
        """An owner was looked up and is not there."""
        if self.dependents.get(uid):
            self.gone[uid] = None

    def decide(self, uid: Uid) -> list[Action]:
        """Return what is to be done with an object."""
        item = self.items.get(uid)
        if item is None:
            return []
        if item.ending(ORPHAN):
            return self._orphaned(item)
        if item.ending(FOREGROUND):
            blocking = [each for each in self._dependents(uid) if _blocks(each, uid)]
            return [] if blocking else [LetGo(FOREGROUND)]
        if item.meta.deleting or not item.owners:
            return []
        unknown = [o for o in item.owners if o.uid not in self.items and o.uid not in self.gone]
        if unknown:
            return [LookUp(owner) for owner in unknown]
        return self._judged(item)

    def _doubtful(self, item: Item) -> bool:
        """Whether not all owners of an object are there for good; most pods are not worth a second look."""
        owners = (self.items.get(owner.uid) for owner in item.owners)
        return any(owner is None or owner.ending(FOREGROUND) for owner in owners)

    def _judged(self, item: Item) -> list[Action]:
        """Return what follows from how the owners of an object are."""
        owners = [(owner.uid, self.items.get(owner.uid)) for owner in item.owners]
        solid = [uid for uid, owner in owners if owner is not None and not owner.ending(FOREGROUND)]
        if solid:
            rest = tuple(uid for uid, _ in owners if uid not in solid)
            return [Disown(item, rest)] if rest else []
        waiting = any(owner is not None for _, owner in owners)
        if waiting and self.dependents.get(item.meta.uid):
            return [Delete("Foreground")]
        finalizers = item.meta.finalizers or ()
        return [
            Delete("Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background")
        ]

    def _orphaned(self, item: Item) -> list[Action]:
        left: list[Action] = [Disown(each, (item.meta.uid,)) for each in self._dependents(item.meta.uid)]
        return left or [LetGo(ORPHAN)]

    def _dependents(self, uid: Uid) -> Iterable[Item]:
        return [self.items[each] for each in self.dependents.get(uid, ()) if each in self.items]

    def _unlink(self, owner: Uid, uid: Uid) -> None:
        found = self.dependents.get(owner)
        if found is not None:
            found.pop(uid, None)
            if not found:
                del self.dependents[owner]
                self.gone.pop(owner, None)


def _blocks(item: Item, owner: Uid) -> bool:
    return any(each.uid == owner and each.block_owner_deletion for each in item.owners)
