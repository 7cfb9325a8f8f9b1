"""Each rule of the choice by itself, and where it goes beyond Koordinator's."""

import pytest
from msgspec.structs import replace

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy, NumaAllocateStrategy
from dra.engine.cpus.accumulator import take_cpus
from dra.engine.cpus.cpu_snapshot import CpuAllocation, CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import CpuSet, parse
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.cpus.topology import CpuTopology
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

SPREAD = CpuBindPolicy.SPREAD_BY_PCPUS
LEAST = NumaAllocateStrategy.LEAST_ALLOCATED
CORE, NODE = CpuExclusivePolicy.PCPU_LEVEL, CpuExclusivePolicy.NUMA_NODE_LEVEL


def without(machine: CpuTopology, offline: str) -> CpuTopology:
    off = parse(offline)
    return CpuTopology(cpus=tuple(cpu for cpu in machine.cpus if cpu.id not in off), offline=off)


SMALL = uniform_topology(cores=4, threads=2)
TWO_SOCKETS = uniform_topology(sockets=2, cores=4, threads=2)
FOUR_NODES = uniform_topology(sockets=2, nodes=2, cores=2, threads=2)
THREE_NODES = uniform_topology(nodes=3, cores=3)
SIX_NODES = uniform_topology(sockets=2, nodes=3, cores=2, threads=2)
MIXED = without(uniform_topology(cores=4, threads=2), "5,7")
"""Cores 0-1 and 2-3 with two threads, 4 and 6 with one."""
MIXED_SOCKETS = without(uniform_topology(sockets=2, cores=3, threads=2), "5")
"""Cores 0-1, 2-3, 4 in one socket, 6-7, 8-9, 10-11 in the other."""
MIXED_TWICE = without(uniform_topology(sockets=2, cores=3, threads=2), "3,9")


def room(
    topology: CpuTopology, used: str = "", *, by: CpuExclusivePolicy = CpuExclusivePolicy.NONE, holders: int = 1
) -> CpuSnapshot:
    return CpuSnapshot(
        topology=topology,
        allocatable=topology.online,
        allocations=(CpuAllocation(cpus=parse(used), exclusivity=by),),
        max_ref_count=holders,
    )


@pytest.mark.parametrize(
    ("where", "request_", "expected"),
    [
        pytest.param(
            room(SIX_NODES, "0-1,4-5,8-9,20-23"),
            CpuRequest(count=6),
            "12-17",
            id="the-socket-where-fewer-nodes-suffice",
        ),
        pytest.param(room(SIX_NODES, "0-1,12-23"), CpuRequest(count=8), "4-11", id="the-fewest-nodes-of-a-socket"),
        pytest.param(room(THREE_NODES, "0,3"), CpuRequest(count=4), "1-2,4-5", id="of-several-the-fullest-nodes"),
        pytest.param(
            room(THREE_NODES, "0,3"), CpuRequest(count=4, strategy=LEAST), "1-2,6-7", id="of-several-the-emptiest-nodes"
        ),
    ],
)
def test_a_socket_is_used_on_as_few_numa_nodes_as_possible(where, request_, expected):
    assert take_cpus(where, request_) == parse(expected)


@pytest.mark.parametrize(
    ("where", "request_", "expected"),
    [
        pytest.param(
            room(uniform_topology(sockets=2, cores=8, threads=2)), CpuRequest(count=17), "0-16", id="one-thread-more"
        ),
        pytest.param(
            room(TWO_SOCKETS, "3-7,13,15"), CpuRequest(count=7), "0-1,8-12", id="on-the-socket-that-has-most-of-it"
        ),
        pytest.param(room(FOUR_NODES, "0,2,4-6,8,10,12,14"), CpuRequest(count=1), "7", id="on-the-fullest-node"),
        pytest.param(
            room(TWO_SOCKETS, "1,3,5,11,13,15"),
            CpuRequest(count=6, policy=SPREAD),
            "0,2,4,10,12,14",
            id="on-broken-cores-before-whole-ones",
        ),
        pytest.param(
            room(TWO_SOCKETS, "0,8", by=CORE),
            CpuRequest(count=9, policy=SPREAD, exclusivity=CORE),
            "2-7,10,12,14",
            id="away-from-others",
        ),
        pytest.param(
            room(uniform_topology(sockets=2, cores=2, threads=2), "0-1", holders=2),
            CpuRequest(count=7, policy=SPREAD),
            "0,2-7",
            id="least-held-first-where-cpus-are-shared",
        ),
    ],
)
def test_the_rest_is_threads_one_a_core(where, request_, expected):
    assert take_cpus(where, request_) == parse(expected)


@pytest.mark.parametrize(("by", "wanted"), [(NODE, CORE), (CORE, NODE)])
def test_exclusivity_keeps_only_the_like_minded_apart(by, wanted):
    where = room(uniform_topology(sockets=2, cores=8, threads=2), "0,2", by=by)
    assert take_cpus(where, CpuRequest(count=4, policy=SPREAD, exclusivity=wanted)) == parse("1,3-4,6")


@pytest.mark.parametrize(
    ("where", "count", "expected"),
    [
        pytest.param(room(MIXED), 3, "0-1,4", id="a-core-too-large-for-the-rest-is-passed-over"),
        pytest.param(room(MIXED), 1, "4", id="one"),
        pytest.param(room(MIXED_SOCKETS, "8-11"), 6, "0-3,6-7", id="cores-that-add-up-before-a-socket-as-a-whole"),
    ],
)
def test_whole_cores_of_different_size_add_up(where, count, expected):
    assert take_cpus(where, CpuRequest(count=count, required=True)) == parse(expected)


