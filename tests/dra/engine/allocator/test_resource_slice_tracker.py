"""What a node is offered: generations, completeness, places."""

import pytest

from dra.cel.device_selectors import CompiledSelector
from dra.engine.allocator.resource_slice_tracker import SELECTOR_RESULTS_MAX, PoolState
from dra.engine.devices.allocator_releases import RELEASE_1_37, RELEASE_1_38
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.slices import Device
from tests.dra.engine.allocator.strategies import DRIVER, NODE, device, inventory, item, slice_of


def offered(found, node=NODE, labels=None):
    return [c.item.device for share in found.node_devices(node, labels).pools for c in share.candidates]


def states(found, node=NODE):
    return [share.state for share in found.node_devices(node, {}).pools]


def zone(value):
    requirement = NodeSelectorRequirement(key="zone", operator="In", values=[value])
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[requirement])])


def test_only_the_newest_generation_counts():
    old, new = slice_of(device("a"), name="s1"), slice_of(device("b"), name="s2", generation=2)

    assert offered(inventory(old, new)) == ["b"]


def test_a_pool_with_missing_slices_offers_nothing():
    half = inventory(slice_of(device("a"), name="s1", count=2))
    assert (offered(half), states(half)) == ([], [PoolState.INCOMPLETE])

    half.observe(slice_of(device("b"), name="s2", count=2))
    assert (offered(half), states(half)) == (["a", "b"], [PoolState.COMPLETE])


def test_a_device_that_is_there_twice_makes_its_pool_invalid():
    found = inventory(slice_of(device("a"), name="s1", count=2), slice_of(device("a"), name="s2", count=2))

    assert (offered(found), states(found)) == ([], [PoolState.INVALID])


@pytest.mark.parametrize(
    ("place", "node", "labels", "reached"),
    [
        pytest.param({"node_name": "n1"}, "n1", {}, True, id="its-node"),
        pytest.param({"node_name": "n1"}, "n2", {}, False, id="another-node"),
        pytest.param({"all_nodes": True}, "n2", {}, True, id="all-nodes"),
        pytest.param({"node_selector": zone("a")}, "n2", {"zone": "a"}, True, id="selected"),
        pytest.param({"node_selector": zone("a")}, "n2", {"zone": "b"}, False, id="not-selected"),
    ],
)
def test_a_slice_is_for(place, node, labels, reached):
    found = inventory(slice_of(device("a"), **place))

    assert offered(found, node, labels) == (["a"] if reached else [])


def test_each_device_may_have_its_own_place():
    found = inventory(
        slice_of(
            Device(name="mine", node_name="n1"),
            Device(name="theirs", node_name="n2"),
            Device(name="zonal", node_selector=zone("a")),
            Device(name="all", all_nodes=True),
            per_device_node_selection=True,
        )
    )

    assert offered(found, "n1", {"zone": "a"}) == ["mine", "zonal", "all"]
    assert offered(found, "n2") == ["theirs", "all"]


def test_changed_labels_change_the_offer():
    found = inventory(slice_of(device("a"), node_selector=zone("a")))

    assert [offered(found, NODE, {"zone": z}) for z in ("b", "a", "b")] == [[], ["a"], []]


def test_a_slice_that_moves_to_another_pool_or_goes_takes_its_devices_along():
    found = inventory(slice_of(device("a"), name="s"))
    found.observe(slice_of(device("a"), name="s", pool="q"))
    assert [share.pool.key for share in found.node_devices(NODE, {}).pools] == [(DRIVER, "q")]

    found.forget("s")
    assert found.node_devices(NODE, {}).pools == ()
    found.forget("s")


def test_the_version_changes_only_with_the_devices():
    found = inventory(slice_of(device("a")))
    before = found.version
    found.observe(slice_of(device("a")))
    assert found.version == before

    found.observe(slice_of(device("b")))
    assert found.version > before
    assert found.candidate(item("b")) is not None
    assert found.candidate(item("a")) is None
    assert found.candidate(item("a", "q")) is None


def test_an_upgraded_api_server_changes_what_nodes_can_do():
    found = inventory(slice_of(device("a")))
    before, version = found.node_devices(NODE, {}), found.version
    found.observe_release(RELEASE_1_38)
    assert (before.release, found.node_devices(NODE, {}).release) == (RELEASE_1_37, RELEASE_1_38)
    assert found.version > version


def test_attributes_are_found_with_and_without_the_drivers_domain():
    [share] = inventory(slice_of(device("a", numa=1, **{"other.org/rack": "r"}))).node_devices(NODE, {}).pools
    [candidate] = share.candidates

    assert candidate.attribute_values(f"{DRIVER}/numa") == ("int", {1})
    assert candidate.attribute_values("other.org/rack") == ("string", {"r"})
    assert candidate.attribute_values("other.org/numa") is None


def test_selectors_of_a_request_are_asked_up_to_the_first_that_the_device_does_not_satisfy():
    [share] = inventory(slice_of(device("a"))).node_devices(NODE, {}).pools
    [candidate] = share.candidates
    asks = [
        [CompiledSelector("true"), CompiledSelector("1 == 2"), CompiledSelector("1 == 1")],
        [CompiledSelector("true"), CompiledSelector("2 == 2")],
    ]
    assert len(list(candidate.evaluate_selectors(asks))) == 3
    assert [candidate.matches_selectors(selectors) for selectors in asks] == [False, True]


def test_a_device_remembers_the_answers_of_a_bounded_number_of_selectors():
    (share,) = inventory(slice_of(device("a"))).node_devices(NODE, {}).pools
    (candidate,) = share.candidates
    for number in range(3 * SELECTOR_RESULTS_MAX):
        assert candidate.matches_selectors([CompiledSelector(f"{number} == {number}")])
        assert len(candidate._results) <= SELECTOR_RESULTS_MAX


def test_a_pool_whose_devices_have_compatibility_groups_offers_nothing_and_keeps_its_devices():
    """Without the gate a scheduler leaves such slices out; what claims have of them is still offered."""
    drawn = [{"counterSet": "gpu", "counters": {"memory": {"value": "40Gi"}}, "compatibilityGroups": ["whole"]}]
    found = inventory(slice_of(Device(name="a", consumes_counters=drawn)))

    assert (offered(found), states(found)) == ([], [PoolState.INCOMPLETE])
    assert found.candidate(item("a")) is not None
