"""Which nodes are kept from autoscalers, and how their annotations change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims.kept_nodes import KEPT_NODES_MAX, annotation_changes
from dra.model.autoscalers import DO_NOT_DISRUPT, KEEP_ANNOTATIONS, KEPT_NODE, SCALE_DOWN_DISABLED
from dra.model.meta import Uid
from dra.model.references import POD_GROUPS, RESERVATIONS, ConsumerReference
from tests.dra.engine.examples import FOREIGN, JOB, KEY, NOON, allocation, claim, node, observe_all, pod, waiting
from tests.violations import for_each_case

BOTH = f"{SCALE_DOWN_DISABLED},{DO_NOT_DISRUPT}"
OURS = {SCALE_DOWN_DISABLED: "true", DO_NOT_DISRUPT: "true", KEPT_NODE: BOTH}
GONE = {SCALE_DOWN_DISABLED: None, DO_NOT_DISRUPT: None, KEPT_NODE: None}
GANG = ConsumerReference(api_group=POD_GROUPS.group, resource=POD_GROUPS.resource, name="gang", uid=Uid("uid-gang"))
HELD = ConsumerReference(api_group=RESERVATIONS.group, resource=RESERVATIONS.resource, name="r", uid=Uid("uid-r"))


@for_each_case(
    [
        pytest.param(None, False, {}, id="nothing-to-do"),
        pytest.param({"other": "x"}, True, OURS, id="kept-from-now-on"),
        pytest.param(OURS, True, {}, id="kept-as-before"),
        pytest.param(OURS, False, GONE, id="no-longer-kept"),
        pytest.param({SCALE_DOWN_DISABLED: "true"}, False, {}, id="kept-by-a-person"),
        pytest.param(
            {SCALE_DOWN_DISABLED: "true"},
            True,
            {DO_NOT_DISRUPT: "true", KEPT_NODE: DO_NOT_DISRUPT},
            id="one-is-that-of-a-person",
        ),
        pytest.param(
            {**OURS, KEPT_NODE: DO_NOT_DISRUPT},
            False,
            {DO_NOT_DISRUPT: None, KEPT_NODE: None},
            id="that-of-a-person-stays",
        ),
        pytest.param(
            {SCALE_DOWN_DISABLED: "true", DO_NOT_DISRUPT: "true"}, True, {}, id="a-person-has-set-both-before"
        ),
        pytest.param(
            {**OURS, DO_NOT_DISRUPT: "false"}, True, {KEPT_NODE: SCALE_DOWN_DISABLED}, id="a-person-changed-a-value"
        ),
        pytest.param(
            {**OURS, DO_NOT_DISRUPT: "false"},
            False,
            {SCALE_DOWN_DISABLED: None, KEPT_NODE: None},
            id="a-value-that-a-person-changed-stays",
        ),
        pytest.param(
            {SCALE_DOWN_DISABLED: "true", KEPT_NODE: BOTH}, True, {DO_NOT_DISRUPT: "true"}, id="one-was-removed"
        ),
        pytest.param({KEPT_NODE: "nonsense"}, False, {KEPT_NODE: None}, id="a-marker-of-nothing"),
    ]
)
def test_only_annotations_of_the_controller_change(present, kept, changes):
    assert annotation_changes(present, kept=kept) == changes


VALUES = st.sampled_from(["true", "false", "", None])
STATES = st.fixed_dictionaries(
    {
        **dict.fromkeys(KEEP_ANNOTATIONS, VALUES),
        KEPT_NODE: st.sampled_from([None, "", SCALE_DOWN_DISABLED, DO_NOT_DISRUPT, BOTH]),
    }
).map(lambda found: {key: value for key, value in found.items() if value is not None})


def applied(present, changes):
    return {key: value for key, value in {**present, **changes}.items() if value is not None}


@given(present=STATES, kept=st.booleans())
def test_a_change_is_made_once(present, kept):
    after = applied(present, annotation_changes(present, kept=kept))
    assert annotation_changes(after, kept=kept) == {}


@given(present=STATES.filter(lambda found: KEPT_NODE not in found))
def test_a_node_that_is_kept_for_a_while_looks_as_before(present):
    kept = applied(present, annotation_changes(present, kept=True))
    assert all(key in kept for key in KEEP_ANNOTATIONS)
    assert applied(kept, annotation_changes(kept, kept=False)) == present


def kept(world):
    """The nodes that are kept."""
    world.kept_nodes.is_enabled = True
    return {name for name in ("n1", "n2") if world.kept_nodes.is_kept(name)}


@pytest.mark.parametrize(
    ("of", "nodes"),
    [
        pytest.param(claim(workload=JOB, list=[JOB], allocation=allocation(nodes=["n1"])), {"n1"}, id="a-workload"),
        pytest.param(claim(list=[HELD], allocation=allocation(nodes=["n1", "n2"])), {"n1", "n2"}, id="a-reservation"),
        pytest.param(claim(list=[GANG], allocation=allocation(nodes=["n1"])), {"n1"}, id="a-pod-group"),
        pytest.param(claim(list=[waiting("a")], allocation=allocation(nodes=["n1"])), set(), id="pods-alone"),
        pytest.param(claim(list=[FOREIGN, "guard"], allocation=allocation(nodes=["n1"])), set(), id="others-alone"),
        pytest.param(claim(workload=JOB, allocation=allocation(nodes=["n1"])), set(), id="no-entry-yet"),
        pytest.param(claim(workload=JOB, list=[JOB]), set(), id="an-allocation-that-names-no-node"),
        pytest.param(
            claim(
                workload=JOB,
                list=[JOB],
                allocation=allocation(nodes=[f"n{number}" for number in range(1, KEPT_NODES_MAX + 2)]),
            ),
            set(),
            id="an-allocation-that-names-many-nodes",
        ),
    ],
)
def test_a_node_is_kept_while_an_entry_for_future_pods_keeps_a_claim_there(world, of, nodes):
    world.watch_reservations()
    observe_all(world, of)
    assert kept(world) == nodes


def test_a_node_is_kept_whether_or_not_pods_use_the_claim(world):
    observe_all(world, claim(workload=JOB, list=[JOB], allocation=allocation(nodes=["n1"])), pod("a", node="n1"))
    assert kept(world) == {"n1"}


def test_a_node_is_kept_until_its_last_claim_is_released(world):
    here = allocation(nodes=["n1"])
    observe_all(
        world, claim(workload=JOB, list=[JOB], allocation=here), claim("b", workload=JOB, list=[JOB], allocation=here)
    )
    world.kept_nodes.dirty.clear()
    observe_all(world, claim(version=2, workload=JOB, allocation=here))
    assert (kept(world), set(world.kept_nodes.dirty)) == ({"n1"}, set())
    world.forget_claim((KEY[0], "b"), Uid("uid-claim-b"))
    assert (kept(world), set(world.kept_nodes.dirty)) == (set(), {"n1"})


def test_a_claim_that_moves_takes_the_nodes_with_it(world):
    observe_all(world, claim(workload=JOB, list=[JOB], allocation=allocation(nodes=["n1"])))
    observe_all(world, claim(version=2, workload=JOB, list=[JOB], allocation=allocation(nodes=["n2"])))
    assert kept(world) == {"n2"}


def test_nodes_whose_annotations_are_right_are_left_alone(world):
    observe_all(world, claim(workload=JOB, list=[JOB], allocation=allocation(nodes=["n1"])))
    kept(world)
    world.kept_nodes.dirty.clear()
    observe_all(world, node("n1", annotations=OURS), node("n2"), node("n3", annotations={SCALE_DOWN_DISABLED: "true"}))
    assert set(world.kept_nodes.dirty) == set()
    observe_all(world, node("n1"), node("n2", annotations=OURS))
    assert set(world.kept_nodes.dirty) == {"n1", "n2"}


def test_where_nodes_are_not_annotated_what_is_left_is_removed_and_nothing_else_is_written(world):
    observe_all(world, claim(workload=JOB, list=[JOB], allocation=allocation(nodes=["n1"])))
    world.kept_nodes.dirty.clear()
    observe_all(world, node("n1"), node("n2", annotations=OURS))
    assert set(world.kept_nodes.dirty) == {"n2"}
    assert world.kept_nodes.changes(node("n1", annotations=OURS)) == GONE
    assert world.kept_nodes.has_kept_claims("n1")


def test_nothing_is_left_of_nodes_and_claims_that_are_gone(world):
    observe_all(world, node("n1"), claim(workload=JOB, list=[JOB], allocation=allocation(nodes=["n1"])), now=NOON)
    world.forget_node("n1")
    world.forget_claim(KEY, claim().metadata.uid)
    assert (world.kept_nodes._nodes, world.kept_nodes._claims) == ({}, {})
