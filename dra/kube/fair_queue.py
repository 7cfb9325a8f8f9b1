"""A bounded queue that is fair to namespaces: a namespace that fills the queue delays only itself.

Namespaces take turns, so what one namespace has queued delays an item of another by one place at most. When the queue
is full, the namespace with most items loses one.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue of at most `limit` items, first in, first out within a namespace."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns: OrderedDict[str, deque[T]] = OrderedDict()
        """Items by namespace; the first namespace is served next."""

        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, item: T, *, namespace: str) -> T | None:
        """Add an item; return the item dropped because the queue is full (possibly `item`), or None."""
        refused = None
        if self._length >= self._limit:
            fullest = max(self._turns, key=lambda name: len(self._turns[name]))
            if len(self._turns[fullest]) <= len(self._turns.get(namespace, ())) + 1:
                return item
            refused = self._turns[fullest].pop()
            self._length -= 1
        self._turns.setdefault(namespace, deque()).append(item)
        self._length += 1
        return refused

    def pop(self) -> T:
        """Remove and return the next item; another namespace is served after it."""
        namespace, items = self._turns.popitem(last=False)
        item = items.popleft()
        if items:
            self._turns[namespace] = items
        self._length -= 1
        return item

    def clear(self) -> int:
        """Remove all items and return their number."""
        length, self._length = self._length, 0
        self._turns.clear()
        return length
