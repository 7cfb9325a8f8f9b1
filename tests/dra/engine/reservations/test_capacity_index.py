from hypothesis import given
from hypothesis import strategies as st

from dra.engine.reservations.capacity_index import SortedNodes

CHANGES = st.lists(st.tuples(st.integers(0, 400), st.one_of(st.none(), st.integers(-5, 40))), max_size=500)


@given(size=st.sampled_from([400, 100, 0]), changes=CHANGES)
def test_nodes_with_at_least_so_much_are_found_whatever_has_changed(size, changes):
    ranking, values = SortedNodes(), {}
    begin = [(node, node * 7 % 41) for node in range(size)]
    for node, value in begin + changes:
        if value is None:
            ranking.remove(node)
            values.pop(node, None)
        else:
            ranking.set(node, value)
            values[node] = value

    for asked in range(-6, 42, 4):
        assert ranking.at_least(asked) == sum(1 << node for node, value in values.items() if value >= asked)
    assert len(ranking) == len(values)


def test_thousands_of_nodes_are_split_into_blocks():
    ranking = SortedNodes()
    for node in range(2000):
        ranking.set(node, node * 7 % 1999)

    assert ranking.at_least(1900).bit_count() == sum(node * 7 % 1999 >= 1900 for node in range(2000))


@given(st.dictionaries(st.integers(0, 400), st.integers(-5, 5)), st.integers(0, 2**401))
def test_nodes_are_yielded_by_value_then_by_number(values, wanted):
    nodes = SortedNodes()
    for number, value in values.items():
        nodes.set(number, value)
    assert list(nodes.ascending(wanted)) == sorted(
        (number for number in values if wanted >> number & 1), key=lambda number: (values[number], number)
    )
