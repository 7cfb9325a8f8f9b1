from hypothesis import given
from hypothesis import strategies as st

from dra.engine.descheduling.balancing import Receivers
from dra.engine.descheduling.node_classification import LoadedNode

AMOUNTS = st.fixed_dictionaries({"cpu": st.integers(0, 9), "memory": st.integers(0, 9)})
NODES = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=6)


def receivers_of(nodes, **more):
    loaded = {
        f"n{number}": LoadedNode(name=f"n{number}", usage=dict(usage), limits=limits)
        for number, (usage, limits) in enumerate(nodes)
    }
    return Receivers(loaded, **more), loaded


@given(nodes=NODES, pods=st.lists(st.tuples(st.integers(0, 6), AMOUNTS), max_size=8), asked=AMOUNTS)
def test_nodes_with_room_are_those_that_stay_within_all_limits(nodes, pods, asked):
    receivers, loaded = receivers_of(nodes)
    for number, amounts in pods:
        receivers.take(f"n{number}", amounts)  # of a name that is none of the receivers, too
    naive = {
        name
        for name, node in loaded.items()
        if all(node.usage[resource] + asked[resource] <= limit for resource, limit in node.limits.items())
    }
    assert receivers.with_room(asked) == naive


@given(nodes=NODES, pods=st.lists(AMOUNTS, max_size=8))
def test_headroom_is_that_of_all_nodes_less_what_was_taken(nodes, pods):
    receivers, _ = receivers_of(nodes)
    for amounts in pods:
        receivers.take("n0", amounts)
    for resource in ("cpu", "memory"):
        whole = sum(limits[resource] - usage[resource] for usage, limits in nodes)
        assert receivers.headroom[resource] == whole - sum(amounts[resource] for amounts in pods)


def test_without_limits_each_node_may_receive_and_only_named_resources_end_it():
    nodes = [({"cpu": 5, "memory": 9}, {"cpu": 6, "memory": 9})]
    receivers, _ = receivers_of(nodes, within_limits=False, brakes=("cpu",))
    assert receivers.with_room({"cpu": 100}) == {"n0"}
    assert not receivers.are_full
    assert receivers_of(nodes)[0].are_full, "memory has no headroom"
    assert Receivers({}).are_full, "nobody receives"
