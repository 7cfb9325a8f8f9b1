"""The choice of CPUs against an oracle that tries everything, on machines small enough for that.

The oracle knows no passes: it enumerates CPU sets, cores, NUMA nodes, and asks whether a better answer exists.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy, NumaAllocateStrategy
from dra.engine.cpus.accumulator import take_cpus
from dra.engine.cpus.cpu_snapshot import CpuAllocation, CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.cpus.topology import CpuTopology
from tests.dra.engine.cpus.uniform import uniform_topology

FULL, SPREAD = CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.SPREAD_BY_PCPUS
CORE, NODE = CpuExclusivePolicy.PCPU_LEVEL, CpuExclusivePolicy.NUMA_NODE_LEVEL

REGULAR = [
    uniform_topology(sockets=sockets, nodes=nodes, cores=cores, threads=threads)
    for sockets in (1, 2)
    for nodes in (1, 2, 3)
    for cores in (1, 2, 3)
    for threads in (1, 2)
    if sockets * nodes * cores * threads <= 12
]


@st.composite
def topologies(draw: st.DrawFn) -> CpuTopology:
    """Return regular machines, and such of which some CPUs are offline (so that cores differ in size)."""
    machine = draw(st.sampled_from(REGULAR))
    offline = draw(st.just(frozenset()) | st.frozensets(st.sampled_from(list(machine.online)), max_size=4))
    left = tuple(cpu for cpu in machine.cpus if cpu.id not in offline)
    return CpuTopology(cpus=left, offline=CpuSet(offline)) if left else machine


@st.composite
def rooms(draw: st.DrawFn) -> CpuSnapshot:
    machine = draw(topologies())
    cpus = list(machine.online)
    owners = draw(st.lists(st.sampled_from((None, None, 0, 1)), min_size=len(cpus), max_size=len(cpus)))
    holdings = tuple(
        CpuAllocation(cpus=CpuSet(c for c, o in zip(cpus, owners, strict=True) if o == owner), exclusivity=exclusivity)
        for owner, exclusivity in enumerate(draw(st.tuples(*[st.sampled_from(CpuExclusivePolicy)] * 2)))
    )
    reserved = draw(st.just(NO_CPUS) | st.frozensets(st.sampled_from(cpus), max_size=2).map(CpuSet))
    return CpuSnapshot(topology=machine, allocatable=machine.online - reserved, allocations=holdings)


REQUESTS = st.builds(
    CpuRequest,
    count=st.integers(0, 12),
    policy=st.sampled_from([FULL, SPREAD]),
    required=st.booleans(),
    exclusivity=st.sampled_from(CpuExclusivePolicy),
    strategy=st.sampled_from(NumaAllocateStrategy),
)


# --- the oracle


def cores_of(topology: CpuTopology, cpus: Iterable[int]) -> list[int]:
    return [topology.by_id[cpu].core for cpu in cpus]


def domains_of(topology: CpuTopology, cpus: Iterable[int]) -> set[object]:
    return {topology.by_id[cpu].domain for cpu in cpus}


def is_whole(topology: CpuTopology, cpus: frozenset[int]) -> bool:
    return all(set(topology.cores[core]) <= cpus for core in cores_of(topology, cpus))


def is_spread(topology: CpuTopology, cpus: frozenset[int]) -> bool:
    return len(set(cores_of(topology, cpus))) == len(cpus)


def answers(room: CpuSnapshot, request: CpuRequest) -> Iterator[frozenset[int]]:
    """Yield all sets that may be given."""
    for some in combinations(room.available, request.count):
        cpus = frozenset(some)
        if request.required and not (is_whole if request.policy is FULL else is_spread)(room.topology, cpus):
            continue
        yield cpus


def packs_whole_cores(room: CpuSnapshot, request: CpuRequest) -> bool:
    return request.policy is FULL or room.topology.threads_per_core == 1


# --- what holds


@given(room=rooms(), request=REQUESTS)
def test_there_is_an_answer_exactly_when_one_exists_and_it_is_one(room, request):
    given_ = take_cpus(room, request)
    possible = set(answers(room, request))
    if isinstance(given_, CpuAllocationFailure):
        assert not possible
        assert given_.reason in {
            CpuFailureReason.SHORTAGE,
            CpuFailureReason.NOT_WHOLE_CORES,
            CpuFailureReason.POLICY_UNSATISFIED,
        }
    else:
        assert frozenset(given_) in possible


@given(room=rooms(), request=REQUESTS)
def test_the_same_question_has_the_same_answer(room, request):
    turned = CpuSnapshot(topology=room.topology, allocatable=room.allocatable, allocations=room.allocations[::-1])
    assert take_cpus(room, request) == take_cpus(room, request) == take_cpus(turned, request)


@given(room=rooms(), request=REQUESTS)
def test_what_fits_one_numa_node_is_on_one_and_what_fits_one_socket_touches_no_more_nodes_than_it_must(room, request):
    given_ = take_cpus(room, request)
    if isinstance(given_, CpuAllocationFailure) or not request.count:
        return
    topology = room.topology
    if packs_whole_cores(room, request):
        usable = topology.whole_cores(room.available)
    elif request.required:
        usable = CpuSet({cpu.core: cpu.id for cpu in reversed(topology.cpus) if cpu.id in room.available}.values())
    else:
        usable = room.available
    fewest = [
        number
        for cpus in topology.sockets.values()
        for number in range(1, len(topology.domains) + 1)
        for some in combinations([usable & cpus & domain for domain in topology.domains.values()], number)
        if sum(map(len, some)) >= request.count
    ]
    if fewest and is_acceptable(room, request, min(fewest)):
        assert len(domains_of(topology, given_)) == min(fewest)


def is_acceptable(room: CpuSnapshot, request: CpuRequest, nodes: int) -> bool:
    """Whether what is required can be had on so few NUMA nodes (cores of different size may not add up there)."""
    return any(len(domains_of(room.topology, cpus)) == nodes for cpus in answers(room, request))


@given(room=rooms(), request=REQUESTS)
def test_whole_cores_are_given_whole_as_long_as_there_are_enough(room, request):
    given_ = take_cpus(room, request)
    whole = room.topology.whole_cores(room.available)
    step = room.topology.whole_core_step
    if isinstance(given_, CpuAllocationFailure) or request.policy is not FULL or request.count > len(whole):
        return
    if {len(cpus) for cpus in room.topology.cores.values()} != {step}:
        return
    torn = [c for c in set(cores_of(room.topology, given_)) if not room.topology.cores[c] <= given_]
    assert len(torn) == (1 if request.count % step else 0)


@given(room=rooms(), request=REQUESTS)
def test_spread_threads_are_on_cores_of_their_own_where_one_numa_node_has_enough_of_them(room, request):
    given_ = take_cpus(room, request)
    if (
        isinstance(given_, CpuAllocationFailure)
        or request.policy is not SPREAD
        or request.exclusivity is not CpuExclusivePolicy.NONE
    ):
        return
    free_cores = [len(set(cores_of(room.topology, d & room.available))) for d in room.topology.domains.values()]
    if max(free_cores) >= request.count:
        assert is_spread(room.topology, frozenset(given_))
        assert len(domains_of(room.topology, given_)) <= 1


def near_to_others(room: CpuSnapshot, exclusivity: CpuExclusivePolicy) -> set[int]:
    """Return the CPUs that such a request should keep away from."""
    held = {cpu for h in room.allocations if h.exclusivity is exclusivity for cpu in h.cpus}
    by_id = room.topology.by_id
    if exclusivity is CORE:
        return {c.id for c in room.topology.cpus if c.core in {by_id[h].core for h in held}}
    if exclusivity is NODE:
        return {c.id for c in room.topology.cpus if c.numa_node in {by_id[h].numa_node for h in held}}
    return set()


def respects_exclusivity(room: CpuSnapshot, request: CpuRequest, given_: CpuSet) -> bool:
    return given_.isdisjoint(near_to_others(room, request.exclusivity))


@given(room=rooms(), request=REQUESTS)
def test_exclusivity_is_heeded_where_one_numa_node_has_room_for_it(room, request):
    given_ = take_cpus(room, request)
    if isinstance(given_, CpuAllocationFailure) or request.exclusivity is CpuExclusivePolicy.NONE:
        return
    away = room.available - near_to_others(room, request.exclusivity)
    for domain in room.topology.domains.values():
        if packs_whole_cores(room, request):
            enough = len(room.topology.whole_cores(away) & domain) >= request.count
        else:
            enough = len(set(cores_of(room.topology, away & domain))) >= request.count
        if enough and request.required is False:
            assert respects_exclusivity(room, request, given_)


@given(room=rooms(), request=REQUESTS, data=st.data())
def test_preferred_cpus_are_taken_as_far_as_they_go(room, request, data):
    preferred = CpuSet(data.draw(st.frozensets(st.sampled_from(list(room.topology.online)), max_size=6)))
    given_ = take_cpus(room, request, preferred=preferred)
    without = take_cpus(room, request)
    assert isinstance(given_, CpuAllocationFailure) == isinstance(without, CpuAllocationFailure)
    if isinstance(given_, CpuSet) and isinstance(without, CpuSet):
        assert frozenset(given_) in set(answers(room, request))
        if not request.required:
            assert len(given_ & preferred) == min(request.count, len(preferred & room.available))
        if not preferred & room.available:
            assert given_ == without


MACHINE = uniform_topology(sockets=1, nodes=2, cores=4, threads=2)


def test_a_negative_number_of_cpus_is_nobodys_request():
    with pytest.raises(ValueError, match="-1 CPUs"):
        take_cpus(CpuSnapshot(topology=MACHINE, allocatable=MACHINE.online), CpuRequest(count=-1))
