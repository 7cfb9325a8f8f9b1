"""What the world makes of nodes: sandboxes, reboots, reach, and nodes that do not report in."""

import msgspec
import pytest

from dra.engine.claims import claim_holders
from dra.engine.claims.view import EntryKind, LostNode, UsableNodes, lost_node_entry
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import NEVER
from dra.engine.reservations import placeholders
from dra.model.nodes import OUT_OF_SERVICE
from dra.model.workload_reservations import FORCE_RELEASE
from tests.dra.engine.examples import (
    JOBS,
    KEY,
    NAMESPACE,
    NOON,
    allocation,
    claim,
    node,
    observe_all,
    pod,
    stages,
    started,
    uid,
    waiting,
)

TRAIN = WorkloadKey(JOBS, NAMESPACE, "train")


# Sandboxes and reboots:


def test_a_reboot_of_the_node_ends_the_sandboxes(world):
    observe_all(world, node("n1"), claim(), pod("a", node="n1", ready="12:00"), pod("b", node="n2", ready="12:00"))
    world.observe_node(node("n1", boot="boot-2"), now=NOON)
    assert set(world.dirty) == {KEY}
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
    observe_all(world, node("n1"), claim(), pod("a", node="n1", ready="12:00"), node("n1", boot="boot-2"))
    observe_all(world, pod("a", version=2, node="n1", ready=ready))
    assert stages(world) == {stage: ["a"]}


def test_a_reboot_is_noticed_also_where_the_pod_was_seen_before_its_node(world):
    observe_all(world, claim(), pod("a", node="n1", ready="12:00"), node("n1"), node("n1", boot="boot-2"))
    assert stages(world) == {"starting": ["a"]}


def test_a_node_that_comes_back_after_a_reboot_has_lost_its_sandboxes(world):
    observe_all(world, node("n1"), claim(), pod("a", node="n1", ready="12:00"))
    world.forget_node("n1")
    assert stages(world) == {"started": ["a"]}
    observe_all(world, node("n1", boot="boot-2"))
    assert stages(world) == {"starting": ["a"]}


def test_the_first_sight_of_a_node_is_no_reboot(world):
    observe_all(world, claim(), pod("a", node="n1", ready="12:00"), node("n1"))
    assert stages(world) == {"started": ["a"]}


# Nodes:


def test_bound_pods_on_nodes_that_the_allocation_excludes(world):
    observe_all(world, node("n1"), node("n2"), claim(allocation=allocation(nodes=["n1"])))
    observe_all(
        world, pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n3"), pod("d", node="n2", ready="12:00")
    )
    assert world.view(KEY, now=NOON).excluded == {uid("b"), uid("d")}
    observe_all(world, claim(version=2, allocation=allocation(nodes=["n1"]), list=[waiting("b"), started("d")]))
    assert world.view(KEY, now=NOON).excluded == {uid("b")}, "who has started and is listed stays listed"


def test_an_allocation_for_all_nodes_excludes_none(world):
    observe_all(world, node("n1"), claim(), pod("a", node="n1"))
    found = world.view(KEY, now=NOON)
    assert (found.excluded, found.usable_nodes) == (frozenset(), UsableNodes())


def test_the_nodes_of_an_allocation_are_counted_as_they_come_and_go(world):
    observe_all(
        world, node("n1"), node("n2"), node("n3", ready=False), claim(allocation=allocation(nodes=["n1", "n3"]))
    )
    assert world.view(KEY, now=NOON).usable_nodes == UsableNodes(inside=1, outside=1)
    observe_all(world, node("n1", cordoned=True), node("n3"))
    assert world.view(KEY, now=NOON).usable_nodes == UsableNodes(inside=1, outside=1)
    world.forget_node("n3")
    assert world.view(KEY, now=NOON).usable_nodes == UsableNodes(inside=0, outside=1)
    observe_all(world, claim(version=2, allocation=allocation(nodes=["n2"])))
    assert world.view(KEY, now=NOON).usable_nodes == UsableNodes(inside=1, outside=0)


