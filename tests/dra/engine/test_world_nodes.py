"""What the world makes of nodes: sandboxes, reboots, reach, and nodes that do not report in."""

import pytest

from dra.engine.claims.view import LostNode, NodeFit, lost_entry
from dra.engine.workloads import WorkloadKey
from dra.model.nodes import OUT_OF_SERVICE
from dra.model.workloads import FORCE_RELEASE
from tests.dra.engine.examples import (
    JOBS,
    KEY,
    NAMESPACE,
    NOON,
    allocation,
    claim,
    node,
    pod,
    stages,
    started,
    told,
    uid,
    waiting,
)

TRAIN = WorkloadKey(JOBS, NAMESPACE, "train")


# Sandboxes and reboots:


def test_a_reboot_of_the_node_ends_the_sandboxes(world):
    told(world, node("n1"), claim(), pod("a", node="n1", ready="12:00"), pod("b", node="n2", ready="12:00"))
    world.observe_node(node("n1", boot="boot-2"), now=NOON)
    assert world.dirty == {KEY}
    assert stages(world) == {"starting": ["a"], "started": ["b"]}


@pytest.mark.parametrize(
    ("ready", "stage"),
    [
        pytest.param("12:00", "starting", id="the-kubelet-has-not-looked-yet"),
        pytest.param("12:30", "started", id="a-new-sandbox"),
        pytest.param(False, "starting", id="the-kubelet-sees-that-it-is-gone"),
    ],
)
def test_after_a_reboot_the_condition_lies_until_the_kubelet_has_looked(world, ready, stage):
    told(world, node("n1"), claim(), pod("a", node="n1", ready="12:00"), node("n1", boot="boot-2"))
    told(world, pod("a", version=2, node="n1", ready=ready))
    assert stages(world) == {stage: ["a"]}


def test_a_reboot_is_noticed_also_where_the_pod_was_seen_before_its_node(world):
    told(world, claim(), pod("a", node="n1", ready="12:00"), node("n1"), node("n1", boot="boot-2"))
    assert stages(world) == {"starting": ["a"]}


def test_a_node_that_comes_back_after_a_reboot_has_lost_its_sandboxes(world):
    told(world, node("n1"), claim(), pod("a", node="n1", ready="12:00"))
    world.forget_node("n1")
    assert stages(world) == {"started": ["a"]}
    told(world, node("n1", boot="boot-2"))
    assert stages(world) == {"starting": ["a"]}


def test_the_first_sight_of_a_node_is_no_reboot(world):
    told(world, claim(), pod("a", node="n1", ready="12:00"), node("n1"))
    assert stages(world) == {"started": ["a"]}


# Nodes:


