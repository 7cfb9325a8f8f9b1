"""Rule 13: entries of PodGroups."""

import pytest

from dra.engine.claims.actions import Deallocate, LookUpWorkload, ResyncPod
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.codes import Code
from dra.engine.claims.consumer_entries import POD_GROUP_PATIENCE
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.stuck_allocations import waiting_since
from dra.engine.claims.view import ObservedHistory, Placements, WorkloadPhase, WorkloadState
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import BIND_HORIZON
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.references import POD_GROUPS, ConsumerReference
from dra.model.workload_reservations import FORCE_RELEASE
from tests.dra.engine.examples import (
    JOB,
    KEY,
    NAMESPACE,
    NOON,
    PRESENT,
    allocation,
    claim,
    codes,
    decided,
    listed,
    many,
    of_type,
    pod,
    started,
    starting,
    uid,
    unschedulable,
    view,
    waiting,
)
from tests.violations import combinations, for_each_case, named

ENTRY = ConsumerReference.parse("podgroups.scheduling.k8s.io/g", uid=uid("g"))
THERE = WorkloadState(phase=WorkloadPhase.PRESENT, uid=uid("g"))
GONE = WorkloadState(phase=WorkloadPhase.ABSENT, gone=frozenset({uid("g")}))
NAMED = WorkloadKey(POD_GROUPS, NAMESPACE, "g")


@for_each_case(
    combinations(
        named([REPLACE, ALONGSIDE], ["replace", "alongside"]),
        [
            pytest.param(THERE, True, False, id="there"),
            pytest.param(GONE, False, False, id="certainly-gone"),
            pytest.param(WorkloadState(phase=WorkloadPhase.ABSENT), True, True, id="not-seen"),
            pytest.param(
                WorkloadState(phase=WorkloadPhase.PRESENT, uid=uid("h")), True, True, id="another-of-its-name"
            ),
            pytest.param(WorkloadState(phase=WorkloadPhase.NO_KIND), True, False, id="nobody-can-tell"),
            pytest.param(WorkloadState(phase=WorkloadPhase.FORBIDDEN), True, False, id="nobody-may-tell-us"),
            pytest.param(WorkloadState(), True, False, id="not-looked-yet"),
        ],
    )
)
def test_the_entry_of_a_group_stays_until_the_group_is_certainly_gone(policy, group, stays, asks):
    plan = decided(view(claim(list=[ENTRY]), group=group), policy=policy)
    assert of_type(plan, Deallocate) is not stays
    assert of_type(plan, LookUpWorkload) == ([LookUpWorkload(claim=KEY, reference=ENTRY)] if asks else [])


def test_a_workload_that_was_not_entered_yet_takes_the_place_of_the_group_at_once():
    """A guard first, and the workload in the next decision, would be two writes for one piece of news."""
    plan = decided(view(claim(workload=JOB, list=[ENTRY]), group=GONE, workload=PRESENT))
    assert listed(plan) == ["jobs/train"]


def test_so_it_does_where_the_list_is_full_of_pods_that_nobody_has_seen():
    """Machine, seed 22263."""
    unseen = many(started, RESERVED_FOR_MAX_SIZE - 1)
    plan = decided(view(claim(workload=JOB, list=[ENTRY, *unseen]), group=GONE, workload=PRESENT))
    assert listed(plan)[0] == "jobs/train"
    assert len(listed(plan)) == RESERVED_FOR_MAX_SIZE


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
def test_pods_of_the_group_need_neither_entries_nor_a_guard(policy):
    pods = [waiting("a", pod_group="g"), starting("b", pod_group="g"), started("c", pod_group="g")]
    assert decided(view(claim(list=[ENTRY]), *pods, group=THERE), policy=policy).claim_writes == ()


def test_pods_of_other_groups_do():
    pods = [starting("b", pod_group="g"), starting("c", pod_group="other"), starting("d")]
    plan = decided(view(claim(list=[ENTRY]), *pods, group=THERE))
    assert sorted(listed(plan)) == ["c", "d", "podgroups/g"]


def test_pods_that_outlive_their_group_are_listed_themselves():
    plan = decided(view(claim(list=[ENTRY]), starting("a", pod_group="g"), group=GONE))
    assert listed(plan) == ["a"]


def test_a_pod_that_was_covered_may_still_be_bound_without_a_write():
    plan = decided(view(claim(list=[ENTRY]), waiting("a", pod_group="g"), group=GONE))
    assert (listed(plan), codes(plan)) == (["guards/train"], [Code.DEALLOCATION_WAITS])


