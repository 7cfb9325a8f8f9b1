"""Sets of nodes by number act as sets of names."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from dra.engine.descheduling.node_names import NodeNames, NodeNumbers

NUMBERS = NodeNumbers(f"n{index}" for index in range(8))
ALL = frozenset(f"n{index}" for index in range(8))
SOME = st.frozensets(st.sampled_from(sorted(ALL)))


@given(names=SOME, other=SOME)
def test_a_set_of_nodes_acts_as_the_names_in_it(names, other):
    kept = NodeNames(NUMBERS, NUMBERS.set_of(names))
    assert kept == names
    assert (kept & other, kept - other, other - kept, ALL - kept) == (
        names & other,
        names - other,
        other - names,
        ALL - names,
    )
    assert kept.excluding(other) == names - other
    assert dict.fromkeys(ALL).keys() - kept == ALL - names
    assert (sorted(kept), len(kept), "gone" in kept, 7 in kept) == (sorted(names), len(names), False, False)
    assert {name for name in ALL if name in kept} == names


def test_names_of_no_node_are_in_no_set():
    kept = NodeNames(NUMBERS, NUMBERS.set_of(["n1", "gone", "n3", "n1"]))
    assert repr(kept) == "NodeNames(['n1', 'n3'])"
    assert kept.excluding(["gone", "n3"]) == {"n1"}
    assert set(NodeNames(NodeNumbers(()), NodeNumbers(()).set_of(["n1"]))) == set()


def test_most_of_many_nodes_take_a_bit_each():
    numbers = NodeNumbers(f"node-{index:05}" for index in range(5000))
    kept = NodeNames(numbers, numbers.all).excluding(["node-00007"])
    assert len(kept) == 4999
    assert sys.getsizeof(kept.nodes) < 1000
