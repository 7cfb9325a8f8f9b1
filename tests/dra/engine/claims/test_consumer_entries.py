"""Rules 1, 3, 4, 5, 11 and 14, and the list of rule 10."""

from functools import partial

import pytest

from dra.engine.claims.actions import Deallocate, LookUpPod, ResyncPod
from dra.engine.claims.codes import Code
from dra.engine.claims.consumer_entries import FINISHING_DELAY, LIMIT_EVENTS, LOOKUP_BATCH, STRANGER_RECHECK
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import LostNode, tombstone_entry
from dra.engine.claims.window import CAPACITY, PARKED_AFTER, SCHEDULER_HEADROOM, EntryHistory
from dra.engine.instants import NEVER
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.meta import Uid
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import PRE_LIST
from tests.dra.engine.examples import (
    FOREIGN,
    FOREIGN_GATE,
    JOB,
    NAMESPACE,
    NOON,
    PRESENT,
    claim,
    codes,
    decided,
    finished,
    gated,
    listed,
    many,
    of_type,
    parked,
    started,
    starting,
    uid,
    view,
    waiting,
)
from tests.violations import combinations, for_each_case, named

GANG = {"pod_group": "workers"}


def entered(*entries, **form):
    """A claim whose workload entry is made, as is the write that remembers it."""
    return claim(workload=JOB, entered=True, list=[JOB, *entries], **form)


def notes_of(plan, code):
    return [reason.note for reason in plan.reasons if reason.code is code]


def plan_for(of, *pods, policy=REPLACE, now=NOON, **known):
    return decided(view(of, *pods, workload=PRESENT, **known), policy=policy, now=now)


# Rule 1: the list is ours and that of others


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
def test_foreign_entries_are_untouched(policy):
    assert listed(plan_for(entered(FOREIGN), waiting("a"), policy=policy)) == ["jobs/train", "things/x", "a"]


def test_a_claim_whose_list_is_right_is_left_alone():
    plan = plan_for(entered(waiting("a"), FOREIGN), waiting("a"))
    assert (plan.actions, plan.reasons) == ((), ())


def test_the_order_of_entries_is_no_reason_to_write():
    plan = plan_for(entered(waiting("a"), waiting("b")), waiting("b"), waiting("a"))
    assert not plan.claim_writes


