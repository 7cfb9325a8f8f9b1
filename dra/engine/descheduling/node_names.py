"""Sets of names of nodes, a bit for each node of a snapshot.

A round of five thousand nodes makes ten thousand decisions, and most name almost all nodes as receivers. As sets of
texts these would take more memory than all objects of the cluster, and more time than all decisions.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import compress
from typing import Final

from dra.engine.reservations.capacity_index import NodeSet

_OUT, _IN = b"01"
_SELECTORS: Final = bytes.maketrans(b"01", b"\x00\x01")


class NodeNumbers:
    """The nodes of a snapshot, each with its number."""

    __slots__ = ("_names", "_numbers", "all")

    def __init__(self, names: Iterable[str]) -> None:
        """Number the nodes in the order in which they are given."""
        self._names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self.all: NodeSet = (1 << len(self._names)) - 1

    def single(self, name: str) -> NodeSet:
        """Return the set of one node; the empty set for a node that does not exist."""
        number = self._numbers.get(name)
        return 0 if number is None else 1 << number

    def set_of(self, names: Iterable[str]) -> NodeSet:
        """Return the set of those of some nodes that exist."""
        digits = bytearray([_OUT]) * (len(self._names) + 1)  # never empty, and -1 - number counts from the last digit
        for number in map(self._numbers.get, names):
            if number is not None:
                digits[-1 - number] = _IN
        return int(digits, 2)

    def names(self, nodes: NodeSet) -> Iterator[str]:
        """Yield the names of the nodes in a set."""
        return compress(self._names, f"{nodes:b}"[::-1].encode().translate(_SELECTORS))


class NodeNames(AbstractSet[str]):
    """Some of the nodes of a snapshot, by name."""

    __slots__ = ("nodes", "numbers")

    def __init__(self, numbers: NodeNumbers, nodes: NodeSet) -> None:
        """Create a set of some of the numbered nodes."""
        self.numbers, self.nodes = numbers, nodes

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.numbers.single(name) & self.nodes)

    def __iter__(self) -> Iterator[str]:
        return self.numbers.names(self.nodes)

    def __hash__(self) -> int:
        return self._hash()

    def __len__(self) -> int:
        return self.nodes.bit_count()

    def __repr__(self) -> str:
        return f"NodeNames({sorted(self)})"

    def without(self, name: str) -> "NodeNames":
        """Return the set without one node."""
        return NodeNames(self.numbers, self.nodes & ~self.numbers.single(name))

    def excluding(self, names: Iterable[str]) -> "NodeNames":
        """Return the set without some nodes."""
        return NodeNames(self.numbers, self.nodes & ~self.numbers.set_of(names))

    @classmethod
    def _from_iterable(cls, it: Iterable[str]) -> frozenset[str]:  # type: ignore[override]  # what operators return
        return frozenset(it)
