"""The choice of CPUs for a request, by the rules of Koordinator's cpu_accumulator.go, which its users expect.

Locality comes first: one NUMA node if the request fits, else one socket, else as few pieces as possible. Within that,
the bind policy decides between whole cores and spread threads, the strategy between the fullest and the emptiest place,
and the exclusive policy which CPUs to avoid. Each pass first respects the exclusive policy, then ignores it. CPUs that
a pass avoids do not count when it compares how full places are.

===========  ============================================  =========================================
pass         whole cores (or one thread a core)            spread threads
===========  ============================================  =========================================
NUMA node    entirely free cores                           one thread of each core, else all threads
socket       entirely free cores                           the same
sockets      those that are needed as a whole              –
cores        of the remaining sockets, while one is needed –
the rest     threads, one a core, where most are chosen already and fewest are free
===========  ============================================  =========================================

The rules here go beyond Koordinator's in these points, and still give the results of its test vectors:

* The socket pass uses no more NUMA nodes than necessary; Koordinator cuts the list of the socket's cores, which with
  four nodes a socket may touch all of them. (With two nodes there is no difference: neither alone was enough.)
* Cores of different size (hybrid machines, siblings offline): a core that is too large for the rest is skipped, and
  a required policy is satisfied whenever whole cores can add up to the count.
* Preferred CPUs never make a required policy fail that can be satisfied without them.
* Within the NUMA nodes that a pass has chosen, CPUs come from as few L3 caches as possible; among equally many the
  strategy decides, as it does between NUMA nodes. Whole cores and spread threads come first, so this costs nothing.
* CPUs of the request itself do not exclude other CPUs from it; Koordinator moves the odd thread of a FullPCPUs request
  with NUMANodeLevel away from the NUMA node that has the request's cores. (Without that difference 40,000 random
  machines get the same CPUs from both.)
* In the first two passes, a NUMA node that spans sockets counts as one NUMA node per socket.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from typing import Final, TypeAlias

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy, NumaAllocateStrategy
from dra.engine.cpus.cpu_snapshot import CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.cpus.numa_selection import fewest_numa_nodes
from dra.engine.cpus.topology import Cpu, CpuTopology, NumaDomain

CoreLists: TypeAlias = list[list[int]]
"""Per core, in the order in which cores are taken, the CPUs that may be taken of the core."""

FILTER_EXCLUSIVE_ORDER: Final = (True, False)


def take_cpus(
    snapshot: CpuSnapshot, request: CpuRequest, *, preferred: CpuSet = NO_CPUS
) -> CpuSet | CpuAllocationFailure:
    """Return CPUs for a request, with as many preferred CPUs as possible, or the reason why there are none.

    Preferred CPUs are, for example, the CPUs that a reservation holds for this pod.
    """
    if request.count < 0:
        raise ValueError(f"request for {request.count} CPUs: a number of CPUs is 0 or more")
    if failure := check_count(snapshot.topology, request):
        return failure
    available = eligible_cpus(snapshot, request, preferred=preferred)
    if request.count > len(available):
        return CpuAllocationFailure(
            reason=CpuFailureReason.SHORTAGE,
            detail=f"{request.count} CPUs wanted, {len(available)} usable of {len(snapshot.available)} free"
            f" of {len(snapshot.allocatable)} allocatable",
        )
    preferred_available = preferred & available
    if requires_whole_cores(request):
        preferred_available = snapshot.topology.whole_cores(preferred_available)
    for first in (preferred_available, NO_CPUS) if preferred_available else (NO_CPUS,):
        from_first = _CpuAccumulator(snapshot, request, free=first, count=min(request.count, len(first))).run()
        rest = available - (first or NO_CPUS)
        chosen = from_first | _CpuAccumulator(snapshot, request, free=rest, count=request.count - len(from_first)).run()
        if satisfies_required_policy(snapshot, request, chosen):
            return chosen
    if requires_whole_cores(request) and (exact := _whole_cores_that_sum_up(snapshot, request, available)) is not None:
        return exact
    return CpuAllocationFailure(
        reason=CpuFailureReason.POLICY_UNSATISFIED,
        subject=request.policy,
        detail=f"no whole cores among the {len(available)} CPUs of free ones add up to {request.count}",
    )


def check_count(topology: CpuTopology, request: CpuRequest) -> CpuAllocationFailure | None:
    """Return the failure of a request whose number of CPUs cannot satisfy its required policy on any such machine."""
    step = topology.whole_core_step
    if requires_whole_cores(request) and request.count % step:
        return CpuAllocationFailure(
            reason=CpuFailureReason.NOT_WHOLE_CORES, detail=f"{request.count} CPUs, {step} per core"
        )
    return None


def satisfies_required_policy(snapshot: CpuSnapshot, request: CpuRequest, chosen: CpuSet) -> bool:
    """Report whether CPUs satisfy the required bind policy of a request."""
    if requires_whole_cores(request):
        return snapshot.topology.whole_cores(chosen) == chosen
    if request.required and request.policy is CpuBindPolicy.SPREAD_BY_PCPUS:
        return len({snapshot.topology.by_id[cpu].core for cpu in chosen}) == len(chosen)
    return True


def requires_whole_cores(request: CpuRequest) -> bool:
    """Report whether a request must not get a part of a core."""
    return request.required and request.policy is CpuBindPolicy.FULL_PCPUS


def eligible_cpus(snapshot: CpuSnapshot, request: CpuRequest, *, preferred: CpuSet = NO_CPUS) -> CpuSet:
    """Return the CPUs that may be taken without violating a required bind policy."""
    if requires_whole_cores(request):
        return snapshot.topology.whole_cores(snapshot.available)
    if request.required and request.policy is CpuBindPolicy.SPREAD_BY_PCPUS:
        free = (cpus & snapshot.available for cpus in snapshot.topology.cores.values())
        return CpuSet(min(cpus & preferred or cpus) for cpus in free if cpus)
    return snapshot.available


def _whole_cores_that_sum_up(snapshot: CpuSnapshot, request: CpuRequest, available: CpuSet) -> CpuSet | None:
    """Return whole cores of different sizes that add up to the requested count, if any do."""
    cores = {core: cpus for core, cpus in snapshot.topology.cores.items() if cpus <= available}
    # All reachable sums, core by core: sum → the sum before, and the core that was added to it.
    made: dict[int, tuple[int, int] | None] = {0: None}
    for core, cpus in cores.items():
        for total in sorted(made):
            if total + len(cpus) <= request.count:
                made.setdefault(total + len(cpus), (total, core))
    if request.count not in made:
        return None
    chosen = NO_CPUS
    step = made[request.count]
    while step is not None:
        chosen |= cores[step[1]]
        step = made[step[0]]
    return chosen


class _CpuAccumulator:
    """One run of the passes, which move CPUs from the free to the chosen ones."""

    def __init__(self, snapshot: CpuSnapshot, request: CpuRequest, *, free: CpuSet, count: int) -> None:
        self.topology = snapshot.topology
        self.ref_counts = snapshot.ref_counts
        self.is_shared = snapshot.max_ref_count > 1
        self.exclusivity = request.exclusivity
        self.excluded_cpus = snapshot.excluded_cpus(request.exclusivity)
        self.sign = 1 if request.strategy is NumaAllocateStrategy.MOST_ALLOCATED else -1
        self.prefers_whole_cores = request.policy is CpuBindPolicy.FULL_PCPUS or snapshot.topology.threads_per_core == 1
        self.free = set(free)
        self.chosen: set[int] = set()
        self.count = count

    @property
    def needed(self) -> int:
        return self.count - len(self.chosen)

    def run(self) -> CpuSet:
        """Return the chosen CPUs. The caller has checked that enough CPUs are free."""
        for take in self._passes():
            if not self.needed:
                break
            take()
        return CpuSet(self.chosen)

    def _passes(self) -> Iterator[Callable[[], None]]:
        for filter_exclusive in FILTER_EXCLUSIVE_ORDER:
            yield partial(self._take_in_one_numa_node, filter_exclusive=filter_exclusive)
        for filter_exclusive in FILTER_EXCLUSIVE_ORDER:
            yield partial(self._take_in_one_socket, filter_exclusive=filter_exclusive)
        if self.prefers_whole_cores:
            yield self._take_whole_sockets_and_cores
        for filter_exclusive in FILTER_EXCLUSIVE_ORDER:
            yield partial(self._take_threads, filter_exclusive=filter_exclusive)

    # --- the passes

    def _take_in_one_numa_node(self, *, filter_exclusive: bool) -> None:
        applies = not self.prefers_whole_cores or self.exclusivity is CpuExclusivePolicy.NUMA_NODE_LEVEL
        avoid_excluded = filter_exclusive and applies
        usable = self._usable(avoid_excluded=avoid_excluded, one_thread_per_core=filter_exclusive)
        socket_free = self._count(lambda c: c.socket, avoid_excluded=avoid_excluded)
        node_free = self._count(lambda c: c.domain, avoid_excluded=avoid_excluded)
        ranked = []
        for domain, cpus in self.topology.domains.items():
            if len(inside := usable & cpus) >= self.needed:
                free = len(inside) if self.prefers_whole_cores else node_free[domain]
                ranked.append((self.sign * free, self.sign * socket_free[domain[1]], domain, inside))
        if ranked:
            self._take_from_fewest_caches(min(ranked, key=itemgetter(0, 1, 2))[3], distinct_cores=filter_exclusive)

    def _take_in_one_socket(self, *, filter_exclusive: bool) -> None:
        applies = not self.prefers_whole_cores and self.exclusivity is CpuExclusivePolicy.PCPU_LEVEL
        usable = self._usable(avoid_excluded=filter_exclusive and applies, one_thread_per_core=filter_exclusive)
        ranked = []
        for socket, cpus in self.topology.sockets.items():
            if len(inside := usable & cpus) >= self.needed:
                nodes, kept = self._fewest_nodes(inside)
                ranked.append((nodes, self.sign * len(inside), socket, kept))
        if ranked:
            self._take_from_fewest_caches(min(ranked, key=itemgetter(0, 1, 2))[3], distinct_cores=filter_exclusive)

    def _take_whole_sockets_and_cores(self) -> None:
        usable = self._usable(avoid_excluded=False, one_thread_per_core=False)
        lists = {socket: usable & cpus for socket, cpus in self.topology.sockets.items()}
        aside: list[int] = []
        for socket in sorted(lists, key=lambda s: (-len(lists[s]), s)):
            if len(lists[socket]) <= self.needed:
                self._take(lists[socket])
            else:
                aside.append(socket)
        for socket in sorted(aside, key=lambda s: (len(lists[s]), s)):
            for core in self._cores(self._fewest_caches(lists[socket])):
                if len(core) <= self.needed:
                    self._take(core)

    def _take_threads(self, *, filter_exclusive: bool) -> None:
        socket_chosen = _count_by_key(self.topology.by_id[c].socket for c in self.chosen)
        socket_free = self._count(lambda c: c.socket, avoid_excluded=filter_exclusive)
        node_free = self._count(lambda c: c.numa_node, avoid_excluded=filter_exclusive)

        def rank(core: list[int]) -> tuple[int, ...]:
            cpu = self.topology.by_id[core[0]]
            holders = self._ref_count(core)
            return (
                holders if self.is_shared else 0,
                -socket_chosen.get(cpu.socket, 0),
                self.sign * socket_free[cpu.socket],
                self.sign * node_free[cpu.numa_node],
                len(core),
                cpu.socket,
                holders,
                cpu.core,
            )

        usable = self._free_cpus(avoid_excluded=filter_exclusive)
        self._take(_spread_cpus(sorted(self._cores(usable), key=rank))[: self.needed])

    # --- what the passes are made of

    def _usable(self, *, avoid_excluded: bool, one_thread_per_core: bool) -> CpuSet:
        """Return the CPUs that a pass may take: entirely free cores, all threads, or one thread of each core."""
        usable = self._free_cpus(avoid_excluded=avoid_excluded)
        if self.prefers_whole_cores:
            return self.topology.whole_cores(usable)
        return CpuSet(core[0] for core in self._cores(usable)) if one_thread_per_core else usable

    def _cores(self, cpus: CpuSet) -> CoreLists:
        """Return CPUs core by core, in the order in which cores are taken."""
        cores: dict[int, list[int]] = {}
        for cpu in cpus:
            cores.setdefault(self.topology.by_id[cpu].core, []).append(cpu)
        for core in cores.values():
            core.sort(key=lambda cpu: (self.ref_counts.get(cpu, 0), cpu) if self.is_shared else (0, cpu))

        def rank(item: tuple[int, list[int]]) -> tuple[int, int, int]:
            number, core = item
            return (
                -len(core) if self.prefers_whole_cores else 0,
                self._ref_count(core) if self.is_shared else 0,
                number,
            )

        return [core for _, core in sorted(cores.items(), key=rank)]

    def _fewest_nodes(self, cpus: CpuSet) -> tuple[int, CpuSet]:
        """Return the least number of NUMA nodes that suffices and their CPUs; the strategy decides between equals."""
        parts = {d: part for d, all_of in self.topology.domains.items() if (part := cpus & all_of)}
        free = {domain: len(part) for domain, part in parts.items()}
        nodes = fewest_numa_nodes(self.needed, free, fullest_first=self.sign > 0) or tuple(parts)
        return len(nodes), CpuSet(cpu for domain in nodes for cpu in parts[domain])

    def _fewest_caches(self, cpus: CpuSet) -> CpuSet:
        """Return the CPUs of the fewest L3 caches that suffice; all CPUs where that could cost whole cores.

        Where no NUMA node has two caches, the choice among NUMA nodes is the choice among caches.
        """
        topology = self.topology
        if len(topology.caches) <= len(topology.domains):
            return cpus
        if self.is_shared or not topology.has_equal_cores or any(topology.by_id[cpu].l3 is None for cpu in cpus):
            return cpus
        parts = {cache: part for cache, all_of in topology.caches.items() if (part := cpus & all_of)}
        free = {cache: len(part) for cache, part in parts.items()}
        caches = fewest_numa_nodes(self.needed, free, fullest_first=self.sign > 0) or tuple(parts)
        return CpuSet(cpu for cache in caches for cpu in parts[cache])

    def _take_from_fewest_caches(self, cpus: CpuSet, *, distinct_cores: bool) -> None:
        """Take the needed CPUs of a pass; `distinct_cores` says that the pass has one thread of each core."""
        if self.prefers_whole_cores:
            self._take(_whole_cores_first(self._cores(self._fewest_caches(cpus)), self.needed))
        else:
            cores = self._cores(self._fewest_caches(cpus) if distinct_cores else cpus)
            self._take(_spread_cpus(cores)[: self.needed])

    def _take(self, cpus: Iterable[int]) -> None:
        taken = set(cpus)
        self.chosen |= taken
        self.free -= taken

    def _free_cpus(self, *, avoid_excluded: bool) -> CpuSet:
        return CpuSet(self.free) - (self.excluded_cpus if avoid_excluded else NO_CPUS)

    def _count(self, key: Callable[[Cpu], NumaDomain | int], *, avoid_excluded: bool) -> dict[NumaDomain | int, int]:
        return _count_by_key(key(self.topology.by_id[cpu]) for cpu in self._free_cpus(avoid_excluded=avoid_excluded))

    def _ref_count(self, core: Sequence[int]) -> int:
        return sum(self.ref_counts.get(cpu, 0) for cpu in core)


def _count_by_key(keys: Iterable[NumaDomain | int]) -> dict[NumaDomain | int, int]:
    counts: dict[NumaDomain | int, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts


def _whole_cores_first(cores: CoreLists, count: int) -> list[int]:
    """Return `count` CPUs: whole cores first, in order, then CPUs of the cores that were skipped."""
    whole: list[int] = []
    passed: list[int] = []
    for core in cores:
        (whole if len(whole) + len(core) <= count else passed).extend(core)
    return (whole + passed)[:count]


def _spread_cpus(cores: CoreLists) -> list[int]:
    """Return all CPUs, the first of each core, then the second of each core, and so on."""
    return [cpu for turn in zip_longest(*cores) for cpu in turn if cpu is not None]
