"""What live reads settle about a claim."""

import pytest

from dra.engine.claims import live_reads
from dra.engine.claims.actions import LookUpNode, LookUpPlacements, LookUpPod
from dra.engine.claims.consumers import Stage
from dra.engine.claims.view import EntryKind
from dra.model.meta import Uid
from tests.dra.engine.examples import (
    KEY,
    NAMESPACE,
    NOON,
    allocation,
    claim,
    node,
    observe_all,
    pod,
    started,
    uid,
    waiting,
)

OTHER = Uid("another")
OF_A = LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a"))


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        pytest.param(pod("a", identity=OTHER, claims=()), EntryKind.VANISHED, id="another-of-that-name"),
        pytest.param(pod("a", claims=()), EntryKind.FOREIGN, id="there-and-uses-another-claim"),
        pytest.param(pod("a", claims=(), phase="Failed"), EntryKind.FINISHED, id="ended"),
        pytest.param(pod("a", claims=(), deleting=True), EntryKind.FINISHED, id="deleted-before-it-was-bound"),
    ],
)
def test_the_entry_of_a_pod_that_no_watch_shows_is_settled(world, found, kind):
    observe_all(world, claim(list=[waiting("a")], allocation=allocation()))
    live_reads.observe_listed_pod(world, KEY, OF_A, found, now=NOON)
    assert [entry.kind for entry in world.view(KEY, now=NOON).entries] == [kind]
    assert world.consumer(uid("a")) is None, "pods that use no claim are not remembered"


def test_a_listed_pod_that_is_known_is_brought_up_to_date(world):
    observe_all(world, claim(list=[waiting("a")]), pod("a"))
    live_reads.observe_listed_pod(world, KEY, OF_A, pod("a", node="n1", version=2), now=NOON)
    assert world.consumer(uid("a")).stage is Stage.STARTING


@pytest.mark.parametrize(
    ("found", "known"),
    [
        pytest.param(pod("a", version=2), {uid("a")}, id="the-same-pod"),
        pytest.param(pod("a", identity=OTHER, version=2), {OTHER}, id="a-successor-of-its-name"),
    ],
)
def test_a_pod_that_is_read_again_may_be_another_one(world, found, known):
    observe_all(world, pod("a"))
    live_reads.observe_pod(world, uid("a"), found, now=NOON)
    assert {consumer.uid for consumer in world.consumers()} == known


@pytest.mark.parametrize(
    ("nodes", "lost"),
    [
        pytest.param([node("n2"), node("n1")], [], id="its-kubelet-reports-in"),
        pytest.param([node("n1", ready=False)], ["n1"], id="its-kubelet-does-not"),
        pytest.param([node("n2")], [], id="there-is-no-such-node"),
    ],
)
def test_the_node_of_a_vanished_pod_is_settled(world, nodes, lost):
    observe_all(
        world, node("n1"), claim(list=[started("a")], allocation=allocation()), pod("a", node="n1"), now=NOON - 1000.0
    )
    world.forget_pod(uid("a"))
    assert [each.node for each in world.view(KEY, now=NOON - 1000.0).vanished] == ["n1"]
    live_reads.observe_nodes(world, LookUpNode(claim=KEY, node="n1"), nodes, now=NOON)
    view = world.view(KEY, now=NOON)
    assert ([each.name for each in view.lost_nodes], view.vanished) == (lost, ())


@pytest.mark.parametrize("allocated", [True, False], ids=["allocated", "deallocated-meanwhile"])
def test_a_question_about_placements_without_an_answer_says_why(world, allocated):
    observe_all(world, claim() if allocated else claim(allocation=None))
    question = LookUpPlacements(claim=KEY, pods=(uid("a"),))
    live_reads.observe_unknown_placements(world, question, fault="no right to list nodes", now=NOON)
    found = world.view(KEY, now=NOON).placements
    assert (found and (found.pods, found.error)) == (
        (frozenset({uid("a")}), "other placements are unknown: no right to list nodes") if allocated else None
    )
