"""Which CPUs Koordinator gives (specs/koordinator.md C.5). CPUs are numbered core by core: core k is {2k, 2k+1}."""

import pytest

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy, NumaAllocateStrategy
from dra.engine.cpus.accumulator import take_cpus
from dra.engine.cpus.cpu_snapshot import CpuAllocation, CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import CpuSet, parse
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.cpus.topology import CpuTopology
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

FULL, SPREAD = CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.SPREAD_BY_PCPUS
MOST, LEAST = NumaAllocateStrategy.MOST_ALLOCATED, NumaAllocateStrategy.LEAST_ALLOCATED
NONE, CORE, NODE = CpuExclusivePolicy.NONE, CpuExclusivePolicy.PCPU_LEVEL, CpuExclusivePolicy.NUMA_NODE_LEVEL

SMALL = uniform_topology(cores=4, threads=2)
TWO_SOCKETS = uniform_topology(sockets=2, cores=4, threads=2)
TWO_WIDE_SOCKETS = uniform_topology(sockets=2, cores=8, threads=2)
FOUR_NODES = uniform_topology(sockets=2, nodes=2, cores=4, threads=2)
FOUR_SMALL_NODES = uniform_topology(sockets=2, nodes=2, cores=2, threads=2)
EIGHT_NODES = uniform_topology(sockets=2, nodes=4, cores=8, threads=2)
NO_SMT = uniform_topology(sockets=2, cores=8)


def room(topology: CpuTopology, used: str = "", *, by: CpuExclusivePolicy = NONE) -> CpuSnapshot:
    holdings = (CpuAllocation(cpus=parse(used), exclusivity=by),) if used else ()
    return CpuSnapshot(topology=topology, allocatable=topology.online, allocations=holdings)


@for_each_case(
    [
        pytest.param(SMALL, "", 2, [FULL], [MOST], "0-1", id="one-core"),
        pytest.param(TWO_SOCKETS, "", 8, [FULL], [MOST], "0-7", id="a-whole-socket"),
        pytest.param(TWO_SOCKETS, "0-1", 8, [FULL], [MOST], "8-15", id="the-socket-that-is-whole"),
        pytest.param(FOUR_NODES, "0-5,16-23", 12, [FULL], [MOST, LEAST], "6-15,24-25", id="larger-socket-first"),
        pytest.param(FOUR_SMALL_NODES, "0,2,4,8,12", 4, [FULL], [MOST, LEAST], "10-11,14-15", id="whole-cores-only"),
        pytest.param(FOUR_SMALL_NODES, "0,2,4,8-10,12", 6, [FULL], [MOST], "6-7,11,13-15", id="then-fragments"),
        pytest.param(SMALL, "", 4, [SPREAD], [MOST, LEAST], "0,2,4,6", id="a-thread-a-core"),
        pytest.param(TWO_SOCKETS, "0-3", 4, [SPREAD], [MOST, LEAST], "8,10,12,14", id="a-thread-a-core-elsewhere"),
        pytest.param(FOUR_NODES, "", 4, [FULL], [MOST, LEAST], "0-3", id="lowest-first"),
        pytest.param(FOUR_NODES, "0-1", 3, [FULL], [MOST], "2-4", id="an-odd-count-splits-the-last-core"),
        pytest.param(FOUR_NODES, "", 20, [FULL], [MOST], "0-19", id="a-socket-and-some-cores"),
        pytest.param(FOUR_NODES, "0,2,4,6", 4, [SPREAD], [MOST], "1,3,5,7", id="spread-fullest-node"),
        pytest.param(FOUR_NODES, "0,2,4,6", 4, [SPREAD], [LEAST], "16,18,20,22", id="spread-emptiest-node"),
        pytest.param(
            FOUR_NODES,
            "",
            20,
            [SPREAD],
            [MOST],
            "0-8,10,12,14,16,18,20,22,24,26,28,30",
            id="all-cores-then-second-threads",
        ),
        pytest.param(EIGHT_NODES, "0-7", 24, [FULL], [MOST], "8-31", id="within-the-fuller-socket"),
        pytest.param(NO_SMT, "0-2", 4, [FULL, SPREAD], [MOST], "3-6", id="without-threads-fullest"),
        pytest.param(NO_SMT, "0-2", 4, [FULL, SPREAD], [LEAST], "8-11", id="without-threads-emptiest"),
        pytest.param(SMALL, "0", 7, [FULL], [MOST, LEAST], "1-7", id="all-that-is-free"),
        pytest.param(
            FOUR_NODES,
            parse("0-31") - CpuSet(range(1, 32, 2)),
            6,
            [FULL],
            [MOST],
            "1,3,5,7,9,11",
            id="no-whole-core-free",
        ),
        pytest.param(SMALL, "", 0, [FULL, SPREAD], [MOST, LEAST], "", id="nothing"),
    ],
)
def test_policy_and_strategy(topology, used, count, policies, strategies, expected):
    for policy in policies:
        for strategy in strategies:
            request = CpuRequest(count=count, policy=policy, strategy=strategy)
            assert take_cpus(room(topology, str(used)), request) == parse(expected), (policy, strategy)