def test_an_allocation_whose_nodes_are_all_deleted_is_seen_until_one_is_back(world):
    observe_all(world, node("n1"), node("n2"), node("n3"), claim(allocation=allocation(nodes=["n1", "n2"])))
    world.forget_node("n1")
    assert not world.view(KEY, now=NOON).usable_nodes.all_deleted
    world.forget_node("n2")
    assert world.view(KEY, now=NOON).usable_nodes == UsableNodes(inside=0, outside=1, all_deleted=True)
    observe_all(world, node("n2", ready=False))
    assert not world.view(KEY, now=NOON).usable_nodes.all_deleted


def test_the_time_without_nodes_counts_anew_when_one_was_back_meanwhile(world):
    observe_all(world, node("n1"), node("n2"), claim(allocation=allocation(nodes=["n1"])))
    assert world.view(KEY, now=NOON).history.nodes_deleted_since is None
    world.forget_node("n1")
    for now in (NOON + 1, NOON + 2):
        assert world.view(KEY, now=now).history.nodes_deleted_since == NOON + 1
    observe_all(world, node("n3"))
    assert world.view(KEY, now=NOON + 3).history.nodes_deleted_since == NOON + 1, "another node"
    observe_all(world, node("n1", boot="boot-2"))
    world.forget_node("n1")
    assert world.view(KEY, now=NOON + 4).history.nodes_deleted_since == NOON + 4
    world.nodes_listed({"n2", "n3"}, "9")
    assert world.view(KEY, now=NOON + 5).history.nodes_deleted_since == NOON + 5, "a list hides what was before"
    observe_all(world, claim(version=2, allocation=allocation(nodes=["n2"])))
    assert world.view(KEY, now=NOON + 6).history.nodes_deleted_since is None


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
    observe_all(
        world, node("n1"), claim(), pod("a"), claim("idle"), claim("done"), pod("b", claims=("done",), phase="Failed")
    )
    world.observe_node(after, now=NOON)
    assert set(world.dirty) == ({KEY} if dirty else set())


# Nodes that do not report in:


def vanished(world, *, at, after=()):
    """A pod runs on the node ``at``, which then becomes ``after``; then the pod's object goes without its kubelet."""
    observe_all(world, claim(), at, pod("a", node="n1", ready="12:00"))
    observe_all(world, *after)
    world.dirty.clear()
    world.forget_pod(uid("a"))
    return world.view(KEY, now=NOON).lost_nodes


AWAY = node("n1", ready=False)
AWAY_2 = node("n2", ready=False)


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
    assert vanished(world, at=at, after=after) == ((LostNode(name="n1", boot_id="boot-1"),) if lost else ())


def test_the_longest_grace_period_of_pods_that_vanished_from_a_silent_node_is_known(world):
    observe_all(world, claim(), AWAY, pod("a", node="n1", ready="12:00", grace=600), pod("b", node="n1", ready="12:00"))
    for name in ("a", "b"):
        world.forget_pod(uid(name))
    (lost,) = world.view(KEY, now=NOON).lost_nodes
    assert lost.grace == 600.0


# Pods that vanish from nodes that do report in:


def test_a_pod_that_vanished_counts_as_consumer_until_its_kubelet_must_have_ended_it(world):
    observe_all(world, node("n1"), claim(list=[started("a")]), pod("a", node="n1", ready="12:00", grace=40))
    world.forget_pod(uid("a"))
    view = world.view(KEY, now=NOON)
    (gone,) = view.vanished
    assert ([e.kind for e in view.entries], gone.node, gone.ended_at) == ([EntryKind.VANISHED], "n1", NOON + 110.0)
    world.lookups.observe_node_read(KEY, "n1", now=NOON + 109.0)
    assert world.view(KEY, now=NOON + 109.0).vanished
    world.lookups.observe_node_read(KEY, "n1", now=NOON + 110.0)
    view = world.view(KEY, now=NOON + 110.0)
    assert ([e.kind for e in view.entries], view.vanished) == ([EntryKind.FINISHED], ())