@pytest.mark.parametrize(
    ("where", "request_", "text"),
    [
        pytest.param(
            room(SMALL),
            CpuRequest(count=3, required=True),
            "node(s) requested cpus not multiple cpus per core: 3 CPUs, 2 per core",
            id="no-multiple",
        ),
        pytest.param(
            room(SMALL, "0,2"),
            CpuRequest(count=6, required=True),
            "not enough cpus available to satisfy request: 6 CPUs wanted, 4 usable of 6 free of 8 allocatable",
            id="too-few-whole-cores",
        ),
        pytest.param(
            room(SMALL),
            CpuRequest(count=5, policy=SPREAD, required=True),
            "not enough cpus available to satisfy request: 5 CPUs wanted, 4 usable of 8 free of 8 allocatable",
            id="too-few-cores",
        ),
        pytest.param(
            room(MIXED, "4,6"),
            CpuRequest(count=3, required=True),
            "insufficient CPUs to satisfy required cpu bind policy FullPCPUs: "
            "no whole cores among the 4 CPUs of free ones add up to 3",
            id="no-cores-add-up",
        ),
    ],
)
def test_what_is_required_and_cannot_be_is_refused_with_koordinators_text_and_numbers(where, request_, text):
    assert str(take_cpus(where, request_)) == text


@for_each_case(
    [
        pytest.param(room(SMALL), CpuRequest(count=3), "5-7", "5-7", id="as-many-as-wanted"),
        pytest.param(room(SMALL), CpuRequest(count=4), "6", "0-2,6", id="and-the-rest-by-itself"),
        pytest.param(room(SMALL, "6"), CpuRequest(count=2), "6-7", "0,7", id="only-what-is-free"),
        pytest.param(room(SMALL), CpuRequest(count=4, required=True), "4-6", "0-1,4-5", id="whole-cores-if-required"),
        pytest.param(room(SMALL), CpuRequest(count=2, policy=SPREAD, required=True), "1,3", "1,3", id="either-thread"),
        pytest.param(
            room(SMALL), CpuRequest(count=2, policy=SPREAD, required=True), "", "0,2", id="else-the-first-thread"
        ),
        pytest.param(
            room(MIXED_TWICE, "10-11"),
            CpuRequest(count=1, required=True),
            "0-1",
            "8",
            id="given-up-where-nothing-adds-up",
        ),
    ]
)
def test_preferred_cpus_come_first(where, request_, preferred, expected):
    assert take_cpus(where, request_, preferred=parse(preferred)) == parse(expected)


def test_only_what_is_allocatable_and_online_is_given():
    reserved = CpuSnapshot(topology=SMALL, allocatable=parse("2-20"))
    assert take_cpus(reserved, CpuRequest(count=6)) == parse("2-7")
    refused = take_cpus(reserved, CpuRequest(count=7))
    assert isinstance(refused, CpuAllocationFailure)
    assert refused.reason is CpuFailureReason.SHORTAGE


def test_a_numa_node_that_spans_sockets_counts_per_socket():
    interleaved = CpuTopology(cpus=tuple(replace(cpu, numa_node=0) for cpu in TWO_SOCKETS.cpus))
    where = CpuSnapshot(topology=interleaved, allocatable=CpuSet(range(2, 16)))
    assert take_cpus(where, CpuRequest(count=8)) == parse("8-15")


def of_caches(*, cores=16, of=4, threads=1):
    """Return a socket with one NUMA node, and an L3 cache for each `of` cores."""
    uniform = uniform_topology(cores=cores, threads=threads)
    return CpuTopology(cpus=tuple(replace(cpu, l3=cpu.core // of) for cpu in uniform.cpus))


@for_each_case(
    [
        pytest.param(of_caches(), "0", {"count": 4}, "4-7", id="one-cache-that-is-whole"),
        pytest.param(of_caches(), "0", {"count": 3}, "1-3", id="the-fullest-that-suffices"),
        pytest.param(of_caches(), "0", {"count": 3, "strategy": LEAST}, "4-6", id="the-emptiest"),
        pytest.param(of_caches(), "0,5", {"count": 6}, "1-4,6-7", id="as-few-caches-as-possible"),
        pytest.param(of_caches(), "0,4,8,12", {"count": 4}, "1-3,5", id="no-cache-is-large-enough"),
        pytest.param(of_caches(threads=2), "0", {"count": 6}, "2-7", id="whole-cores-of-a-cache"),
        pytest.param(of_caches(threads=2), "0", {"count": 8}, "8-15", id="a-whole-cache-of-whole-cores"),
        pytest.param(of_caches(threads=2), "0-1", {"count": 4, "policy": SPREAD}, "8,10,12,14", id="spread-in-a-cache"),
        pytest.param(
            of_caches(cores=4, of=2, threads=2),
            "0,2",
            {"count": 5, "policy": SPREAD},
            "1,3-6",
            id="spread-threads-come-before-caches",
        ),
    ]
)
def test_an_l3_cache_is_kept_whole_where_that_costs_nothing(topology, used, request_fields, expected):
    assert str(take_cpus(room(topology, used), CpuRequest(**request_fields))) == expected


def test_cpus_of_unknown_caches_are_taken_in_order():
    topology = of_caches()
    partly = CpuTopology(cpus=tuple(replace(cpu, l3=None) if cpu.id > 11 else cpu for cpu in topology.cpus))
    assert str(take_cpus(room(partly, "0"), CpuRequest(count=4))) == "1-4"