@pytest.mark.parametrize("policy", [FULL, SPREAD])
@pytest.mark.parametrize("strategy", [MOST, LEAST])
def test_more_than_is_free_is_refused_with_numbers(policy, strategy):
    refused = take_cpus(room(SMALL, "0"), CpuRequest(count=8, policy=policy, strategy=strategy))
    assert refused == CpuAllocationFailure(
        reason=CpuFailureReason.SHORTAGE, detail="8 CPUs wanted, 7 usable of 7 free of 8 allocatable"
    )


@for_each_case(
    [
        pytest.param(
            TWO_SOCKETS, ("0,2", CORE), (4, SPREAD, CORE), "8,10,12,14", id="not-enough-cores-beside-the-holder"
        ),
        pytest.param(TWO_SOCKETS, ("", CORE), (10, SPREAD, CORE), "0-4,6,8,10,12,14", id="not-exclusive-to-itself"),
        pytest.param(TWO_WIDE_SOCKETS, ("0,2", CORE), (4, SPREAD, CORE), "4,6,8,10", id="cores-beside-the-holder"),
        pytest.param(TWO_WIDE_SOCKETS, ("0,2", CORE), (4, SPREAD, NONE), "1,3-4,6", id="who-does-not-mind-a-core"),
        pytest.param(TWO_SOCKETS, ("0,2", NODE), (4, SPREAD, NODE), "8,10,12,14", id="another-node"),
        pytest.param(TWO_SOCKETS, ("0,2", NODE), (4, SPREAD, NONE), "1,3-4,6", id="who-does-not-mind-a-node"),
        pytest.param(TWO_SOCKETS, ("0,2", NODE), (4, FULL, NODE), "8-11", id="another-node-whole-cores"),
        pytest.param(TWO_SOCKETS, ("0,2", NODE), (4, FULL, NONE), "4-7", id="who-does-not-mind-whole-cores"),
    ]
)
def test_exclusivity(topology, holding, asked, expected):
    (used, by), (count, policy, exclusivity) = holding, asked
    request = CpuRequest(count=count, policy=policy, exclusivity=exclusivity)
    assert take_cpus(room(topology, used, by=by), request) == parse(expected)


def test_cpus_that_are_avoided_do_not_make_their_node_emptier():
    """Koordinator, on a random machine: node 0 has 2-4 free, of which 4 is avoided, node 1 has 11 and 12."""
    held = (
        CpuAllocation(cpus=parse("0-1,6-10,13"), exclusivity=NODE),
        CpuAllocation(cpus=parse("5,14-15"), exclusivity=CORE),
    )
    machine = uniform_topology(nodes=2, cores=4, threads=2)
    there = CpuSnapshot(topology=machine, allocatable=machine.online, allocations=held)
    assert take_cpus(there, CpuRequest(count=1, policy=SPREAD, exclusivity=CORE)) == parse("2")


def test_shared_cpus_go_to_the_least_held_first():
    held: tuple[CpuAllocation, ...] = ()
    for count, expected in ((4, "0-3"), (5, "0,4-7"), (4, "2-5")):
        shared = CpuSnapshot(topology=SMALL, allocatable=SMALL.online, allocations=held, max_ref_count=2)
        chosen = take_cpus(shared, CpuRequest(count=count))
        assert chosen == parse(expected)
        held += (CpuAllocation(cpus=chosen),)


@pytest.mark.parametrize(
    ("used", "preferred", "expected"),
    [
        pytest.param("", "11,13,15,17", "11,13", id="preferred-cpus-first"),
        pytest.param("0,2", "", "1,3", id="else-the-fullest-node"),
    ],
)
def test_preferred(used, preferred, expected):
    wide = uniform_topology(sockets=2, cores=16, threads=2)
    request = CpuRequest(count=2, policy=SPREAD)
    assert take_cpus(room(wide, used), request, preferred=parse(preferred)) == parse(expected)
