"""Sets of names of nodes in little memory: all nodes but a few."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet


class AllBut(AbstractSet[str]):
    """All nodes of a snapshot but some: ten thousand decisions name almost all of 5,000 nodes as receivers each."""

    __slots__ = ("_all", "_excluded")

    def __init__(self, names: frozenset[str], excluded: frozenset[str]) -> None:
        """Create a set of ``names`` without ``excluded``, a part of these."""
        self._all, self._excluded = names, excluded

    def __contains__(self, name: object) -> bool:
        return name in self._all and name not in self._excluded

    def __iter__(self) -> Iterator[str]:
        return iter(self._all - self._excluded)

    def __len__(self) -> int:
        return len(self._all) - len(self._excluded)

    def __repr__(self) -> str:
        return f"AllBut({sorted(self._excluded)})"

    @classmethod
    def _from_iterable(cls, it: Iterable[str]) -> frozenset[str]:  # type: ignore[override]  # what operators return
        return frozenset(it)


def compact(names: frozenset[str] | None, *, within: frozenset[str]) -> AbstractSet[str] | None:
    """Return a set of nodes in the shorter of two forms; None stands for all nodes."""
    if names is None or 2 * len(names) <= len(within):
        return names
    return AllBut(within, within - names)
