from hypothesis import given
from hypothesis import strategies as st

from dra.engine.reservations.ranking import Ranking

CHANGES = st.lists(st.tuples(st.integers(0, 400), st.one_of(st.none(), st.integers(-5, 40))), max_size=500)


@given(changes=CHANGES, asked=st.integers(-6, 41))
def test_nodes_with_at_least_so_much_are_found_whatever_has_changed(changes, asked):
    ranking, values = Ranking(), {}
    for node, value in changes:
        if value is None:
            ranking.drop(node)
            values.pop(node, None)
        else:
            ranking.put(node, value)
            values[node] = value

    assert ranking.at_least(asked) == sum(1 << node for node, value in values.items() if value >= asked)
    assert len(ranking) == len(values)


def test_thousands_of_nodes_are_split_into_blocks():
    ranking = Ranking()
    for node in range(2000):
        ranking.put(node, node * 7 % 1999)

    assert ranking.at_least(1900).bit_count() == sum(node * 7 % 1999 >= 1900 for node in range(2000))