def test_a_pod_that_only_uses_the_claim_no_more_has_not_vanished(world):
    observe_all(world, node("n1"), claim(list=[started("a")]), pod("a", node="n1", ready="12:00"))
    world.forget_pod(uid("a"), certain=False)
    view = world.view(KEY, now=NOON)
    assert ([e.kind for e in view.entries], view.vanished) == ([EntryKind.UNKNOWN], ())


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        pytest.param(placeholders.placeholder_name(uid("r")), False, id="the-placeholder"),
        pytest.param(placeholders.placeholder_name(uid("other")), True, id="the-placeholder-of-another-reservation"),
        pytest.param("owner", True, id="an-owner"),
    ],
)
def test_a_placeholder_that_is_deleted_by_force_has_used_no_device_of_its_reservation(world, name, waits):
    world.watch_reservations()
    made = claim(list=[started(name)])
    metadata = msgspec.structs.replace(
        made.metadata, owner_references=[claim_holders.reservation_owner_reference("r", uid("r"))]
    )
    made = msgspec.structs.replace(made, metadata=metadata)
    observe_all(world, node("n1"), made, pod(name, node="n1", ready="12:00", grace=0))
    world.forget_pod(uid(name))
    assert bool(world.view(KEY, now=NOON).vanished) is waits


def test_a_pod_whose_last_state_tells_that_it_has_ended_has_not_vanished(world):
    observe_all(world, node("n1"), claim(list=[started("a")]), pod("a", node="n1", ready="12:00"))
    world.observe_pod_deleted(pod("a", node="n1", phase="Failed", version=2), now=NOON)
    view = world.view(KEY, now=NOON)
    assert ([e.kind for e in view.entries], view.vanished) == ([EntryKind.FINISHED], ())


@pytest.mark.parametrize(
    ("phase", "vanished"),
    [pytest.param("Succeeded", False, id="ended"), pytest.param("Running", True, id="deleted-by-force")],
)
def test_an_entry_that_comes_after_the_pod_is_deleted_waits_only_if_the_pod_was_not_seen_to_end(world, phase, vanished):
    """The claims watch is behind the pods watch, and a live read finds no such pod."""
    observe_all(world, node("n1"), claim(), pod("a", node="n1", phase=phase, version=2))
    world.forget_pod(uid("a"))
    observe_all(world, claim(version=2, list=[started("a")], allocation=allocation("gpu-1")))
    world.lookups.observe_pod_vanished(KEY, uid("a"))
    view = world.view(KEY, now=NOON)
    assert (bool(view.vanished), EntryKind.VANISHED in view.kinds) == (vanished, vanished)


@pytest.mark.parametrize(
    ("at", "vanished"), [pytest.param("", False, id="never-bound"), pytest.param("n1", True, id="bound-at-last")]
)
def test_the_last_state_of_a_deleted_pod_tells_whether_a_late_entry_is_that_of_a_pod_that_never_ran(
    world, at, vanished
):
    observe_all(world, node("n1"), claim(), pod("a"))
    world.observe_pod_deleted(pod("a", node=at, version=2), now=NOON)
    observe_all(world, claim(version=2, list=[waiting("a")]))
    world.lookups.observe_pod_vanished(KEY, uid("a"))
    assert bool(world.view(KEY, now=NOON).vanished) is vanished


@pytest.mark.parametrize(
    ("news", "lost"),
    [
        pytest.param(AWAY, [LostNode(name="n1", boot_id="boot-1")], id="falls-silent"),
        pytest.param(node("n1", boot="boot-2"), [], id="is-rebooted"),
        pytest.param(node("n1", ready=False, taints=[OUT_OF_SERVICE]), [], id="is-vouched-for"),
    ],
)
def test_what_the_node_of_a_vanished_pod_does_settles_it(world, news, lost):
    observe_all(world, node("n1"), claim(), pod("a", node="n1", ready="12:00"))
    world.forget_pod(uid("a"))
    world.dirty.clear()
    world.observe_node(news, now=NOON)
    view = world.view(KEY, now=NOON)
    assert (list(view.lost_nodes), view.vanished, set(world.dirty)) == (lost, (), {KEY})


