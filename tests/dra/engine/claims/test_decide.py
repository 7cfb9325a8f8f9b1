"""From what should be to the writes that make it so."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims import patches
from dra.engine.claims.actions import AddEntries, Deallocate, PatchMetadata, ResyncPod, SetReservedFor, Ungate
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.codes import Code
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.decide import (
    LISTING_BATCH,
    LISTING_INTERVAL,
    PRUNING_BATCH,
    PRUNING_INTERVAL,
    STOCK_CONTROLLER_RETURNS,
    decide,
)
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import (
    EntryKind,
    ObservedHistory,
    VanishedPod,
    WorkloadPhase,
    WorkloadState,
    tombstone_entry,
)
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import NEVER
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.references import ConsumerReference
from tests.dra.engine.examples import (
    CLAIM_UID,
    FINISHED,
    FOREIGN,
    JOB,
    JOBS,
    KEY,
    NAMESPACE,
    NOON,
    PRESENT,
    allocation,
    claim,
    codes,
    decided,
    finished,
    gated,
    listed,
    many,
    of_type,
    pod,
    started,
    starting,
    uid,
    view,
    waiting,
)
from tests.violations import for_each_case


def entered(*entries, **form):
    return claim(workload=JOB, entered=True, list=[JOB, *entries], **form)


def contended(seen, **given):
    """Return the plan after a conflict."""
    return decided(msgspec.structs.replace(seen, contended=True), **given)


# Batches


@for_each_case(
    [
        pytest.param(entered(), [waiting("a")], None, None, id="the-first-write-waits-for-nothing"),
        pytest.param(
            entered(), [waiting("a")], 0.5 * LISTING_INTERVAL, 0.5 * LISTING_INTERVAL, id="listing-waits-for-a-batch"
        ),
        pytest.param(entered(), [waiting("a")], LISTING_INTERVAL, None, id="but-not-for-long"),
        pytest.param(entered(), many(waiting, LISTING_BATCH), 0.0, None, id="a-full-batch-does-not-wait"),
        pytest.param(entered("guard"), [starting("a")], 0.0, None, id="somebody-stands-still-for-it"),
        pytest.param(claim(workload=JOB), [waiting("a")], 0.0, None, id="the-workload-entry-does-not-wait"),
        pytest.param(
            entered(finished("a"), "guard"),
            [finished("a"), started("b")],
            0.5 * PRUNING_INTERVAL,
            0.5 * PRUNING_INTERVAL,
            id="pruning-waits-longer",
        ),
        pytest.param(
            entered(finished("a"), "guard"), [finished("a"), started("b")], PRUNING_INTERVAL, None, id="then-it-is-done"
        ),
        pytest.param(
            entered("guard", *many(finished, PRUNING_BATCH)),
            [*many(finished, PRUNING_BATCH), started("b")],
            0.0,
            None,
            id="a-full-batch-is-pruned-at-once",
        ),
        pytest.param(
            entered(finished("a"), "guard"),
            [finished("a"), waiting("b"), started("c")],
            0.5 * LISTING_INTERVAL,
            0.5 * LISTING_INTERVAL,
            id="one-write-lists-and-prunes",
        ),
    ]
)
def test_when_the_list_is_written(of, pods, ago, wakes):
    history = ObservedHistory(written_at=None if ago is None else NOON - ago)
    plan = decided(view(of, *pods, workload=PRESENT, history=history))
    assert bool(of_type(plan, SetReservedFor)) is (wakes is None)
    if wakes is not None:
        assert plan.wake_at == pytest.approx(NOON + wakes)


def test_the_entry_of_a_workload_that_was_recreated_does_not_wait_as_its_marks_do_not():
    former = msgspec.structs.replace(JOB, uid="uid-former")
    workload = msgspec.structs.replace(PRESENT, gone=frozenset({former.uid}))
    of, history = claim(workload=JOB, list=[former, started("b")]), ObservedHistory(written_at=NOON)
    plan = decided(view(of, started("b"), workload=workload, history=history))
    assert [type(action) for action in plan.actions] == [SetReservedFor, PatchMetadata]
    assert of_type(plan, SetReservedFor)[0].entries[0].uid == JOB.uid


def test_a_deallocation_waits_for_no_batch():
    of = claim(workload=JOB, entered=True, list=[JOB])
    plan = decided(view(of, workload=FINISHED, history=ObservedHistory(written_at=NOON)))
    assert of_type(plan, Deallocate)


# The plan


def test_writes_come_in_the_order_in_which_they_may_be_seen():
    pods = [gated("a"), starting("b")]
    plan = decided(view(claim(workload=JOB, list=[gated("a")]), *pods, workload=PRESENT))
    assert [type(action) for action in plan.actions] == [SetReservedFor, PatchMetadata, Ungate, ResyncPod]


@pytest.mark.parametrize(
    ("of", "instead"),
    [
        pytest.param(
            claim(workload=JOB), [AddEntries(claim=KEY, entries=(JOB,))], id="the-workload-enters-whatever-is-listed"
        ),
        pytest.param(claim(workload=JOB, list=[FOREIGN]), [AddEntries(claim=KEY, entries=(JOB,))], id="beside-others"),
        pytest.param(claim(workload=JOB, list=many(waiting, RESERVED_FOR_MAX_SIZE)), None, id="a-full-list-takes-none"),
        pytest.param(entered("guard"), None, id="it-has-entered"),
        pytest.param(claim(), None, id="pods-need-a-version"),
        pytest.param(claim(workload=JOB, allocation=None), None, id="nothing-is-allocated"),
    ],
)
def test_who_is_overtaken_again_and_again_enters_the_workload_first(of, instead):
    seen = view(of, starting("b"), workload=PRESENT)
    plan = decided(seen)
    then = contended(seen)
    assert list(then.actions) == (list(plan.actions) if instead is None else instead)
    if instead is not None:
        assert codes(then) == [Code.WORKLOAD_ENTERED]


@pytest.mark.parametrize(
    ("ended", "beside"),
    [
        pytest.param(["a"], [], id="in-place-of-the-pod's-entry"),
        pytest.param(["a", "c"], [], id="all-at-once"),
        pytest.param(["a"], many(started, RESERVED_FOR_MAX_SIZE - 3, prefix="s"), id="in-a-full-list"),
    ],
)
def test_who_is_overtaken_by_the_stock_controller_enters_the_tombstones(ended, beside):
    over = [finished(name, node="n1") for name in ended]
    pods = [*over, started("b"), *beside]
    seen = view(entered(*pods), *pods, workload=PRESENT)
    then = contended(seen, policy=ALONGSIDE)
    assert list(then.actions) == [AddEntries(claim=KEY, entries=tuple(tombstone_entry(pod.entry) for pod in over))]
    assert not any(reason.done for reason in then.reasons)


def test_the_workload_enters_before_the_tombstones():
    over = finished("a", node="n1")
    seen = view(claim(workload=JOB, list=[over, started("b")]), over, started("b"), workload=PRESENT)
    then = contended(seen, policy=ALONGSIDE)
    assert list(then.actions) == [AddEntries(claim=KEY, entries=(JOB,))]


def test_a_claim_that_is_to_be_free_has_tombstones_of_all_pods_that_the_stock_controller_puts_back():
    over = tuple(finished(name, node="n1") for name in "abc")
    seen = view(claim(list=[over[0], tombstone_entry(over[1].entry)]), *over, finished=over)
    plan = decided(seen, policy=ALONGSIDE)
    assert of_type(plan, Deallocate)
    then = contended(seen, policy=ALONGSIDE)
    assert list(then.actions) == [
        AddEntries(claim=KEY, entries=tuple(tombstone_entry(pod.entry) for pod in (over[0], over[2])))
    ]
    assert not any(reason.done for reason in then.reasons)
    quiet = view(claim(list=[tombstone_entry(pod.entry) for pod in over]), *over, finished=over)
    plan = decided(quiet, policy=ALONGSIDE)
    assert of_type(plan, Deallocate)
    assert contended(quiet, policy=ALONGSIDE) == plan


def test_where_no_stock_controller_runs_a_claim_is_freed_without_tombstones():
    over = finished("a", node="n1")
    seen = view(claim(list=[over]), over, finished=(over,))
    plan = decided(seen)
    assert contended(seen) == plan


@pytest.mark.parametrize(
    ("left", "seconds"),
    [
        pytest.param(-1.0, None, id="none-can-arrive-any-longer"),
        pytest.param(0.0, None, id="none-can-arrive-from-now-on"),
        pytest.param(0.5, 1, id="for-half-a-second"),
        pytest.param(20.0, 20, id="for-twenty-seconds"),
    ],
)
def test_a_new_leader_deallocates_nothing_while_writes_of_the_previous_one_may_arrive(left, seconds):
    over = finished("a", node="n1")
    seen = view(claim(list=[over]), over, finished=(over,))
    plan = decided(seen)
    then = decided(msgspec.structs.replace(seen, previous_writes_until=NOON + left))
    if seconds is None:
        assert then == plan
        assert of_type(then, Deallocate)
        return
    assert not then.actions
    assert [(reason.code, dict(reason.arguments)["seconds"]) for reason in then.reasons] == [
        (Code.LEADER_CHANGED, seconds)
    ]
    assert then.wake_at == NOON + left


@pytest.mark.parametrize("conflict", [False, True], ids=["at-first", "after-a-conflict"])
def test_a_new_leader_lists_at_once(conflict):
    seen = view(claim(workload=JOB, list=[waiting("a")]), waiting("a"), workload=PRESENT)
    changes = {"previous_writes_until": NOON + 20.0, "contended": conflict}
    assert decided(msgspec.structs.replace(seen, **changes)).writes_status


def test_tombstones_wait_with_the_deallocation_that_they_precede():
    over = finished("a", node="n1")
    seen = view(claim(list=[over]), over, finished=(over,))
    assert of_type(contended(seen, policy=ALONGSIDE), AddEntries)
    waiting_for_leader = msgspec.structs.replace(seen, previous_writes_until=NOON + 20.0)
    assert not contended(waiting_for_leader, policy=ALONGSIDE).actions


@pytest.mark.parametrize(
    ("present", "resynced"),
    [
        pytest.param(claim(list=[starting("a")]), ["a"], id="one-is-listed"),
        pytest.param(claim(list=[starting("a"), "guard", starting("b")]), ["a", "b"], id="all-are"),
        pytest.param(claim(), [], id="none-is"),
        pytest.param(None, [], id="the-claim-is-gone"),
    ],
)
def test_pods_that_a_failed_plan_has_listed_are_resynced_all_the_same(present, resynced):
    plan = decided(view(claim(list=[]), starting("a"), starting("b")))
    assert len(of_type(plan, ResyncPod)) == 2
    assert [action.pod[1] for action in plan.resyncs_of(present)] == resynced


def test_what_keeps_the_claim_is_shown_first():
    pods = [waiting("a"), started("b")]
    plan = decided(view(claim(workload=JOB, list=[FOREIGN, waiting("a")]), *pods, workload=PRESENT))
    assert listed(plan) == ["jobs/train", "guards/train", "things/x", "a"]


@pytest.mark.parametrize(
    ("written_at", "told"),
    [pytest.param(NOON, [], id="not-yet"), pytest.param(None, [Code.LIST_WINDOWED], id="now")],
)
def test_what_was_done_is_told_only_if_it_is_done(written_at, told):
    consumers = many(started, RESERVED_FOR_MAX_SIZE)
    plan = decided(view(claim(list=consumers[:240]), *consumers, history=ObservedHistory(written_at=written_at)))
    assert codes(plan) == told
    assert bool(plan.claim_writes) is bool(told)


def test_a_state_is_told_at_each_decision():
    plan = decided(view(claim(workload=ConsumerReference.parse("jobs.batch/x"), allocation=None), malformed="no"))
    assert codes(plan) == [Code.MALFORMED_REFERENCE]


@pytest.mark.parametrize(
    ("returned", "policy", "told"),
    [
        pytest.param(STOCK_CONTROLLER_RETURNS - 1, REPLACE, False, id="may-be-a-late-write"),
        pytest.param(STOCK_CONTROLLER_RETURNS, REPLACE, True, id="the-stock-controller-runs"),
        pytest.param(STOCK_CONTROLLER_RETURNS, ALONGSIDE, False, id="as-it-should"),
    ],
)
def test_entries_that_come_back_by_themselves(returned, policy, told):
    of = entered("guard", started("a"))
    plan = decided(view(of, started("a"), workload=PRESENT, history=ObservedHistory(returned=returned)), policy=policy)
    assert (Code.STOCK_CONTROLLER_ACTIVE in codes(plan)) is told
    assert (listed(plan) is None) is (told or policy is ALONGSIDE)


# The whole: any view is settled by its own plan

NODE = st.sampled_from(["n1", "n2"])
FORMS = st.one_of(
    st.just({}),
    st.just({"gates": [SCHEDULING_GATE]}),
    st.just({"unschedulable": "no node"}),
    st.builds(lambda node: {"node": node}, NODE),
    st.builds(lambda node: {"node": node, "ready": "12:00"}, NODE),
    st.builds(lambda node: {"node": node, "phase": "Succeeded"}, NODE),
    st.builds(lambda node: {"node": node, "deleting": True}, NODE),
    st.just({"deleting": True}),
    st.just({"priority": 3}),
)
PODS = st.dictionaries(st.sampled_from("abcdefgh"), FORMS, max_size=8)
ENTRIES = st.lists(
    st.sampled_from([JOB, "guard", FOREIGN, *(waiting(name) for name in "abcdefghxyz")]),
    max_size=8,
    unique_by=lambda e: e if isinstance(e, str) else e.uid,
)
CLAIMS = st.builds(
    claim,
    workload=st.sampled_from([None, JOB, ConsumerReference.parse("jobs.batch/train")]),
    entered=st.booleans(),
    list=ENTRIES,
    deleting=st.booleans(),
    allocation=st.sampled_from([None, allocation(), allocation(nodes=["n1"])]),
).map(lambda c: c if c.status.allocation is not None or not c.entries else claim(workload=None, allocation=None))
WORKLOADS = st.sampled_from(["unseen", "there", "finished", "gone"])
POLICIES = st.sampled_from([REPLACE, ALONGSIDE])


def world_of(found, pods, workload):
    world = ClaimCache()
    world.observe_claim(found, now=NOON)
    for name, form in pods.items():
        world.observe_pod(pod(name, **form), now=NOON)
    key = WorkloadKey(JOBS, NAMESPACE, "train")
    if workload != "unseen":
        world.workloads.observe(key, uid=JOB.uid, finished=workload == "finished")
    if workload == "gone":
        world.workloads.forget(key, JOB.uid)
    return world


def carried_out(world, plan, *, version, now=NOON):
    """The world after the claim writes of a plan, as the answers of the API server tell it."""
    for write in plan.claim_writes:
        after = patches.apply_write(world.claim(KEY), write)
        meta = msgspec.structs.replace(after.metadata, resource_version=str(next(version)))
        world.observe_claim(msgspec.structs.replace(after, metadata=meta), now=now, ours=True)


@given(found=CLAIMS, pods=PODS, workload=WORKLOADS, policy=POLICIES)
def test_after_its_own_writes_a_decision_wants_no_more(found, pods, workload, policy):
    world, version = world_of(found, pods, workload), itertools.count(2)
    carried_out(world, decide(world.view(KEY, now=NOON), policy=policy, now=NOON), version=version)
    after = world.view(KEY, now=NOON)
    if after is None:  # its last finalizer is off: it is gone
        return
    again = decide(after, policy=policy, now=NOON)
    assert again.claim_writes == ()


@given(found=CLAIMS, pods=PODS, workload=WORKLOADS, policy=POLICIES)
def test_every_list_that_is_written_is_one_the_api_server_takes(found, pods, workload, policy):
    view_now = world_of(found, pods, workload).view(KEY, now=NOON)
    for write in of_type(decide(view_now, policy=policy, now=NOON), SetReservedFor):
        uids = [entry.uid for entry in write.entries]
        assert len(uids) == len(set(uids)) <= RESERVED_FOR_MAX_SIZE
        assert all(entry.name and entry.resource and entry.uid for entry in write.entries)


@given(found=CLAIMS, pods=PODS, workload=WORKLOADS, policy=POLICIES)
def test_nothing_is_given_back_while_somebody_consumes_or_is_in_doubt(found, pods, workload, policy):
    view_now = world_of(found, pods, workload).view(KEY, now=NOON)
    if of_type(decide(view_now, policy=policy, now=NOON), Deallocate):
        assert not view_now.consuming
        assert view_now.kinds.isdisjoint({EntryKind.UNKNOWN, EntryKind.FOREIGN})


@given(found=CLAIMS, pods=PODS, workload=WORKLOADS, policy=POLICIES)
def test_a_plan_looks_again_later_or_never(found, pods, workload, policy):
    plan = decide(world_of(found, pods, workload).view(KEY, now=NOON), policy=policy, now=NOON)
    assert NOON < plan.wake_at <= NEVER


@given(found=CLAIMS, pods=PODS, workload=WORKLOADS, policy=POLICIES)
def test_every_bound_pod_that_has_not_started_gets_its_entry(found, pods, workload, policy):
    world = world_of(found, pods, workload)
    view_now = world.view(KEY, now=NOON)
    carried_out(world, decide(view_now, policy=policy, now=NOON), version=itertools.count(2))
    if found.status.allocation is None or found.metadata.deleting:
        return
    late = {c.uid for c in view_now.starting if not c.deleting} - view_now.excluded
    assert late <= {entry.uid for entry in world.claim(KEY).entries}


def test_a_kick_is_sent_only_for_pods_that_this_write_lists():
    plan = decided(view(entered("guard", starting("a")), starting("a"), starting("b"), workload=PRESENT))
    assert [kick.uid for kick in of_type(plan, ResyncPod)] == [uid("b")]


def test_a_pod_that_is_the_workload_itself_is_listed_once():
    leader = ConsumerReference.parse("pods/a", uid=uid("a"))
    of = claim(workload=leader, list=[leader])
    plan = decided(
        view(of, starting("a"), waiting("b"), workload=WorkloadState(phase=WorkloadPhase.PRESENT, uid=uid("a")))
    )
    assert listed(plan) == ["a", "b"]


@pytest.mark.parametrize(
    ("mine", "written"),
    [
        pytest.param([], 0, id="nothing-of-ours-is-in-it"),
        pytest.param([JOB], 1, id="the-workload-is-in-it"),
    ],
)
def test_a_list_full_of_others_entries_is_left_as_it_is(mine, written):
    others = [
        ConsumerReference.parse(f"things.example.com/{number}", uid=uid(f"thing-{number}"))
        for number in range(RESERVED_FOR_MAX_SIZE - len(mine))
    ]
    of = claim(workload=JOB, entered=bool(mine), list=[*mine, *others])
    plan = decided(view(of, starting("a"), started("b"), waiting("c"), workload=PRESENT))
    assert plan.claim_writes == ()
    assert Code.WORKLOAD_ENTERED not in codes(plan)
    assert len(of.entries) == len(others) + written


def test_a_list_full_of_pods_that_vanished_is_left_as_it_is():
    gone = tuple(VanishedPod(uid(f"p{number:04}"), since=NOON) for number in range(RESERVED_FOR_MAX_SIZE))
    of = claim(workload=JOB, list=many(started, RESERVED_FOR_MAX_SIZE))
    assert decided(view(of, waiting("a"), vanished=gone, workload=PRESENT)).claim_writes == ()


@pytest.mark.parametrize(
    ("foreign", "written"),
    [
        pytest.param(CLAIM_UID, ["jobs/train", "things/x", "a"], id="the-guards-uid-it-does-what-a-guard-does"),
        pytest.param(uid("a"), ["jobs/train", "guards/train", "things/x"], id="a-pods-uid-it-lets-the-pod-start"),
        pytest.param(uid("b"), ["jobs/train", "guards/train", "things/x", "a"], id="nobodys-uid"),
    ],
)
def test_an_entry_that_others_made_with_a_uid_of_ours_is_not_doubled(foreign, written):
    other = ConsumerReference.parse("things.example.com/x", uid=foreign)
    assert listed(decided(view(entered(other), starting("a"), started("c"), workload=PRESENT))) == written
