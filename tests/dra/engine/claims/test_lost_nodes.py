"""Rule 12: pods that vanished from nodes which do not report in."""

import msgspec
import pytest

from dra.engine.claims.actions import Deallocate, LookUpNode
from dra.engine.claims.codes import Code
from dra.engine.claims.lost_nodes import SETTLED
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import LostNode, ObservedHistory, Placements, VanishedPod, lost_node_entry
from dra.engine.instants import NEVER
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.references import ConsumerReference
from tests.dra.engine.examples import (
    JOB,
    KEY,
    NOON,
    PRESENT,
    allocation,
    claim,
    codes,
    decided,
    finished,
    listed,
    of_type,
    started,
    uid,
    unschedulable,
    view,
    waiting,
)
from tests.violations import combinations, for_each_case, named

AWAY = LostNode(name="n1", boot_id="b1")
ENTRY = lost_node_entry("n1", "b1")


def back(*, seconds, read=NOON):
    return LostNode(name="n1", boot_id="b1", ready_since=NOON - seconds, live_read_at=read)


@pytest.mark.parametrize(
    ("seconds", "read", "asks"),
    [
        pytest.param(SETTLED - 1, NOON, False, id="too-early"),
        pytest.param(SETTLED, -NEVER, True, id="never-read"),
        pytest.param(SETTLED + 10, NOON - 11, True, id="read-too-early"),
    ],
)
def test_the_entry_of_a_node_that_is_back_stays_until_a_live_read_tells_so(seconds, read, asks):
    """The nodes watch may be behind, and the node silent again (machine, seed 97481)."""
    plan = decided(view(claim(list=[ENTRY]), lost_nodes=(back(seconds=seconds, read=read),)))
    assert plan.claim_writes == ()
    assert of_type(plan, LookUpNode) == ([LookUpNode(claim=KEY, node="n1")] if asks else [])


@for_each_case(
    combinations(
        named([REPLACE, ALONGSIDE], ["replace", "alongside"]),
        [
            pytest.param([AWAY], ["lostnodes/n1"], id="its-entry-takes-the-place-of-theirs"),
            pytest.param([back(seconds=SETTLED - 1)], ["lostnodes/n1"], id="its-kubelet-may-not-have-ended-them-yet"),
            pytest.param([back(seconds=SETTLED)], None, id="its-kubelet-has"),
            pytest.param([], None, id="nothing-is-left-of-them"),
        ],
    )
)
def test_a_claim_stays_while_a_pod_may_run_without_an_object(policy, lost, after):
    pod = finished("a")
    plan = decided(view(claim(list=[pod]), pod, lost_nodes=tuple(lost)), policy=policy)
    assert listed(plan) == after
    assert bool(of_type(plan, Deallocate)) is (after is None)
    assert (Code.NODE_LOST in codes(plan)) is (after is not None)


@pytest.mark.parametrize("entries", [[ENTRY], [ENTRY, "guard"], ["guard"]], ids=["listed", "guarded", "not-yet-listed"])
def test_whoever_waits_for_other_nodes_does_not_free_the_claim_of_a_lost_one(entries):
    """The owner's new pod cannot run where the old one may: that its allocation is stuck there is no news."""
    pod = unschedulable("b", since=NOON - 10_000.0)
    long_ago = ObservedHistory(podless_since=NOON - 10_000.0)
    of = view(
        claim(list=entries),
        pod,
        lost_nodes=(AWAY,),
        placements=Placements(
            allocation=allocation(), at=NOON, pods=frozenset({uid("b")}), fit_elsewhere=frozenset({uid("b")})
        ),
        history=long_ago,
    )
    plan = decided(of)
    assert not of_type(plan, Deallocate)
    assert Code.NODE_LOST in codes(plan)
    settled = decided(msgspec.structs.replace(of, lost_nodes=(back(seconds=SETTLED),)))
    assert of_type(settled, Deallocate) or Code.ALLOCATION_STUCK in codes(settled)


@pytest.mark.parametrize("known", ["", "b0"], ids=["no-boot", "an-earlier-boot"])
def test_under_deletion_the_entry_of_another_boot_of_the_node_stays(known):
    """A list under deletion takes no new entry; and whoever comes after us knows of the node by the list only."""
    pod = finished("a")
    plan = decided(view(claim(list=[lost_node_entry("n1", known), pod], deleting=True), pod, lost_nodes=(AWAY,)))
    assert not of_type(plan, Deallocate)
    assert listed(plan) == ["lostnodes/n1"]


def test_under_deletion_the_entry_of_a_pod_that_is_gone_stands_for_the_node():
    """Machine, seed 760099865: the next process finds the entry, looks for the pod, and waits for its node."""
    of = claim(list=[started("a"), "guard"], deleting=True)
    assert decided(view(of, gone=["a"], lost_nodes=(AWAY,))).claim_writes == ()
    assert decided(view(claim(list=[started("a")], deleting=True), gone=["a"], lost_nodes=(AWAY,))).claim_writes == ()