def test_a_vanished_pod_that_nobody_saw_may_have_run_on_any_node_of_the_allocation(world):
    observe_all(world, node("n1"), AWAY_2, claim(allocation=allocation(nodes=("n1", "n2")), list=[started("a")]))
    world.lookups.observe_pod_vanished(KEY, uid("a"))
    view = world.view(KEY, now=NOON)
    assert ([e.kind for e in view.entries], view.silent_nodes) == ([EntryKind.VANISHED], ("n2",))
    view = world.view(KEY, now=NOON + 10_000.0)
    assert (view.vanished, [lost.name for lost in view.lost_nodes]) == ((), ["n2"]), "n2 does not report in"


def test_where_all_nodes_report_in_a_pod_that_nobody_saw_has_ended(world):
    observe_all(world, node("n1"), node("n2"), claim(allocation=allocation(nodes=("n1", "n2")), list=[started("a")]))
    world.lookups.observe_pod_vanished(KEY, uid("a"))
    assert world.view(KEY, now=NOON).vanished
    view = world.view(KEY, now=NOON + 190.0)
    assert (view.vanished, view.lost_nodes) == ((), ())


def test_a_pod_whose_binding_nobody_saw_has_the_grace_period_that_it_was_seen_with(world):
    """The pods watch shows a pod that waits and goes, the claims watch its entry later (machine, seed 33867)."""
    world.observe_pod(pod("a", grace=300), now=NOON)
    world.forget_pod(uid("a"))
    observe_all(world, node("n1"), node("n2"), claim(allocation=allocation(nodes=("n1", "n2")), list=[started("a")]))
    world.lookups.observe_pod_vanished(KEY, uid("a"))
    assert [gone.grace for gone in world.view(KEY, now=NOON).vanished] == [300.0]
    assert world.view(KEY, now=NOON + 300.0).vanished


def test_where_an_allocation_has_one_node_that_is_where_it_ran(world):
    observe_all(world, node("n1"), claim(allocation=allocation(nodes=("n1",)), list=[started("a")]))
    world.lookups.observe_pod_vanished(KEY, uid("a"))
    assert [gone.node for gone in world.view(KEY, now=NOON).vanished] == ["n1"]


def test_a_guard_brings_no_entries_of_nodes_that_do_not_report_in(world):
    """It may stand for no pod, and in a large cluster some node is always silent."""
    observe_all(world, node("n1"), AWAY_2, claim(allocation=allocation(nodes=("n1", "n2")), list=["guard"]))
    view = world.view(KEY, now=NOON)
    assert (len(view.vanished), view.silent_nodes) == (1, ())
    view = world.view(KEY, now=NOON + 190.0)
    assert (view.vanished, view.lost_nodes) == ((), ())


@pytest.mark.parametrize(
    ("versions", "nodes"),
    [
        pytest.param([{"list": ["guard"]}], ["n1"], id="of-the-one-node"),
        pytest.param(
            [{"list": ["guard"], "allocation": allocation(nodes=("n1", "n2"))}], [""], id="of-one-of-the-nodes"
        ),
        pytest.param([{}, {"list": ["guard"]}], [], id="unless-it-came-later"),
        pytest.param([{"list": ["guard"], "allocation": None}], [], id="unless-nothing-is-allocated"),
    ],
)
def test_a_guard_that_the_claim_is_first_seen_with_stands_for_a_vanished_pod(world, versions, nodes):
    """Simulation, seed 669946175: the process that saw the pod go, and put the guard there, has ended."""
    observe_all(world, node("n1"), node("n2"))
    for number, form in enumerate(versions, start=1):
        observe_all(world, claim(version=number, **{"allocation": allocation(nodes=("n1",)), **form}))
    assert [gone.node for gone in world.view(KEY, now=NOON).vanished] == nodes


