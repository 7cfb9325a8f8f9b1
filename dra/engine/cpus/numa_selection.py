"""The choice among many NUMA nodes, in time that grows with their number and not with the number of their sets.

The smallest sets of NUMA nodes with enough free CPUs come first. Of equally small sets the strategy prefers the one
with the fewest free CPUs in all, or the most, and then the one whose numbers come first. Machines with an L3 cache for
each NUMA node have 64 of them, so the sets cannot be listed: https://github.com/kubernetes/kubernetes/issues/124144.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Final, TypeAlias, TypeVar

from dra.engine.cpus.topology import NumaDomain

Node = TypeVar("Node", int, NumaDomain)

BitSet: TypeAlias = int
"""A set of numbers: bit n is set for number n."""

MAX_STEPS: Final = 20_000
"""Steps after which the search for an even division gives up, some 25 ms; with 16 NUMA nodes it needs fewer."""


def fewest_numa_nodes(count: int, free: Mapping[Node, int], *, fullest_first: bool) -> tuple[Node, ...] | None:
    """Return the smallest set of NUMA nodes with `count` free CPUs; None if all together have fewer."""
    number = _least_number(count, free.values())
    if number is None:
        return None
    nodes = sorted(free)
    sums = _sums_of_the_rest([free[node] for node in nodes], number)
    enough = sums[0][number] >> count
    total = count + (enough & -enough).bit_length() - 1 if fullest_first else sums[0][number].bit_length() - 1
    chosen: list[Node] = []
    for place, node in enumerate(nodes):
        rest, left = total - free[node], number - len(chosen)
        if left and rest >= 0 and sums[place + 1][left - 1] >> rest & 1:
            chosen.append(node)
            total = rest
    return tuple(chosen)


def numa_nodes_of_whole_cores(
    count: int, cores: Mapping[int, Sequence[int]], *, step: int, fullest_first: bool, limit: int
) -> tuple[int, ...] | None:
    """Return the smallest set of NUMA nodes that divide a request for whole cores evenly; None if there is none.

    `cores` has the sizes of the free cores of each NUMA node. Where cores have different sizes, a NUMA node may have
    enough CPUs and still no whole cores for its part of the request, so the first set with enough CPUs may not do.
    """
    free = {node: sum(sizes) for node, sizes in cores.items()}
    number = _least_number(count, free.values())
    if number is None:
        return None
    # In the order in which they give (`divide_among_numa_nodes`): number, free CPUs, and the sums of whole cores.
    givers = [(node, free[node], _sums(cores[node])) for node in sorted(free, key=lambda node: (free[node], node))]
    rank = {node: place for place, node in enumerate(sorted(free, reverse=True))}
    steps, sign = 0, 1 if fullest_first else -1
    for size in range(number, limit + 1):
        # (NUMA nodes so far, CPUs given so far) → the best choice: its order, and its NUMA nodes as a bit set in which
        # the greater number is the tuple that sorts first. What follows depends on nothing else.
        best: dict[tuple[int, int], tuple[int, BitSet]] = {(0, 0): (0, 0)}
        for place, (node, cpus, sums) in enumerate(givers):
            for (nodes, given), (order, members) in tuple(best.items()):
                if nodes == size or nodes + len(givers) - place < size:
                    continue
                steps += 1
                part = min((count - given) // (size - nodes) // step * step, cpus // step * step)
                if sums >> part & 1:
                    key, choice = (nodes + 1, given + part), (order + sign * cpus, members - (1 << rank[node]))
                    best[key] = min(choice, best.get(key, choice))
            if steps > MAX_STEPS:
                return None
        if (size, count) in best:
            members = -best[size, count][1]
            return tuple(node for node in sorted(free) if members >> rank[node] & 1)
    return None


def _least_number(count: int, free: Iterable[int]) -> int | None:
    """Return how many of the largest numbers add up to `count`, at least one; None if all together are less."""
    sums = accumulate(sorted(free, reverse=True))
    return next((number for number, total in enumerate(sums, start=1) if total >= count), None)


def _sums_of_the_rest(numbers: Sequence[int], size: int) -> list[list[BitSet]]:
    """Return for each place and each size up to `size` the sums of that many of the numbers from the place on."""
    sums = [[1] + [0] * size]
    for number in reversed(numbers):
        after = sums[-1]
        sums.append([1] + [after[k] | after[k - 1] << number for k in range(1, size + 1)])
    return sums[::-1]


def _sums(numbers: Iterable[int]) -> BitSet:
    """Return all sums of some of the numbers."""
    return reduce(lambda sums, number: sums | sums << number, numbers, 1)
