"""What somebody has is nobody else's; the shared pool is what is left, and is never empty."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dra.engine.cpus.cpu_assignments import CpuAssignments
from dra.engine.cpus.cpusets import CpuSet, parse
from dra.engine.cpus.topology import CpuTopology
from dra.engine.devices.ledger import Holder
from dra.model.meta import Uid
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

MACHINE = uniform_topology(cores=4, threads=2)


def claim(name: str) -> Holder:
    return Holder(kind="claim", key=("ml", name), uid=Uid(name))


A, B = claim("a"), claim("b")


def held(division: CpuAssignments, holder: Holder, cpus: str) -> CpuAssignments:
    result = division.assign(holder, parse(cpus))
    assert isinstance(result, CpuAssignments), result
    return result


def with_isolated(cpus: str) -> CpuTopology:
    return CpuTopology(cpus=MACHINE.cpus, isolated=parse(cpus))


def test_what_is_held_leaves_the_pool_and_comes_back():
    empty = CpuAssignments(topology=MACHINE)
    both = held(held(empty, A, "0-1"), B, "4")
    assert (str(both.shared_pool), str(both.assigned), str(both.free)) == ("2-3,5-7", "0-1,4", "2-3,5-7")
    assert str(both.release(A).shared_pool) == "0-3,5-7"
    assert both.release(A).release(B) == empty
    assert empty.release(A) == empty


def test_a_holder_that_holds_again_holds_that_instead():
    division = held(held(CpuAssignments(topology=MACHINE), A, "0-1"), A, "1-2")
    assert (str(division.assigned), str(division.shared_pool)) == ("1-2", "0,3-7")


@pytest.mark.parametrize(
    ("fields", "shared"),
    [
        pytest.param({"reserved": parse("0-1")}, "0-1,4-7", id="for-the-system-and-shared"),
        pytest.param({"node_reserved": parse("0-1")}, "4-7", id="kept-by-the-node"),
        pytest.param({"reserved": parse("0"), "node_reserved": parse("0-1")}, "4-7", id="both"),
    ],
)
def test_reserved_cpus_are_nobodys_own(fields, shared):
    division = held(CpuAssignments(topology=MACHINE, **fields), A, "2-3")
    assert (str(division.shared_pool), str(division.allocatable), str(division.free)) == (shared, "2-7", "4-7")


def test_isolated_cpus_can_be_held_and_are_not_shared():
    division = CpuAssignments(topology=with_isolated("4-7"))
    assert str(division.shared_pool) == "0-3"
    assert str(held(division, A, "4-5").shared_pool) == "0-3"


@for_each_case(
    [
        pytest.param(
            CpuAssignments(topology=MACHINE), "", "no CPUs are asked for; a request needs at least one", id="none"
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE), "7-9", "CPUs 8-9 are not online (online: 0-7); have it", id="gone"
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, reserved=parse("0-1")),
            "1-2",
            "CPUs 1 are reserved for the system (0-1) and cannot be allocated",
            id="reserved",
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, assignments={B: parse("0-3")}),
            "2-5",
            "CPUs 2-3 are held by claim ml/b (uid b)",
            id="held",
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, assignments={B: parse("0-3")}),
            "4-7",
            "4 CPUs (4-7) refused: no CPU would be left for the shared pool; "
            "4 of 8 online CPUs are in the pool now (4-7), so request 3 at most",
            id="the-last-ones",
        ),
        pytest.param(
            CpuAssignments(topology=with_isolated("4-7")),
            "0-3",
            "4 CPUs (0-3) refused: no CPU would be left",
            id="isolated-ones-are-no-pool",
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, node_reserved=parse("0")),
            "1-7",
            "7 CPUs (1-7) refused: no CPU would be left",
            id="nor-are-those-that-the-node-keeps",
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, node_reserved=parse("0-3")),
            "3-4",
            "CPUs 3 are kept by the node (0-3)",
            id="kept",
        ),
    ]
)
def test_what_cannot_be_held_is_refused_with_numbers(division, cpus, text):
    refused = division.assign(A, parse(cpus))
    assert isinstance(refused, str)
    assert refused.startswith(f"claim ml/a (uid a): {text}")


@for_each_case(
    [
        pytest.param(
            CpuAssignments(topology=MACHINE, assignments={A: parse("6-9")}),
            "0-5",
            ["claim ml/a (uid a): CPUs 8-9 that it holds are not online"],
            id="switched-off",
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, reserved=parse("0-1"), assignments={A: parse("1-2")}),
            "0,3-7",
            ["claim ml/a (uid a): CPUs 1 that it holds have since been reserved for the system"],
            id="reserved-since",
        ),
        pytest.param(
            CpuAssignments(
                topology=MACHINE, reserved=parse("0-1"), node_reserved=parse("1-3"), assignments={A: parse("1-2")}
            ),
            "0,4-7",
            ["claim ml/a (uid a): CPUs 1-2 that it holds have since been kept by the node"],
            id="kept-since",
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, node_reserved=parse("2-7"), assignments={A: parse("0-1")}),
            "2-7",
            ["shared pool: no CPU is left; containers without their own run on kept or isolated CPUs (2-7)"],
            id="all-that-is-left-is-kept",
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, assignments={A: parse("1-2"), B: parse("2")}),
            "0,3-7",
            ["claim ml/b (uid b): CPU 2 that it holds is also held by claim ml/a (uid a)"],
            id="held-twice",
        ),
        pytest.param(
            CpuAssignments(topology=with_isolated("6-7"), assignments={A: parse("0-5")}),
            "6-7",
            ["shared pool: no CPU is left; containers without their own run on kept or isolated CPUs (6-7)"],
            id="only-isolated-left",
        ),
        pytest.param(
            CpuAssignments(topology=MACHINE, assignments={A: parse("0-9")}),
            "0-7",
            [
                "claim ml/a (uid a): CPUs 8-9 that it holds are not online",
                (
                    "shared pool: no CPU is left; containers without their own run on all CPUs, "
                    "with those that hold them (0-7)"
                ),
            ],
            id="nothing-left",
        ),
    ]
)
def test_a_machine_that_changed_under_its_holders_takes_nothing_from_them_and_is_told(division, shared, faults):
    assert str(division.shared_pool) == shared
    assert list(division.inconsistencies()) == faults


SETS = st.sets(st.integers(0, 9), max_size=8).map(CpuSet)


@given(
    isolated=st.sets(st.integers(0, 7), max_size=7).map(CpuSet),
    reserved=SETS,
    kept=SETS,
    steps=st.lists(st.tuples(st.sampled_from("abcd"), SETS | st.none()), max_size=12),
)
def test_whatever_is_held_and_released_nothing_is_held_twice_and_the_pool_is_the_rest(isolated, reserved, kept, steps):
    machine = CpuTopology(cpus=MACHINE.cpus, isolated=isolated)
    division = CpuAssignments(topology=machine, reserved=reserved, node_reserved=kept)
    assume(not division.inconsistencies())
    for name, cpus in steps:
        after = division.release(claim(name)) if cpus is None else division.assign(claim(name), cpus)
        if isinstance(after, str):
            continue
        division = after
        assert division.inconsistencies() == ()
        assert division.shared_pool
        assert sum(map(len, division.assignments.values())) == len(division.assigned)
        assert division.shared_pool.isdisjoint(division.assigned | isolated | kept)
        assert division.assigned.isdisjoint(reserved | kept)
        nobodys = machine.online - division.assigned - division.shared_pool
        assert nobodys <= isolated | kept
