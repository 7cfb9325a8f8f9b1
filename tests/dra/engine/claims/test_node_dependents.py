"""Which claims a change of a node concerns, and the deletion signs of an allocation's nodes."""

import pytest

from dra.model.autoscalers import SCALE_DOWN_DISABLED, DeletionSign
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tests.dra.engine.examples import KEY, NOON, allocation, claim, node, observe_all, pod, uid

CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"


def signs(world, key=KEY):
    return [(found.node, found.sign) for found in world.view(key, now=NOON).deletion_signs]


@pytest.mark.parametrize(
    ("before", "after", "concerned"),
    [
        pytest.param(node("n1"), node("n1"), False, id="a-heartbeat"),
        pytest.param(node("n1"), node("n1", ready=False), False, id="not-ready"),
        pytest.param(node("n1"), node("n1", taints=[CANDIDATE]), True, id="a-sign"),
        pytest.param(node("n1", taints=[CANDIDATE]), node("n1", taints=[CANDIDATE]), False, id="the-same-sign"),
        pytest.param(node("n1", taints=[CANDIDATE]), node("n1", taints=[TO_BE_DELETED]), True, id="a-worse-sign"),
        pytest.param(node("n1", taints=[CANDIDATE]), node("n1"), True, id="no-sign-any-longer"),
        pytest.param(
            node("n1", taints=[CANDIDATE]),
            node("n1", taints=[CANDIDATE], annotations={SCALE_DOWN_DISABLED: "true"}),
            True,
            id="kept-by-an-annotation",
        ),
    ],
)
def test_a_sign_concerns_only_the_claims_that_are_allocated_there(world, before, after, concerned):
    here, elsewhere = claim(allocation=allocation(nodes=["n1"])), claim("b", allocation=allocation(nodes=["n2"]))
    observe_all(world, before, here, elsewhere, claim("c", allocation=None))
    world.observe_node(after, now=NOON)
    assert set(world.dirty) == ({KEY} if concerned else set())


def test_a_node_that_appears_or_goes_concerns_the_claims_that_are_allocated_there(world):
    observe_all(world, claim(allocation=allocation(nodes=["n1"])))
    world.observe_node(node("n1"), now=NOON)
    assert set(world.dirty) == {KEY}
    world.dirty.clear()
    world.forget_node("n1")
    assert set(world.dirty) == {KEY}


def test_a_claim_that_waits_is_marked_anew_by_nodes_that_appear_after_its_mark_was_taken(world):
    observe_all(world, node("n1"), claim(allocation=allocation(nodes=["n1"])), pod("a"))
    for batch in (("n2", "n3"), ("n4",)):
        world.dirty.take()
        for name in batch:
            world.observe_node(node(name), now=NOON)
        assert set(world.dirty) == {KEY}


def test_a_claim_that_waits_is_not_lost_between_two_nodes_of_a_batch(world):
    observe_all(world, node("n1"), claim(allocation=allocation(nodes=["n1"])), pod("a"))
    world.dirty.take()
    world.observe_node(node("n2"), now=NOON)
    world.dirty.discard(KEY)
    world.observe_node(node("n3"), now=NOON)
    assert set(world.dirty) == {KEY}


def test_a_claim_is_forgotten_with_its_allocation(world):
    observe_all(world, node("n1"), node("n2"), claim(allocation=allocation(nodes=["n1"])))
    observe_all(world, claim(version=2, allocation=allocation(nodes=["n2"])))
    world.observe_node(node("n1", taints=[CANDIDATE]), now=NOON)
    assert set(world.dirty) == set()
    observe_all(world, claim(version=3, allocation=None))
    world.observe_node(node("n2", taints=[CANDIDATE]), now=NOON)
    assert set(world.dirty) == set()


def test_the_signs_of_an_allocation_are_told_once_each_existing_node_shows_one(world):
    observe_all(
        world, node("n1", taints=[CANDIDATE]), node("n2"), claim(allocation=allocation(nodes=["n1", "n2", "gone"]))
    )
    assert signs(world) == []
    observe_all(world, node("n2", taints=[TO_BE_DELETED]))
    assert signs(world) == [("n1", DeletionSign.CANDIDATE), ("n2", DeletionSign.TO_BE_DELETED)]
    world.forget_node("n1")
    assert signs(world) == [("n2", DeletionSign.TO_BE_DELETED)]
    world.forget_node("n2")
    assert signs(world) == []


def test_an_allocation_that_selects_by_labels_names_no_node(world):
    anywhere = NodeSelectorRequirement(key="zone", operator="In", values=["a"])
    by_label = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[anywhere])])
    found = allocation()
    observe_all(world, node("n1", labels={"zone": "a"}, taints=[CANDIDATE]))
    observe_all(world, claim(allocation=type(found)(devices=found.devices, node_selector=by_label)))
    assert signs(world) == []


def test_the_time_without_a_pod_begins_when_the_last_bound_pod_ends(world):
    observe_all(world, node("n1"), claim(allocation=allocation(nodes=["n1"])), pod("a", node="n1", ready="12:00"))

    def since(*, now):
        return world.view(KEY, now=now).history.unused_since

    assert since(now=NOON) is None
    observe_all(world, pod("a", version=2, node="n1", phase="Succeeded"), pod("b", version=2))
    assert [since(now=NOON + 5), since(now=NOON + 9)] == [NOON + 5, NOON + 5]
    observe_all(world, pod("b", version=3, node="n1"))
    assert since(now=NOON + 10) is None
    world.forget_pod(uid("b"))
    assert since(now=NOON + 11) == NOON + 11
    observe_all(world, claim(version=2, allocation=allocation(nodes=["n1"], stamp="2026-11-20T12:30:00Z")))
    assert since(now=NOON + 12) == NOON + 12, "another allocation"
    observe_all(world, claim(version=3, allocation=None))
    assert since(now=NOON + 13) is None