def test_the_world_remembers_who_was_covered():
    world = ClaimCache()
    world.observe_claim(claim(list=[ENTRY], version=1), now=NOON)
    world.observe_pod(pod("a", pod_group="g"), now=NOON)
    world.observe_claim(claim(list=["guard"], version=2), now=NOON + 1.0)
    plan = decided(world.view(KEY, now=NOON + 2.0), now=NOON + 2.0)
    assert (of_type(plan, Deallocate), plan.wake_at) == ([], NOON + 1.0 + BIND_HORIZON)
    free = decided(world.view(KEY, now=plan.wake_at), now=plan.wake_at)
    assert of_type(free, Deallocate) == [Deallocate(claim=KEY, confirm=True)]


def test_an_allocation_of_a_group_is_not_taken_back_while_the_group_is_there():
    stuck = unschedulable("a", pod_group="g", since=NOON - 10_000.0)
    long_ago = ObservedHistory(podless_since=NOON - 10_000.0)
    plan = decided(
        view(
            claim(list=[ENTRY]),
            stuck,
            group=THERE,
            placements=Placements(
                allocation=allocation(), at=NOON, pods=frozenset({uid("a")}), fit_elsewhere=frozenset({uid("a")})
            ),
            history=long_ago,
        )
    )
    assert plan.claim_writes == ()


def test_by_force_it_is_taken_back_all_the_same():
    of = claim(list=[ENTRY], annotations={FORCE_RELEASE: "uid-claim-train"})
    plan = decided(view(of, waiting("a", pod_group="g"), group=THERE))
    assert (listed(plan), codes(plan)) == (["guards/train"], [Code.FORCE_RELEASE_WAITS])


def test_a_claim_reserved_for_a_group_covers_its_pods_too():
    of = claim(workload=ENTRY, list=[ENTRY], entered=True)
    assert decided(view(of, starting("a", pod_group="g"), workload=THERE)).claim_writes == ()


def test_the_world_looks_for_groups_as_long_as_they_are_listed():
    world = ClaimCache()
    world.observe_claim(claim(list=[ENTRY], version=1), now=NOON)
    assert world.workloads.kinds() == {POD_GROUPS}
    world.workloads.observe(NAMED, uid=uid("g"), finished=False)
    world.dirty.clear()
    world.workloads.forget(NAMED, uid("g"))
    assert set(world.dirty) == {KEY}
    assert listed(decided(world.view(KEY, now=NOON))) == ["guards/train"]  # nobody new is let in
    world.observe_claim(claim(list=["guard"], version=2), now=NOON, ours=True)
    assert of_type(decided(world.view(KEY, now=NOON + BIND_HORIZON), now=NOON + BIND_HORIZON), Deallocate)
    world.observe_claim(claim(allocation=None, version=3), now=NOON)
    assert world.workloads.kinds() == frozenset()


def test_an_allocation_of_a_claim_that_is_reserved_for_a_group_is_not_taken_back_either():
    stuck = unschedulable("a", pod_group="g", since=NOON - 10_000.0)
    long_ago = ObservedHistory(podless_since=NOON - 10_000.0)
    of = claim(workload=ENTRY, list=[ENTRY], entered=True)
    plan = decided(
        view(
            of,
            stuck,
            workload=THERE,
            placements=Placements(
                allocation=allocation(), at=NOON, pods=frozenset({uid("a")}), fit_elsewhere=frozenset({uid("a")})
            ),
            history=long_ago,
        )
    )
    assert plan.claim_writes == ()


def test_by_force_the_entry_goes_that_would_let_more_pods_in():
    of = claim(workload=ENTRY, list=[ENTRY], entered=True, annotations={FORCE_RELEASE: "uid-claim-train"})
    plan = decided(view(of, waiting("a", pod_group="g"), workload=THERE))
    assert (listed(plan), codes(plan)) == (["guards/train"], [Code.FORCE_RELEASE_WAITS])


@pytest.mark.parametrize(
    "of", [claim(list=[ENTRY]), claim(workload=ENTRY, list=[ENTRY], entered=True)], ids=["native", "ours"]
)
def test_a_pod_of_the_group_whose_kubelet_does_not_start_it_is_listed_itself(of):
    def view_of(pod):
        return view(of, pod, group=THERE, workload=THERE)

    fresh = decided(view_of(starting("a", pod_group="g")))
    assert (fresh.claim_writes, fresh.wake_at) == ((), NOON + POD_GROUP_PATIENCE)
    refused = decided(view_of(starting("a", pod_group="g", stage_since=NOON - POD_GROUP_PATIENCE)))
    assert sorted(listed(refused)) == ["a", "podgroups/g"]
    assert [each.pod for each in of_type(refused, ResyncPod)] == [("ml", "a")]


@pytest.mark.parametrize(("group", "doubted"), [(THERE, False), (GONE, True)], ids=["there", "certainly-gone"])
def test_the_entry_of_a_group_that_is_gone_keeps_no_allocation_from_being_doubted(group, doubted):
    """The entry goes with this decision: doubt in the next decision would be a second write for one piece of news."""
    of = view(claim(list=[ENTRY]), unschedulable("a", pod_group="g"), group=group)
    assert (waiting_since(of, now=NOON) is not None) is doubted
