"""The nodes sorted by what is free of one resource: "at least 4 CPUs free" takes microseconds for thousands of nodes.

Nodes are numbered, and sets of nodes are integers with one bit per node, so ``&`` intersects two results. The values
are kept sorted in blocks, each with the set of its nodes: a query is a few dozen ``|``, and an update touches one
block.
"""

from bisect import bisect_left, insort
from typing import Final, TypeAlias

NodeSet: TypeAlias = int
"""Bit n stands for node number n."""

_MAX_BLOCK_SIZE: Final = 128
"""Nodes in a block before it is split: with 5,000 nodes, iterating over blocks and within one then cost the same."""


class SortedNodes:
    """The numbers of nodes, sorted by one value of each node."""

    __slots__ = ("_blocks", "_sets", "_values")

    def __init__(self) -> None:
        self._values: dict[int, int] = {}
        self._blocks: list[list[tuple[int, int]]] = []
        self._sets: list[NodeSet] = []

    def __len__(self) -> int:
        return len(self._values)

    def put(self, node: int, value: int) -> None:
        """Set the value of a node."""
        before = self._values.get(node)
        if before == value:
            return
        if before is not None:
            self._take(node, before)
        self._values[node] = value
        entry = (value, node)
        index = min(self._find(entry), len(self._blocks) - 1)
        if index < 0:
            self._blocks.append([entry])
            self._sets.append(1 << node)
            return
        block = self._blocks[index]
        insort(block, entry)
        self._sets[index] |= 1 << node
        if len(block) > _MAX_BLOCK_SIZE:
            half = block[_MAX_BLOCK_SIZE // 2 :]
            del block[_MAX_BLOCK_SIZE // 2 :]
            upper = sum(1 << number for _, number in half)
            self._blocks.insert(index + 1, half)
            self._sets.insert(index + 1, upper)
            self._sets[index] ^= upper

    def drop(self, node: int) -> None:
        """Remove a node and its value."""
        if (before := self._values.pop(node, None)) is not None:
            self._take(node, before)

    def at_least(self, value: int) -> NodeSet:
        """Return the nodes whose value is at least the given one."""
        first = (value, -1)
        index = self._find(first)
        if index == len(self._blocks):
            return 0
        block = self._blocks[index]
        found = 0
        for _, node in block[bisect_left(block, first) :]:
            found |= 1 << node
        for nodes in self._sets[index + 1 :]:
            found |= nodes
        return found

    def _find(self, entry: tuple[int, int]) -> int:
        """Return the index of the first block whose greatest entry is not smaller; if none is, the number of blocks."""
        low, high = 0, len(self._blocks)
        while low < high:
            middle = (low + high) // 2
            if self._blocks[middle][-1] < entry:
                low = middle + 1
            else:
                high = middle
        return low

    def _take(self, node: int, value: int) -> None:
        index = self._find((value, node))
        block = self._blocks[index]
        del block[bisect_left(block, (value, node))]
        self._sets[index] ^= 1 << node
        if not block:
            del self._blocks[index]
            del self._sets[index]
