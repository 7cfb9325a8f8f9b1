"""The keys of a cache that are to be reconciled, in the order in which they were marked."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from dra.engine.instants import NEVER, Instant

K = TypeVar("K", bound=Hashable)


class DirtyKeys(Generic[K]):
    """Keys to reconcile: at once, or from a time on. The earliest time of a key counts."""

    def __init__(self) -> None:
        self._due: dict[K, Instant] = {}
        self.generation = 0
        """Changes whenever a key may no longer be marked as to be reconciled at once, or is marked for later."""

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: object) -> bool:
        return key in self._due

    def __iter__(self) -> Iterator[K]:
        return iter(self._due)

    def add(self, key: K, *, due: Instant = -NEVER) -> None:
        """Mark a key; the reconciliation can wait until ``due`` for further changes."""
        if due != -NEVER and key not in self._due:
            self.generation += 1
        self._due[key] = min(due, self._due.get(key, NEVER))

    def update(self, keys: Iterable[K]) -> None:
        """Mark keys that are to be reconciled at once."""
        for key in keys:
            self.add(key)

    def discard(self, key: K) -> None:
        """Unmark a key, if it is marked."""
        self.generation += 1
        self._due.pop(key, None)

    def clear(self) -> None:
        """Unmark all keys at once."""
        self.generation += 1
        self._due.clear()

    def take(self) -> dict[K, Instant]:
        """Unmark all keys, and return them with the times from which on they are due."""
        taken, self._due = self._due, {}
        self.generation += 1
        return taken


class Cache(Protocol[K]):
    """The memory of one loop: the cluster as its decisions see it, and the keys that are to be reconciled."""

    dirty: DirtyKeys[K]

    def mark_all_dirty(self) -> None:
        """Mark all keys: this replica begins to act."""

    def settle(self, *, now: Instant) -> None:  # noqa: ARG002 - for caches that need the time
        """Mark what only a whole batch of events shows; called before the dirty keys are taken."""
        return

    def discard_dirty(self) -> None:
        """Unmark all keys, and forget the transitions that were seen: another replica acts on them."""
        self.dirty.clear()