def test_bound_pods_on_nodes_that_the_allocation_excludes(world):
    told(world, node("n1"), node("n2"), claim(allocation=allocation(nodes=["n1"])))
    told(world, pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n3"), pod("d", node="n2", ready="12:00"))
    assert world.view(KEY, now=NOON).excluded == {uid("b"), uid("d")}
    told(world, claim(version=2, allocation=allocation(nodes=["n1"]), list=[waiting("b"), started("d")]))
    assert world.view(KEY, now=NOON).excluded == {uid("b")}, "who has started and is listed stays listed"


def test_an_allocation_for_all_nodes_excludes_none(world):
    told(world, node("n1"), claim(), pod("a", node="n1"))
    found = world.view(KEY, now=NOON)
    assert (found.excluded, found.nodes) == (frozenset(), NodeFit())


def test_the_nodes_of_an_allocation_are_counted_as_they_come_and_go(world):
    told(world, node("n1"), node("n2"), node("n3", ready=False), claim(allocation=allocation(nodes=["n1", "n3"])))
    assert world.view(KEY, now=NOON).nodes == NodeFit(inside=1, outside=1)
    told(world, node("n1", cordoned=True), node("n3"))
    assert world.view(KEY, now=NOON).nodes == NodeFit(inside=1, outside=1)
    world.forget_node("n3")
    assert world.view(KEY, now=NOON).nodes == NodeFit(inside=0, outside=1)
    told(world, claim(version=2, allocation=allocation(nodes=["n2"])))
    assert world.view(KEY, now=NOON).nodes == NodeFit(inside=1, outside=0)


@pytest.mark.parametrize(
    ("after", "dirty"),
    [
        pytest.param(node("n1"), False, id="a-heartbeat"),
        pytest.param(node("n1", ready=False), True, id="not-ready"),
        pytest.param(node("n1", cordoned=True), True, id="cordoned"),
        pytest.param(node("n1", labels={"zone": "b"}), True, id="relabelled"),
    ],
)
def test_nodes_concern_claims_that_somebody_waits_for(world, after, dirty):
    told(world, node("n1"), claim(), pod("a"), claim("idle"), claim("done"), pod("b", claims=("done",), phase="Failed"))
    world.observe_node(after, now=NOON)
    assert world.dirty == ({KEY} if dirty else set())


# Nodes that do not report in:


def vanished(world, *, at, after=()):
    """A pod runs on the node ``at``, which then becomes ``after``; then the pod's object goes without its kubelet."""
    told(world, claim(), at, pod("a", node="n1", ready="12:00"))
    told(world, *after)
    world.dirty.clear()
    world.forget_pod(uid("a"))
    return world.view(KEY, now=NOON).lost_nodes


AWAY = node("n1", ready=False)


@pytest.mark.parametrize(
    ("at", "after", "lost"),
    [
        pytest.param(node("n1"), [], False, id="its-kubelet-reports-in"),
        pytest.param(node("n1"), [AWAY], True, id="its-kubelet-is-away"),
        pytest.param(AWAY, [node("n1", ready=False, cordoned=True)], True, id="cordoned-besides"),
        pytest.param(AWAY, [node("n1", ready=False, taints=[OUT_OF_SERVICE])], False, id="shut-down-as-somebody-says"),
        pytest.param(node("n2"), [], False, id="no-such-node"),
        pytest.param(AWAY, [pod("a", version=2, node="n1", phase="Succeeded")], False, id="it-had-ended"),
    ],
)
def test_a_pod_may_still_run_if_nobody_could_end_it(world, at, after, lost):
    assert vanished(world, at=at, after=after) == ((LostNode(name="n1", boot="boot-1"),) if lost else ())


@pytest.mark.parametrize(
    ("news", "lost"),
    [
        pytest.param(node("n1"), [LostNode(name="n1", boot="boot-1", ready_since=NOON)], id="back"),
        pytest.param(node("n1", boot="boot-2"), [], id="rebooted"),
        pytest.param(node("n1", ready=False, taints=[OUT_OF_SERVICE]), [], id="vouched-for"),
        pytest.param(None, [], id="deleted"),
    ],
)
def test_what_tells_of_a_lost_node_concerns_the_claim(world, news, lost):
    vanished(world, at=AWAY)
    world.dirty.clear()
    if news is None:
        world.forget_node("n1")
    else:
        world.observe_node(news, now=NOON)
    assert world.dirty == {KEY}
    assert list(world.view(KEY, now=NOON).lost_nodes) == lost
    told(world, AWAY)
    assert bool(world.view(KEY, now=NOON).lost_nodes) is bool(lost), "what was settled is settled for good"


def test_a_lost_node_is_known_from_the_list_after_a_restart(world):
    told(world, AWAY, claim(list=[lost_entry("n1", "boot-1")]))
    assert world.view(KEY, now=NOON).lost_nodes == (LostNode(name="n1", boot="boot-1"),)
    told(world, claim(version=2))
    assert world.view(KEY, now=NOON).lost_nodes, "nobody else can settle it by taking the entry away"
    world.observe_claim(claim(version=3, list=[lost_entry("n1", "boot-1")]), now=NOON)
    world.observe_claim(claim(version=4), now=NOON, ours=True)
    assert not world.view(KEY, now=NOON).lost_nodes


def test_who_asks_for_a_release_by_force_is_told_where_the_pods_are(world):
    told(world, AWAY, node("n2"), pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n3"), pod("d"))
    told(world, claim())
    assert not world.view(KEY, now=NOON).stranded
    told(world, claim(version=2, annotations={FORCE_RELEASE: "x"}))
    assert world.view(KEY, now=NOON).stranded == {uid("a"), uid("c")}


def test_a_release_by_force_heeds_pods_that_are_listed_and_do_not_reference_the_claim(world):
    told(world, pod("a", node="n1", claims=("of-its-own",)), node("n1"))
    told(world, claim(list=[started("a"), started("b")], annotations={FORCE_RELEASE: "x"}))
    view = world.view(KEY, now=NOON)
    assert ([c.name for c in view.users], view.stranded) == (["a"], frozenset())
    world.dirty.clear()
    world.observe_node(AWAY, now=NOON)
    assert KEY in world.dirty
    assert world.view(KEY, now=NOON).stranded == {uid("a")}
