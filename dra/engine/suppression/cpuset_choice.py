"""The CPUs of the class BestEffort, if it is held back by CPUs in place of a quota.

Number: the budget in whole CPUs, rounded up, at least two. It shrinks at once and grows by at most a tenth of the
machine's CPUs at a time. Source: Koordinator's ``adjustByCPUSet`` and ``calculateBESuppressCPUSetPolicy``.

Which CPUs: as many of those that the class has as possible, so that pods do not move every second. The rest is taken
by whole cores, from each NUMA node in turn, and then by single threads. CPUs that LSR pods own and share with the class
are taken in proportion to their number. If there are fewer candidates than wanted, all are taken; Koordinator takes
none.
"""

from itertools import pairwise
from math import ceil
from typing import Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.topology import CpuTopology

MIN_CPUS: Final = 2
_STEP_PERCENT: Final = 10


def next_cpu_count(budget_milli: int, *, machine: int, current: int) -> int:
    """Return the number of CPUs for a budget, on a machine with so many CPUs, after `current` ones."""
    wanted = max(MIN_CPUS, ceil(budget_milli / 1000))
    return min(wanted, max(current + ceil(machine * _STEP_PERCENT / 100), MIN_CPUS))


def choose_cpus(topology: CpuTopology, count: int, *, shared: CpuSet, lsr: CpuSet, current: CpuSet) -> CpuSet:
    """Return `count` CPUs for the class; none if there are no candidates.

    Candidates are the CPUs that no pod owns (`shared`) and those that LSR pods own and share with the class (`lsr`).
    `current` are the CPUs that the class has.
    """
    others = shared & topology.online
    of_lsr = (lsr & topology.online) - others
    total = len(others) + len(of_lsr)
    if not total:
        return NO_CPUS
    wanted = min(count, total)
    from_lsr = wanted * len(of_lsr) // total
    chosen = _keep_or_take(topology, others, wanted - from_lsr, current=current)
    return chosen | _keep_or_take(topology, of_lsr, from_lsr, current=current)


def take_in_turn(topology: CpuTopology, cpus: CpuSet, count: int) -> tuple[int, ...]:
    """Return `count` CPUs in the order in which they are taken, or all if there are fewer.

    Whole cores come first, one of each NUMA node in turn, beginning with the largest; then single threads, continuing
    in turn.
    """
    buckets = _buckets(topology, cpus)
    taken: list[int] = []
    turn = 0
    idle = 0
    while count - len(taken) >= 2 and idle < len(buckets):  # noqa: PLR2004 - a core has two threads here
        pair = _first_pair(topology, buckets[turn])
        taken += pair
        buckets[turn] = [cpu for cpu in buckets[turn] if cpu not in pair]
        idle = 0 if pair else idle + 1
        turn = (turn + 1) % len(buckets)
    while len(taken) < count and any(buckets):
        if buckets[turn]:
            taken.append(buckets[turn].pop(0))
        turn = (turn + 1) % len(buckets)
    return tuple(taken)


def _keep_or_take(topology: CpuTopology, candidates: CpuSet, count: int, *, current: CpuSet) -> CpuSet:
    """Return `count` candidates, with as many of the current CPUs as possible."""
    kept = candidates & current
    if len(kept) >= count:
        return kept if len(kept) == count else CpuSet(take_in_turn(topology, kept, count))
    return kept | CpuSet(take_in_turn(topology, candidates - kept, count - len(kept)))


def _buckets(topology: CpuTopology, cpus: CpuSet) -> list[list[int]]:
    """Return the CPUs by the part of a NUMA node in a socket, each core by core; the largest part first."""
    domains = topology.domains.values()
    parts = [sorted(cpus & domain, key=lambda cpu: (topology.by_id[cpu].core, cpu)) for domain in domains]
    return sorted(filter(None, parts), key=lambda part: (-len(part), min(part)))


def _first_pair(topology: CpuTopology, bucket: list[int]) -> tuple[int, ...]:
    """Return the first two threads of one core in a bucket; none if no core has two there."""
    neighbours = pairwise(bucket)
    return next((pair for pair in neighbours if len({topology.by_id[cpu].core for cpu in pair}) == 1), ())
