"""A bounded queue that is fair to namespaces: whoever fills it waits behind his own.

Namespaces take turns, so what one namespace has queued costs another one place at most. When the queue is full, the
namespace that has most in it gives way.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """At most `most` items, first in, first out within a namespace."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._turns: OrderedDict[str, deque[T]] = OrderedDict()
        """The namespace whose turn it is comes first."""

        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, item: T, *, namespace: str) -> T | None:
        """Take an item in; return the one that had to give way, perhaps the same one, None if there was room."""
        refused = None
        if self._length >= self._most:
            fullest = max(self._turns, key=lambda name: len(self._turns[name]))
            if len(self._turns[fullest]) <= len(self._turns.get(namespace, ())) + 1:
                return item
            refused = self._turns[fullest].pop()
            self._length -= 1
        self._turns.setdefault(namespace, deque()).append(item)
        self._length += 1
        return refused

    def first(self) -> T:
        """Return the item whose turn it is, and leave it in."""
        return next(iter(self._turns.values()))[0]

    def pop(self) -> T:
        """Take the item out whose turn it is; the next namespace has its turn then."""
        namespace, items = self._turns.popitem(last=False)
        item = items.popleft()
        if items:
            self._turns[namespace] = items
        self._length -= 1
        return item

    def clear(self) -> int:
        """Take everything out; return how much it was."""
        length, self._length = self._length, 0
        self._turns.clear()
        return length