@pytest.mark.parametrize(
    ("form", "grace"),
    [
        pytest.param({}, 30.0, id="by-default"),
        pytest.param({"grace": 600}, 600.0, id="of-the-spec"),
        pytest.param({"grace": 600, "deleting": True, "asked": 5}, 5.0, id="of-the-deletion"),
        pytest.param({"grace": 600, "deleting": True, "asked": 0}, 600.0, id="a-deletion-at-once"),
    ],
)
def test_the_grace_period_of_a_pod(world, form, grace):
    observe_all(world, pod("a", node="n1", **form))
    assert world.consumer(uid("a")).grace == grace


@pytest.mark.parametrize(
    ("news", "lost"),
    [
        pytest.param(node("n1"), [LostNode(name="n1", boot_id="boot-1", ready_since=NOON)], id="back"),
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
    assert set(world.dirty) == {KEY}
    assert list(world.view(KEY, now=NOON).lost_nodes) == lost
    observe_all(world, AWAY)
    assert bool(world.view(KEY, now=NOON).lost_nodes) is bool(lost), "what was settled is settled for good"


def test_a_lost_node_is_known_from_the_list_after_a_restart(world):
    observe_all(world, AWAY, claim(list=[lost_node_entry("n1", "boot-1")]))
    assert world.view(KEY, now=NOON).lost_nodes == (LostNode(name="n1", boot_id="boot-1"),)
    observe_all(world, claim(version=2))
    assert world.view(KEY, now=NOON).lost_nodes, "nobody else can settle it by taking the entry away"
    world.observe_claim(claim(version=3, list=[lost_node_entry("n1", "boot-1")]), now=NOON)
    world.observe_claim(claim(version=4), now=NOON, ours=True)
    assert not world.view(KEY, now=NOON).lost_nodes


def test_a_lost_node_tells_when_it_was_read_live(world):
    observe_all(world, node("n1"), claim(list=[lost_node_entry("n1", "boot-1")]))
    assert [lost.live_read_at for lost in world.view(KEY, now=NOON).lost_nodes] == [-NEVER]
    world.lookups.observe_node_read(KEY, "n1", now=NOON + 5.0)
    assert [lost.live_read_at for lost in world.view(KEY, now=NOON).lost_nodes] == [NOON + 5.0]


def test_an_entry_that_names_no_boot_settles_nothing_of_the_boot_that_a_pod_vanished_from_later(world):
    observe_all(world, AWAY, claim(list=[lost_node_entry("n1", "")]), pod("a", node="n1", ready="12:00"))
    world.forget_pod(uid("a"))
    lost = (LostNode(name="n1", boot_id="boot-1"),)
    assert world.view(KEY, now=NOON).lost_nodes == lost
    observe_all(world, claim(version=2, list=[lost_node_entry("n1", "")]))
    assert world.view(KEY, now=NOON).lost_nodes == lost, "the list is older than the news of the pod"
    world.observe_claim(claim(version=3), now=NOON, ours=True)
    assert world.view(KEY, now=NOON).lost_nodes == lost, "the write was decided before the news of the pod"


def test_who_asks_for_a_release_by_force_is_told_where_the_pods_are(world):
    observe_all(world, AWAY, node("n2"), pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n3"), pod("d"))
    observe_all(world, claim())
    assert not world.view(KEY, now=NOON).pods_on_silent_nodes
    observe_all(world, claim(version=2, annotations={FORCE_RELEASE: "x"}))
    assert world.view(KEY, now=NOON).pods_on_silent_nodes == {uid("a"), uid("c")}


def test_a_release_by_force_heeds_pods_that_are_listed_and_do_not_reference_the_claim(world):
    observe_all(world, pod("a", node="n1", claims=("of-its-own",)), node("n1"))
    observe_all(world, claim(list=[started("a"), started("b")], annotations={FORCE_RELEASE: "x"}))
    view = world.view(KEY, now=NOON)
    assert ([c.name for c in view.users], view.pods_on_silent_nodes) == (["a"], frozenset())
    world.dirty.clear()
    world.observe_node(AWAY, now=NOON)
    assert KEY in world.dirty
    assert world.view(KEY, now=NOON).pods_on_silent_nodes == {uid("a")}