def test_a_list_full_of_others_entries_is_as_good_as_the_entry_of_the_node():
    others = [ConsumerReference.parse(f"things.example.com/{n}", uid=uid(f"{n}")) for n in range(RESERVED_FOR_MAX_SIZE)]
    plan = decided(view(claim(list=others), lost_nodes=(AWAY,)))
    assert plan.claim_writes == ()
    assert Code.NODE_LOST in codes(plan)


def test_the_entry_stays_and_costs_no_further_write():
    plan = decided(view(claim(list=[ENTRY]), lost_nodes=(AWAY,)))
    assert plan.claim_writes == ()


def test_the_entry_is_looked_at_again_when_the_kubelet_has_had_its_time():
    plan = decided(view(claim(list=[ENTRY]), lost_nodes=(back(seconds=20.0),)))
    assert plan.wake_at == NOON - 20.0 + SETTLED


@pytest.mark.parametrize(
    ("grace", "seconds"),
    [
        pytest.param(30.0, SETTLED, id="the-usual-one"),
        pytest.param(90.0, SETTLED, id="as-long-as-is-waited-for-anyway"),
        pytest.param(600.0, 720.0, id="a-long-one"),
    ],
)
def test_the_grace_period_of_pods_begins_when_their_kubelet_is_back(grace, seconds):
    """A pod with ten minutes, deleted by force on a silent node, ran on while its device was given away."""
    away = msgspec.structs.replace(back(seconds=20.0), grace=grace)
    plan = decided(view(claim(list=[ENTRY]), lost_nodes=(away,)))
    assert plan.wake_at == NOON - 20.0 + seconds
    long_ago = msgspec.structs.replace(back(seconds=seconds), grace=grace)
    assert of_type(decided(view(claim(list=[ENTRY]), lost_nodes=(long_ago,))), Deallocate)


def test_an_entry_of_a_node_that_is_in_no_doubt_any_more_goes_and_with_it_the_devices():
    assert of_type(decided(view(claim(list=[ENTRY]))), Deallocate)


def test_under_deletion_nothing_can_be_listed_and_the_claim_stays_all_the_same():
    pod = finished("a")
    plan = decided(view(claim(list=[pod], deleting=True), pod, lost_nodes=(AWAY,)))
    assert not of_type(plan, Deallocate)
    assert listed(plan) == []
    assert Code.NODE_LOST in codes(plan)


# Pods that vanished from nodes that do report in

VANISHED = VanishedPod(uid("a"), node="n1", since=NOON)


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
@pytest.mark.parametrize(
    ("entries", "after"),
    [
        pytest.param([started("a")], None, id="its-own-entry-stays"),
        pytest.param([finished("b")], ["guards/train"], id="a-guard-stands-for-a-pod-that-was-not-listed"),
        pytest.param(["guard"], None, id="or-the-guard-that-is-there"),
    ],
)
def test_a_claim_stays_until_the_containers_of_a_vanished_pod_have_ended(entries, after, policy):
    of = view(claim(list=entries), finished("b"), gone=["a"], vanished=(VANISHED,))
    plan = decided(of, policy=policy)
    assert (listed(plan), of_type(plan, Deallocate)) == (after, [])
    assert Code.PODS_VANISHED in codes(plan)
    early = decided(of, policy=policy, now=VANISHED.ended_at - 0.1)
    assert not of_type(early, LookUpNode)
    late = decided(of, policy=policy, now=VANISHED.ended_at)
    assert of_type(late, LookUpNode) == [LookUpNode(claim=KEY, node="n1")]
    assert not of_type(late, Deallocate), "the live read decides"


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
@pytest.mark.parametrize("before", [["guard"], []], ids=["present", "absent"])
def test_entries_of_pods_that_wait_are_no_guard_for_a_vanished_pod(before, policy):
    """kube-scheduler frees a claim whose only entry is that of a pod which it tries in vain (machine, seed 13839)."""
    of = view(claim(list=[*before, waiting("b")]), waiting("b"), vanished=(VANISHED,))
    plan = decided(of, policy=policy)
    assert (listed(plan), of_type(plan, Deallocate)) == (None if before else ["guards/train", "b"], [])


def test_the_guard_of_a_vanished_pod_stays_beside_the_entry_of_the_workload():
    """Simulation, seed 769920361: the process that saw the pod go ends, and the claim is deleted then."""
    of = claim(list=[JOB, "guard"], workload=JOB, entered=True)
    assert listed(decided(view(of, vanished=(VANISHED,), workload=PRESENT))) is None
    assert listed(decided(view(of, workload=PRESENT))) == ["jobs/train"]


def test_so_does_a_claim_under_deletion():
    of = view(claim(list=["guard"], deleting=True), vanished=(VANISHED,))
    assert decided(of).claim_writes == ()


def test_nobody_is_told_while_other_pods_use_the_claim():
    of = view(claim(list=[started("a"), started("b")]), started("b"), gone=["a"], vanished=(VANISHED,))
    assert Code.PODS_VANISHED not in codes(decided(of))


def test_a_workload_is_entered_for_a_pod_that_vanished_before_that():
    """Else a guard would be listed first, and the workload in the next write (machine, seed 631170948)."""
    of = claim(workload=JOB, list=[finished("a")])
    plan = decided(view(of, gone=["a"], vanished=(VANISHED,), workload=PRESENT))
    assert listed(plan) == ["jobs/train", "a"]
