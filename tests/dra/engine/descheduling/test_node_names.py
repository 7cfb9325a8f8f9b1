"""Sets of nodes in little memory act as sets of names."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from dra.engine.descheduling.node_names import AllBut, compact

ALL = frozenset(f"n{index}" for index in range(8))
SOME = st.frozensets(st.sampled_from(sorted(ALL)))


@given(names=SOME, other=SOME)
def test_a_compact_set_acts_as_the_names_in_it(names, other):
    kept = compact(names, within=ALL)
    assert kept == names
    assert (kept & other, kept - other, other - kept, ALL - kept) == (
        names & other,
        names - other,
        other - names,
        ALL - names,
    )
    assert dict.fromkeys(ALL).keys() - kept == ALL - names
    assert (sorted(kept), len(kept), "gone" in kept) == (sorted(names), len(names), False)


def test_all_nodes_need_no_set_and_most_nodes_a_small_one():
    names = frozenset(f"node-{index:05}" for index in range(5000))
    assert compact(None, within=names) is None
    kept = compact(names - {"node-00007"}, within=names)
    assert isinstance(kept, AllBut)
    assert sys.getsizeof(kept._excluded) < 1000
    assert repr(kept) == "AllBut(['node-00007'])"