def test_an_entry_of_a_pod_nobody_knows_stays_and_is_looked_up():
    plan = plan_for(entered(waiting("a"), waiting("b")), waiting("b"))
    assert plan.actions == (LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a")),)


@for_each_case(
    combinations(
        named([REPLACE, ALONGSIDE], ["replace", "alongside"]),
        [
            pytest.param(gated("a", gates=(FOREIGN_GATE,)), id="behind-the-gate-of-others"),
            pytest.param(gated("a", gates=(FOREIGN_GATE, SCHEDULING_GATE)), id="behind-our-gate-and-that-of-others"),
            pytest.param(gated("a", **GANG), id="in-a-gang-behind-our-gate"),
        ],
        named([claim(list=[waiting("a")]), entered(waiting("a"))], ["shared", "with-workload"]),
    )
)
def test_an_entry_of_a_pod_that_looks_gated_stays_and_the_pod_is_looked_up(policy, pod, of):
    plan = plan_for(of, pod, policy=policy)
    assert of_type(plan, LookUpPod) == [LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a"))]
    assert not plan.claim_writes or (policy is ALONGSIDE and "a" in listed(plan))  # behind a guard there


def test_a_listed_pod_that_is_gated_for_certain_keeps_its_entry_and_is_looked_up_again():
    of = view(claim(list=[waiting("a")]), gated("a", gates=(FOREIGN_GATE,)), asked=NOON)
    plan = decided(of)
    assert (plan.actions, plan.wake_at) == ((), NOON + STRANGER_RECHECK)
    assert of_type(decided(of, now=NOON + STRANGER_RECHECK), LookUpPod)


def test_a_pod_that_uses_another_claim_was_listed_by_somebody_with_a_reason():
    assert plan_for(entered(waiting("a")), strangers=["a"]).actions == ()


def test_a_pod_that_uses_no_claim_is_looked_up_again_since_no_watch_tells_of_its_end():
    waits = plan_for(entered(waiting("a")), strangers=["a"], asked=NOON - 10.0)
    assert (waits.actions, waits.wake_at) == ((), NOON - 10.0 + STRANGER_RECHECK)
    asks = plan_for(entered(waiting("a")), strangers=["a"], asked=NOON - STRANGER_RECHECK)
    assert asks.actions == (LookUpPod(pod=(NAMESPACE, "a"), uid=uid("a")),)


# Rule 3: pre-list


@for_each_case(
    [
        pytest.param(claim(workload=JOB), waiting("a"), True, id="reserved-for-a-workload"),
        pytest.param(claim(), waiting("a"), False, id="a-claim-of-nobody-is-the-schedulers-business"),
        pytest.param(claim(annotations={PRE_LIST: "true"}), waiting("a"), True, id="the-claim-opts-in"),
        pytest.param(claim(annotations={PRE_LIST: "no"}), waiting("a"), False, id="the-claim-does-not-opt-in"),
        pytest.param(claim(), waiting("a", opted_in=True), True, id="the-pod-opts-in"),
        pytest.param(claim(), gated("a"), True, id="a-pod-behind-our-gate"),
        pytest.param(claim(), gated("a", gates=(FOREIGN_GATE,)), False, id="behind-a-foreign-gate"),
        pytest.param(claim(workload=JOB), gated("a", gates=(SCHEDULING_GATE, FOREIGN_GATE)), False, id="behind-both"),
        pytest.param(claim(workload=JOB), waiting("a", **GANG), False, id="a-gang"),
        pytest.param(claim(), gated("a", **GANG), False, id="a-gang-behind-our-gate"),
        pytest.param(claim(workload=JOB, allocation=None), waiting("a"), False, id="not-allocated"),
    ]
)
def test_which_waiting_pods_are_listed_before_they_are_scheduled(of, pod, pre_listed):
    assert ("a" in (listed(plan_for(of, pod)) or [])) is pre_listed


def test_on_a_server_with_the_field_no_pods_are_listed_beside_the_workload():
    of = claim(workload=JOB, native=True, any_pod=True, list=[JOB])
    assert listed(plan_for(of, waiting("a"), starting("b"), started("c"))) is None


@pytest.mark.parametrize(
    ("others", "pods", "left_out"),
    [
        pytest.param([], CAPACITY - 2, 0, id="just-fits"),
        pytest.param([], CAPACITY, 2, id="two-slots-are-the-workloads-and-the-guards"),
        pytest.param([FOREIGN], CAPACITY - 2, 1, id="a-foreign-entry-takes-a-slot"),
    ],
)
def test_sixteen_slots_stay_for_the_scheduler(others, pods, left_out):
    written = listed(plan_for(entered(*others), *many(gated, pods)))
    assert len([name for name in written if "/" not in name]) == pods - left_out
    assert len(written) + 1 <= CAPACITY


def test_a_crowd_of_ungated_pods_takes_the_headroom_too():
    written = listed(plan_for(entered(), *many(waiting, RESERVED_FOR_MAX_SIZE)))
    assert len(written) + 1 == RESERVED_FOR_MAX_SIZE  # the guard's slot stays free


@pytest.mark.parametrize(
    ("form", "policy", "left"),
    [
        pytest.param(waiting, REPLACE, SCHEDULER_HEADROOM, id="a-crowd"),
        pytest.param(parked, REPLACE, SCHEDULER_HEADROOM, id="pods-that-do-not-move"),
        pytest.param(waiting, ALONGSIDE, 0, id="alongside-a-crowd-keeps-its-slots"),
        pytest.param(parked, ALONGSIDE, SCHEDULER_HEADROOM, id="alongside-pods-that-do-not-move"),
    ],
)
def test_a_pod_that_only_the_scheduler_lists_finds_headroom(form, policy, left):
    """Simulation seeds 6621, 9634, 11459: the list was full of pods of ours that waited for something else."""
    crowd = many(form, RESERVED_FOR_MAX_SIZE, opted_in=True)
    written = listed(plan_for(claim(), waiting("alone"), *crowd, policy=policy))
    assert len(written) + 1 == RESERVED_FOR_MAX_SIZE - left  # the guard's slot stays free
    assert "alone" not in written


def test_starting_pods_come_first_then_waiting_ones_by_priority_then_age():
    crowd = many(gated, CAPACITY)
    written = listed(plan_for(entered(), *crowd, waiting("vip", priority=1), starting("bound")))
    assert written[:4] == ["jobs/train", "bound", "vip", "p0000"]
    assert len(written) == CAPACITY - 1


def test_a_node_where_sandboxes_never_get_ready_does_not_hold_the_window():
    broken = many(starting, CAPACITY, stage_since=NOON - 60.0)
    plan = plan_for(entered(*broken[: CAPACITY - 2]), *broken, waiting("a"))
    assert "a" in listed(plan)
    assert Code.SANDBOX_NOT_READY in codes(plan)


def test_unschedulable_pods_do_not_hold_it_either():
    stuck = many(parked, CAPACITY)
    assert "a" in listed(plan_for(entered(*stuck[: CAPACITY - 2]), *stuck, waiting("a")))


@pytest.mark.parametrize(("seconds", "slots"), [(PARKED_AFTER - 1.0, 0), (PARKED_AFTER, 1)])
def test_gated_pods_that_wait_for_another_claim_hold_it_for_a_minute(seconds, slots):
    held_up = many(gated, CAPACITY - 2, claims=("train", "other"))
    listings = {c.uid: EntryHistory(listed_since=NOON - seconds, last_listed=NOON - seconds) for c in held_up}
    known = {"awaiting_other_claims": frozenset(listings), "entry_histories": listings}
    plan = plan_for(entered(*held_up), *held_up, gated("z"), **known)
    assert (listed(plan) or []).count("z") == slots
    assert plan.wake_at == (NEVER if slots else NOON + 1.0)


# Rule 4: prune


@pytest.mark.parametrize(
    ("of", "pods", "written"),
    [
        pytest.param(
            entered(finished("a"), waiting("b")), [finished("a"), waiting("b")], ["jobs/train", "b"], id="ended"
        ),
        pytest.param(claim(list=[finished("a"), started("b")]), [finished("a"), started("b")], ["b"], id="no-workload"),
        pytest.param(
            entered("guard", started("a"), waiting("b")),
            [started("a"), waiting("b")],
            ["jobs/train", "guards/train", "b"],
            id="started-under-a-workload-entry",
        ),
        pytest.param(
            entered(started("a")), [started("a")], ["jobs/train", "guards/train"], id="the-guard-comes-with-the-prune"
        ),
        pytest.param(claim(list=[started("a")]), [started("a")], None, id="started-without-one-stays"),
    ],
)
def test_which_entries_are_pruned(of, pods, written):
    plan = plan_for(of, *pods, now=NOON)
    assert listed(plan) == written


def test_an_entry_whose_pod_is_certainly_gone_is_pruned():
    assert listed(plan_for(entered(waiting("a"), waiting("b")), waiting("b"), gone=["a"])) == ["jobs/train", "b"]


def test_more_consumers_than_a_list_can_hold_are_windowed_behind_a_guard():
    consumers = many(started, RESERVED_FOR_MAX_SIZE)
    plan = plan_for(claim(list=consumers[: CAPACITY - 2]), *consumers, starting("new"))
    written = listed(plan)
    assert written[:2] == ["guards/train", "new"]
    assert len(written) <= CAPACITY
    assert Code.LIST_WINDOWED in codes(plan)


def test_up_to_then_no_guard_is_needed():
    consumers = many(started, CAPACITY - 2)
    plan = plan_for(claim(list=consumers), *consumers)
    assert (plan.actions, codes(plan)) == ((), [])


@pytest.mark.parametrize(
    ("pods", "guarded"),
    [
        pytest.param([started("a")], True, id="while-somebody-consumes"),
        pytest.param([starting("a")], True, id="even-if-all-consumers-are-listed"),
        pytest.param([waiting("a")], False, id="not-for-those-who-wait"),
    ],
)
def test_how_long_the_guard_stays(pods, guarded):
    written = listed(plan_for(entered("guard", *pods), *pods)) or ["guards/train"]
    assert ("guards/train" in written) is guarded


# Rule 5: re-list


@for_each_case(
    combinations(
        [
            pytest.param(entered("guard"), id="under-a-workload-entry"),
            pytest.param(claim(list=["guard"]), id="behind-a-guard"),
            pytest.param(claim(), id="unreserved-by-the-scheduler"),
            pytest.param(claim(workload=JOB, entered=True), id="released-by-the-owner"),
        ],
        named([REPLACE, ALONGSIDE], ["replace", "alongside"]),
    )
)
def test_a_bound_pod_without_an_entry_is_listed_at_once_and_kicked(of, policy):
    plan = plan_for(of, starting("a"), policy=policy)
    assert "a" in listed(plan)
    assert of_type(plan, ResyncPod) == [ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a"))]


def test_a_pod_that_was_listed_before_it_was_bound_needs_no_kick():
    assert not of_type(plan_for(entered("guard", starting("a")), starting("a"), waiting("b")), ResyncPod)


@pytest.mark.parametrize(
    ("of", "names"),
    [
        pytest.param(claim(list=[starting("a")]), None, id="who-is-listed-stays"),
        pytest.param(claim(list=[FOREIGN]), ["guards/train", "things/x"], id="who-is-not-asks-for-nothing"),
        pytest.param(entered("guard", starting("a")), ["jobs/train", "guards/train"], id="the-workload-is-enough"),
    ],
)
@pytest.mark.parametrize("pod", [starting, started])
def test_the_entry_of_a_bound_pod_that_is_being_deleted(of, pod, names):
    assert listed(plan_for(of, pod("a", deleting=True))) == names


def test_a_pod_that_we_let_go_is_listed_again_when_the_scheduler_took_it_off():
    assert listed(plan_for(claim(), waiting("a", was_gated=True))) == ["a"]


def test_a_pod_that_only_the_scheduler_listed_is_the_schedulers_business():
    dropped = {uid("a"): EntryHistory(last_listed=NOON - 30.0, unreserve_count=1)}
    assert listed(plan_for(claim(), waiting("a"), entry_histories=dropped)) is None


@pytest.mark.parametrize(
    ("drops", "seconds", "there", "wakes"),
    [
        pytest.param(1, 0.5, False, 0.5, id="a-second-after-the-first-drop"),
        pytest.param(1, 1.0, True, None, id="then"),
        pytest.param(4, 7.0, False, 1.0, id="longer-and-longer"),
        pytest.param(4, 8.0, True, None, id="but-in-the-end"),
    ],
)
def test_a_waiting_pod_that_the_scheduler_took_off_the_list_comes_back_with_backoff(drops, seconds, there, wakes):
    dropped = {uid("a"): EntryHistory(last_listed=NOON - seconds, unreserve_count=drops)}
    plan = plan_for(entered(), waiting("a"), entry_histories=dropped)
    assert ("a" in (listed(plan) or [])) is there
    assert plan.wake_at == (NEVER if wakes is None else NOON + wakes)


# Rule 10: deletion


def test_under_deletion_the_list_can_only_shrink():
    of = entered(waiting("a"), finished("b"), deleting=True)
    plan = plan_for(of, waiting("a"), finished("b"), starting("c"))
    assert listed(plan) == ["jobs/train", "a"]
    assert Code.DELETION_WAITS in codes(plan)


def test_under_deletion_not_even_a_started_pod_loses_its_entry():
    assert listed(plan_for(entered("guard", started("a"), deleting=True), started("a"))) in (
        None,
        ["guards/train", "a"],
    )


# Rule 11: alongside


def test_alongside_started_pods_keep_their_entries():
    assert listed(plan_for(entered(started("a")), started("a"), policy=ALONGSIDE)) is None


def test_alongside_a_started_pod_is_the_stock_controllers_to_list():
    assert listed(plan_for(claim(), started("a"), policy=ALONGSIDE)) == ["guards/train"]
    assert listed(plan_for(claim(), started("a"), policy=REPLACE)) == ["a"]


@pytest.mark.parametrize(
    ("of", "slots"),
    [
        pytest.param(claim(list=[started("p0000")]), RESERVED_FOR_MAX_SIZE - 1, id="one-is-kept-for-a-guard"),
        pytest.param(entered(started("p0000")), RESERVED_FOR_MAX_SIZE - 2, id="and-one-is-the-workloads"),
        pytest.param(entered(started("p0000"), FOREIGN), RESERVED_FOR_MAX_SIZE - 3, id="and-one-somebody-elses"),
    ],
)
@pytest.mark.parametrize("waits", [gated, partial(waiting, opted_in=True)], ids=["gated", "ungated"])
def test_alongside_pods_may_fill_the_list_and_the_rest_is_told(of, slots, waits):
    plan = plan_for(of, started("p0000"), *many(waits, 300, prefix="w"), policy=ALONGSIDE)
    entries = listed(plan)
    assert len([name for name in entries if "/" not in name]) == slots
    taken = f"{len(of.entries)} of 256 entries are in use, 0 of them by finished pods"
    limit = f"{301 - slots} pods wait for an entry: {taken}"
    assert [note.partition(". ")[0] for note in notes_of(plan, Code.CONSUMER_LIMIT)] == [limit]
    next_ones = [f"w{number:04}" for number in range(slots - 1, slots - 1 + LIMIT_EVENTS)]
    assert [r.subject.key[1] for r in plan.reasons if r.code is Code.WAITS_FOR_SLOT] == next_ones


def test_alongside_pods_that_have_finished_take_slots_and_are_counted():
    done = many(finished, 200, node="n1")
    plan = plan_for(entered(*done, started("a")), *done, started("a"), *many(gated, 100, prefix="w"), policy=ALONGSIDE)
    assert len(listed(plan)) == RESERVED_FOR_MAX_SIZE - 1
    assert "202 of 256 entries are in use, 200 of them by finished pods" in notes_of(plan, Code.CONSUMER_LIMIT)[0]


def test_alongside_pods_that_have_finished_may_take_all_slots_and_the_rest_is_told():
    ended = many(finished, RESERVED_FOR_MAX_SIZE - 1, node="n1")
    plan = plan_for(entered(*(tombstone_entry(pod.entry) for pod in ended)), *ended, gated("z"), policy=ALONGSIDE)
    assert codes(plan) == [Code.CONSUMER_LIMIT, Code.WAITS_FOR_SLOT]


def test_alongside_who_consumes_has_a_slot_before_who_waits():
    consumers = many(starting, RESERVED_FOR_MAX_SIZE)
    plan = plan_for(entered(*consumers[:-1]), *consumers, waiting("a"), policy=ALONGSIDE)
    assert len(listed(plan) or consumers) <= RESERVED_FOR_MAX_SIZE
    assert Code.CONSUMER_LIMIT in codes(plan)


@pytest.mark.parametrize(
    ("of", "pod", "written"),
    [
        pytest.param(
            entered(finished("a", node="n1")), finished("a", node="n1"), ["jobs/train", "finishedpods/a"], id="finished"
        ),
        pytest.param(entered(finished("a")), finished("a"), ["jobs/train"], id="never-bound"),
        pytest.param(
            entered(finished("a", node="n1")),
            finished("a", node="n1", deleting=True),
            ["jobs/train"],
            id="being-deleted",
        ),
    ],
)
def test_alongside_a_finished_pod_leaves_a_tombstone_while_its_object_is_there(of, pod, written):
    assert listed(plan_for(of, pod, policy=ALONGSIDE)) == written


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
@pytest.mark.parametrize("pod", [starting("a"), waiting("a")], ids=["starting", "waiting"])
def test_a_tombstone_over_a_pod_that_has_not_finished_gives_its_place_back(pod, policy):
    tombstone = ConsumerReference.parse("finishedpods.reserve.dra/a", uid=uid("a"))
    assert listed(plan_for(entered(tombstone), pod, policy=policy)) == ["jobs/train", "a"]


@pytest.mark.parametrize(
    ("beside", "written"),
    [
        pytest.param([started("b")], ["finishedpods/a", "b"], id="another-consumes"),
        pytest.param([waiting("b")], ["finishedpods/a", "b"], id="another-is-listed-and-waits"),
        pytest.param([], None, id="nobody-it-is-free"),
    ],
)
def test_alongside_a_tombstone_is_left_wherever_the_claim_stays_allocated(beside, written):
    pod = finished("a", node="n1")
    plan = plan_for(claim(list=[pod, *beside]), pod, *beside, policy=ALONGSIDE)
    assert listed(plan) == written
    assert bool(of_type(plan, Deallocate)) is (written is None)


@pytest.mark.parametrize(
    ("pods", "written"),
    [
        pytest.param([finished("a", node="n1")], None, id="stays-while-the-object-is-there"),
        pytest.param([], ["jobs/train"], id="goes-with-it"),
    ],
)
def test_how_long_a_tombstone_stays(pods, written):
    tombstone = ConsumerReference.parse("finishedpods.reserve.dra/a", uid=uid("a"))
    assert listed(plan_for(entered(tombstone), *pods, policy=ALONGSIDE)) == written


# Rule 14: off the allocation


def test_a_pod_that_runs_off_the_nodes_of_the_allocation_is_not_listed_either():
    """It has its devices by an allocation before this one, which was taken back by force."""
    pods = [started("a"), started("b")]
    assert listed(plan_for(claim(list=[pods[1]]), *pods, excluded=frozenset({uid("a")}))) == ["guards/train", "b"]


def test_a_bound_pod_off_the_nodes_of_the_allocation_is_never_listed():
    plan = plan_for(entered("guard"), starting("a"), starting("b"), excluded=frozenset({uid("a")}))
    assert "a" not in listed(plan)
    assert "b" in listed(plan)
    assert [(r.code, r.subject.key) for r in plan.reasons] == [(Code.POD_OFF_ALLOCATION, (NAMESPACE, "a"))]


@pytest.mark.parametrize(
    ("entries", "policy", "written"),
    [
        pytest.param(["a", "b"], REPLACE, ["b"], id="replace"),
        pytest.param(["a", "b"], ALONGSIDE, None, id="alongside-what-the-stock-controller-would-list-again-stays"),
        pytest.param(["b"], ALONGSIDE, ["b"], id="alongside-it-is-not-listed-by-us"),
    ],
)
def test_the_entry_of_a_bound_pod_off_the_nodes_of_the_allocation(entries, policy, written):
    pods = [starting("a"), starting("b")]
    of = claim(list=[pod for pod in pods if pod.name in entries])
    plan = plan_for(of, *pods, excluded=frozenset({uid("a")}), policy=policy)
    assert Code.POD_OFF_ALLOCATION in codes(plan)
    assert listed(plan) == (None if written is None else ["guards/train", *written])


# Lists full of entries of others


def things(count):
    kind = {"api_group": "example.com", "resource": "things"}
    return [ConsumerReference(**kind, name=f"t{i}", uid=Uid(f"t{i}")) for i in range(count)]


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
@pytest.mark.parametrize("pod", [gated("a"), waiting("a"), starting("a")], ids=lambda pod: pod.stage.name.lower())
@pytest.mark.parametrize(("taken", "told"), [(253, False), (254, True), (255, True), (256, True)])
def test_pods_that_entries_of_others_leave_no_slot_are_told(taken, told, pod, policy):
    plan = plan_for(claim(workload=JOB, list=things(taken)), pod, policy=policy)
    assert (Code.LIST_TAKEN in codes(plan)) is told
    if told:
        (note,) = (r.note for r in plan.reasons if r.code is Code.LIST_TAKEN)
        assert note.startswith(f"1 pod waits for an entry: {taken} of 256 entries")


@for_each_case(combinations(named([REPLACE, ALONGSIDE], ["replace", "alongside"]), [237, 238, 252, 253]))
def test_of_the_few_slots_that_entries_of_others_leave_one_is_for_gated_pods(policy, taken):
    """Else nobody leaves our gate, and nobody is told why (machine seed 867548744)."""
    plan = plan_for(claim(workload=JOB, list=things(taken)), *many(gated, 20), policy=policy)
    assert "p0000" in listed(plan)


def test_the_last_slot_is_for_a_pod_that_only_the_scheduler_lists_and_gated_pods_are_told():
    plan = plan_for(claim(list=things(254)), gated("a"), waiting("alone"))
    assert listed(plan) is None
    assert Code.LIST_TAKEN in codes(plan)


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
@pytest.mark.parametrize("entries", [[*things(256)], ["guard", *things(255)], [JOB, *things(255)]], ids=len)
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_list_never_grows_beyond_what_the_api_server_takes(entries, nodes, policy):
    lost = tuple(LostNode(name=f"n{i}", boot_id="b") for i in range(nodes))
    of = claim(workload=JOB, entered=JOB in entries, list=entries)
    plan = decided(view(of, started("a"), workload=PRESENT, lost_nodes=lost), policy=policy)
    written = listed(plan)
    assert not of_type(plan, Deallocate)
    assert written is None or len(written) <= RESERVED_FOR_MAX_SIZE
    assert written is None or set(written) >= {f"things/{e.name}" for e in of.entries if e.resource == "things"}


def test_a_lost_node_that_cannot_be_listed_keeps_the_claim_all_the_same():
    of = view(claim(list=[*things(255), finished("a")]), finished("a"), lost_nodes=(LostNode(name="n1", boot_id="b"),))
    full = view(claim(list=things(256)), lost_nodes=(LostNode(name="n1", boot_id="b"),))
    assert "lostnodes/n1" in listed(decided(of))
    assert (decided(full).claim_writes, Code.NODE_LOST in codes(decided(full))) == ((), True)


def test_a_decision_looks_up_a_bounded_number_of_pods():
    pods = many(waiting, 200)
    plan = decided(view(claim(list=pods)))
    assert len(of_type(plan, LookUpPod)) == LOOKUP_BATCH
    assert not plan.claim_writes


@pytest.mark.parametrize("seconds", [0.0, FINISHING_DELAY - 0.1, FINISHING_DELAY])
def test_a_started_pod_that_loses_its_sandbox_is_listed_unless_it_ends_at_once(seconds):
    """A kubelet says that the sandbox is gone before it says that the pod has ended."""
    pod = starting("a", was_started=True, stage_since=NOON - seconds)
    of = claim(workload=JOB, entered=True, list=[JOB, "guard"])
    plan = decided(view(of, pod, workload=PRESENT))
    if seconds < FINISHING_DELAY:
        assert (plan.actions, plan.wake_at) == ((), pod.stage_since + FINISHING_DELAY)
    else:
        assert "a" in listed(plan)
        assert of_type(plan, ResyncPod) == [ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a"))]


def test_a_bound_pod_that_the_scheduler_took_off_the_list_is_listed_again_at_once():
    taken_off = {uid("a"): EntryHistory(last_listed=NOON - 1, unreserve_count=6)}
    assert "a" in listed(plan_for(entered(), starting("a"), entry_histories=taken_off))
