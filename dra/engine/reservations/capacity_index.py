"""The index over all nodes: which have enough free, what the others lack, and where policies of reservations conflict.

What is free of each resource is kept sorted, nodes are numbered, and sets of nodes are integers. So
thousands of nodes are filtered, and grouped by what they lack, in the time in which a few dozen are checked one by one.

A set of nodes has one bit per node, so ``&`` intersects two results. The values of one resource are kept in blocks,
each with the set of its nodes: "at least 4 CPUs free" is a few dozen ``|``, and an update touches one block.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Final, TypeAlias

from dra.engine.reservations import reservation_placement
from dra.engine.reservations.node_usage import NodeUsage
from dra.model.quantities import Amounts

NodeSet: TypeAlias = int
"""Bit n stands for node number n."""

_MAX_BLOCK_SIZE: Final = 128
"""Nodes in a block before it is split: with 5,000 nodes, iterating over blocks and within one then cost the same."""


class SortedNodes:
    """The numbers of nodes, sorted by one value of each node."""

    __slots__ = ("_all", "_blocks", "_sets", "_values")

    def __init__(self) -> None:
        self._values: dict[int, int] = {}
        self._blocks: list[list[tuple[int, int]]] = []
        self._sets: list[NodeSet] = []
        self._all: NodeSet = 0

    def __len__(self) -> int:
        return len(self._values)

    def set(self, node: int, value: int) -> None:
        """Set the value of a node."""
        before = self._values.get(node)
        if before == value:
            return
        if before is not None:
            self._remove_entry(node, before)
        self._values[node] = value
        self._all |= 1 << node
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

    def remove(self, node: int) -> None:
        """Remove a node and its value."""
        if (before := self._values.pop(node, None)) is not None:
            self._all ^= 1 << node
            self._remove_entry(node, before)

    def at_least(self, value: int) -> NodeSet:
        """Return the nodes whose value is at least the given one."""
        first = (value, -1)
        index = self._find(first)
        if index == len(self._blocks):
            return 0
        block = self._blocks[index]
        start = bisect_left(block, first)
        if 2 * index < len(self._blocks):  # few nodes have less, which are the shorter way
            return self._all & ~_union(block[:start], self._sets[:index])
        return _union(block[start:], self._sets[index + 1 :])

    def ascending(self, nodes: NodeSet) -> Iterator[int]:
        """Yield the given nodes by value, the smallest first, then by number."""
        for block, there in zip(self._blocks, self._sets, strict=True):
            if there & nodes:
                yield from (node for _, node in block if nodes >> node & 1)

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

    def _remove_entry(self, node: int, value: int) -> None:
        index = self._find((value, node))
        block = self._blocks[index]
        del block[bisect_left(block, (value, node))]
        self._sets[index] ^= 1 << node
        if not block:
            del self._blocks[index]
            del self._sets[index]


class CapacityIndex:
    """The index of nodes by what they have free."""

    __slots__ = ("_free", "_names", "_numbers", "_ranked", "_sharing", "known")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._free: dict[str, SortedNodes] = {}
        self._ranked: dict[str, Amounts] = {}
        self._sharing: dict[bool, NodeSet] = {True: 0, False: 0}
        self.known: NodeSet = 0
        """Nodes that have been observed."""

    def update(self, node: NodeUsage) -> None:
        """Add a node, or replace its entry; resources whose free amount has changed are sorted again."""
        name = node.name
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        self.known = _with_bit(self.known, number, on=node.is_known)
        policies = {reservation.has_default_policy for reservation in reservation_placement.active_reservations(node)}
        for policy, nodes in self._sharing.items():
            self._sharing[policy] = _with_bit(nodes, number, on=policy in policies)
        before = self._ranked.get(name, {})
        requested = node.requested
        now = {resource: amount - requested.get(resource, 0) for resource, amount in node.capacity.items()}
        for resource, free in now.items():
            if before.get(resource) != free:
                ranking = self._free.get(resource)
                if ranking is None:
                    ranking = self._free[resource] = SortedNodes()
                ranking.set(number, free)
        for resource in before.keys() - now.keys():
            self._free[resource].remove(number)
        self._ranked[name] = now

    def single(self, node: str) -> NodeSet:
        """Return the set of one node; the empty set for a node without an entry."""
        number = self._numbers.get(node)
        return 0 if number is None else 1 << number

    def name(self, number: int) -> str:
        """Return the name of the node of a number."""
        return self._names[number]

    def with_free(self, wanted: Amounts) -> NodeSet:
        """Return the nodes that have at least the wanted amounts free."""
        nodes = self.known
        for resource, amount in wanted.items():
            nodes &= self._with(resource, amount)
        return nodes

    def group_by_shortage(self, wanted: Amounts, nodes: NodeSet) -> Iterator[tuple[tuple[str, ...], NodeSet]]:
        """Yield the given nodes, grouped by the resources of which they have too little."""
        groups: dict[tuple[str, ...], NodeSet] = {(): nodes}
        for resource, amount in wanted.items():
            enough = self._with(resource, amount)
            split = {}
            for short, those in groups.items():
                split[short] = those & enough
                split[*short, resource] = those & ~enough
            groups = {short: those for short, those in split.items() if those}
        yield from groups.items()

    def with_policy_conflict(self, *, default_policy: bool) -> NodeSet:
        """Return the nodes with a reservation whose policy excludes a reservation of the given policy."""
        return self._sharing[not default_policy]

    def names(self, nodes: NodeSet) -> tuple[str, ...]:
        """Return the names of the nodes in a set."""
        bits = f"{nodes:b}"[::-1].encode().translate(_BITS)
        return tuple(compress(self._names, bits))

    def _with(self, resource: str, amount: int) -> NodeSet:
        if amount <= 0:
            return self.known
        ranking = self._free.get(resource)
        return ranking.at_least(amount) if ranking is not None else 0


def _union(entries: Iterable[tuple[int, int]], sets: Iterable[NodeSet]) -> NodeSet:
    union = 0
    for _, node in entries:
        union |= 1 << node
    for nodes in sets:
        union |= nodes
    return union


def _with_bit(nodes: NodeSet, number: int, *, on: bool) -> NodeSet:
    return nodes if (nodes >> number & 1) == on else nodes ^ (1 << number)


_BITS = bytes.maketrans(b"01", b"\x00\x01")
