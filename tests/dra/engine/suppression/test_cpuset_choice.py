"""Which CPUs the class BestEffort has, if CPUs hold it back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, parse
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.engine.suppression.cpuset_choice import choose_cpus, next_cpu_count, take_in_turn
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

TWO_SOCKETS = uniform_topology(sockets=2, cores=2, threads=2)
FOUR_SOCKETS = uniform_topology(sockets=4, cores=2, threads=2)
FAR_SIBLINGS = CpuTopology(
    cpus=tuple(Cpu(id=cpu, core=cpu % 4, numa_node=cpu % 4 // 2, socket=cpu % 4 // 2) for cpu in range(8))
)
"""CPU i and CPU i + 4 are threads of one core; the sockets are 0, 1, 4, 5 and 2, 3, 6, 7."""


@pytest.mark.parametrize(
    ("budget", "machine", "current", "count"),
    [
        pytest.param(6000, 20, 4, 6, id="grows-by-a-tenth-of-the-machine"),
        pytest.param(9000, 20, 4, 6, id="by-no-more-than-that"),
        pytest.param(1200, 20, 10, 2, id="shrinks-at-once"),
        pytest.param(450, 2, 2, 2, id="at-least-two"),
        pytest.param(2100, 20, 10, 3, id="a-part-of-a-cpu-is-a-cpu"),
        pytest.param(-5000, 20, 10, 2, id="a-negative-budget"),
    ],
)
def test_the_number_of_cpus(budget, machine, current, count):
    assert next_cpu_count(budget, machine=machine, current=current) == count


@for_each_case(
    [
        pytest.param(FAR_SIBLINGS, "0-7", 3, [0, 4, 2], id="3-of-8-far-siblings"),
        pytest.param(FAR_SIBLINGS, "0-7", 4, [0, 4, 2, 6], id="4-of-8-far-siblings"),
        pytest.param(TWO_SOCKETS, "0-7", 3, [0, 1, 4], id="3-of-8"),
        pytest.param(TWO_SOCKETS, "0-7", 5, [0, 1, 4, 5, 2], id="5-of-8"),
        pytest.param(FOUR_SOCKETS, "0-15", 5, [0, 1, 4, 5, 8], id="5-of-16-in-4-sockets"),
        pytest.param(TWO_SOCKETS, "0,2,5,7", 2, [0, 5], id="no-whole-cores"),
        pytest.param(TWO_SOCKETS, "0,2,4-5,7", 3, [4, 5, 0], id="the-larger-part-first"),
        pytest.param(TWO_SOCKETS, "0-7", 9, [0, 1, 4, 5, 2, 3, 6, 7], id="more-than-there-are-takes-all"),
        pytest.param(TWO_SOCKETS, "", 2, [], id="no-cpus"),
        pytest.param(TWO_SOCKETS, "0-7", 0, [], id="none-wanted"),
    ]
)
def test_cpus_are_taken_in_turn(topology, cpus, count, taken):
    assert list(take_in_turn(topology, parse(cpus), count)) == taken


@for_each_case(
    [
        pytest.param(3, "0-7", "", "0-7", "0-1,4", id="fewer-than-before-are-some-of-those"),
        pytest.param(2, "0-7", "", "3,6", "3,6", id="the-same-number-is-the-same-set"),
        pytest.param(4, "0-7", "", "3,6", "0-1,3,6", id="more-than-before-keeps-those"),
        pytest.param(2, "0-1,4-7", "", "2-3", "4-5", id="cpus-that-became-a-claims-are-replaced"),
        pytest.param(4, "0-3", "4-7", "0-7", "0-1,4-5", id="cpus-of-lsr-pods-in-proportion"),
        pytest.param(3, "0-5", "6-7", "0-7", "0-1,4", id="the-part-of-lsr-pods-is-rounded-down"),
        pytest.param(4, "", "4-7", "", "4-7", id="only-cpus-of-lsr-pods"),
        pytest.param(9, "0-1", "4-5", "", "0-1,4-5", id="fewer-candidates-than-wanted"),
        pytest.param(2, "", "", "0-1", "", id="no-candidates"),
        pytest.param(2, "8-9", "", "", "", id="candidates-that-are-offline"),
    ]
)
def test_the_cpus_of_the_class(count, shared, lsr, current, chosen):
    found = choose_cpus(TWO_SOCKETS, count, shared=parse(shared), lsr=parse(lsr), current=parse(current))
    assert str(found) == chosen


CPUS = st.builds(CpuSet, st.sets(st.integers(0, 15)))


@given(shared=CPUS, lsr=CPUS, current=CPUS, count=st.integers(2, 20))
def test_as_many_as_wanted_of_the_candidates_and_a_second_choice_changes_nothing(shared, lsr, current, count):
    chosen = choose_cpus(FOUR_SOCKETS, count, shared=shared, lsr=lsr, current=current)
    assert chosen <= shared | lsr
    assert len(chosen) == min(count, len(shared | lsr))
    assert choose_cpus(FOUR_SOCKETS, count, shared=shared, lsr=lsr, current=chosen) == chosen
    if not lsr:
        assert len(chosen & current) == min(len(chosen), len(current & shared))


def test_no_candidates_are_no_cpus():
    assert choose_cpus(TWO_SOCKETS, 2, shared=NO_CPUS, lsr=NO_CPUS, current=NO_CPUS) == NO_CPUS
