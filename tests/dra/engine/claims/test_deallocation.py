"""Rules 8, 9 and 10."""

import msgspec
import pytest

from dra.engine.claims.actions import Deallocate, PatchMetadata, SetReservedFor
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.codes import Code
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import ObservedHistory, VanishedPod, WorkloadPhase, WorkloadState, lost_node_entry
from dra.engine.claims.window import EntryHistory
from dra.engine.devices.ledger import DeviceConflict, DeviceID, Holder
from dra.engine.instants import BIND_HORIZON, NEVER, SLOW_BIND_HORIZON
from dra.model import workload_reservations
from dra.model.claims import (
    DELETE_PROTECTION,
)
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import FORCE_RELEASE
from tests.dra.engine.examples import (
    FINISHED,
    FOREIGN,
    JOB,
    KEY,
    NOON,
    PRESENT,
    allocation,
    claim,
    codes,
    decided,
    finished,
    gated,
    listed,
    of_type,
    pod,
    started,
    starting,
    uid,
    view,
    waiting,
)
from tests.violations import combinations, for_each_case, named


def lately(name, seconds):
    """The pod may have been listed until some seconds ago."""
    return {uid(name): EntryHistory(last_listed=NOON - seconds, assumed=True)}


def nominated(name):
    return waiting(name, nominated="n1", nominated_since=NOON - 1e4)


# Rule 8: an edge, not a state


@pytest.mark.parametrize(
    ("of", "pods", "asks"),
    [
        pytest.param(claim(list=[finished("a")]), [finished("a")], False, id="its-last-pod-ended-before-our-eyes"),
        pytest.param(claim(list=["guard"]), [finished("a")], True, id="behind-the-guard-may-be-unseen-pods"),
        pytest.param(claim(workload=JOB, entered=True, list=[JOB]), [], True, id="beside-the-job-as-well"),
        pytest.param(claim(workload=JOB, entered=True), [], True, id="others-released-it"),
        pytest.param(claim(list=[finished("a")], deleting=True), [finished("a")], False, id="deleted-and-nobody-waits"),
        pytest.param(claim(list=[], deleting=True), [gated("a")], True, id="deleted-and-somebody-waits"),
    ],
)
def test_the_api_server_is_asked_where_our_copies_may_lack_a_pod(of, pods, asks):
    plan = decided(view(of, *pods, workload=FINISHED))
    assert of_type(plan, Deallocate) == [Deallocate(claim=KEY, confirm=asks)]


@pytest.mark.parametrize("pod", [waiting("b"), gated("b", gates=("other",))], ids=["waiting", "gated"])
def test_the_api_server_is_asked_about_a_pod_that_was_ever_listed_and_waits(pod):
    of = claim(list=[finished("a")])
    plan = decided(view(of, finished("a"), pod, entry_histories=lately("b", 2 * BIND_HORIZON)))
    assert of_type(plan, Deallocate) == [Deallocate(claim=KEY, confirm=True)]


@for_each_case(
    combinations(
        named([REPLACE, ALONGSIDE], ["replace", "alongside"]),
        [
            pytest.param(claim(list=[finished("a")]), [finished("a")], True, id="its-last-pod-ended"),
            pytest.param(claim(list=["guard", finished("a")]), [finished("a")], True, id="behind-a-guard"),
            pytest.param(claim(list=["guard"]), [], True, id="only-the-guard-is-left"),
            pytest.param(claim(), [], False, id="allocated-and-unused-is-legal"),
            pytest.param(claim(), [finished("a")], False, id="nobody-was-listed"),
            pytest.param(claim(list=[finished("a")]), [finished("a"), started("b")], False, id="another-consumes"),
            pytest.param(claim(list=[finished("a")]), [finished("a"), starting("b")], False, id="another-is-bound"),
            pytest.param(claim(list=[finished("a"), FOREIGN]), [finished("a")], False, id="a-foreign-entry"),
            pytest.param(claim(list=[waiting("a")]), [], False, id="an-entry-of-a-pod-nobody-knows"),
            pytest.param(claim(list=[finished("a")]), [finished("a"), gated("b")], False, id="a-gated-pod-wants-it"),
            pytest.param(
                claim(list=[finished("a")]), [finished("a"), waiting("b")], True, id="never-listed-never-promised"
            ),
            pytest.param(
                claim(workload=JOB, entered=True, list=[JOB]), [finished("a")], False, id="reserved-for-a-job"
            ),
            pytest.param(claim(workload=JOB, entered=True), [], True, id="its-owner-released-it"),
            pytest.param(
                claim(workload=JOB, entered=True), [started("a")], False, id="its-owner-released-it-too-early"
            ),
            pytest.param(claim(allocation=None), [], False, id="not-allocated"),
        ],
    )
)
def test_when_a_claim_gives_its_devices_back(policy, of, pods, freed):
    plan = decided(view(of, *pods, workload=PRESENT), policy=policy)
    assert bool(of_type(plan, Deallocate)) is freed
    assert (Code.DEALLOCATED in codes(plan)) is freed


@for_each_case(
    [
        pytest.param(waiting("b"), BIND_HORIZON - 1, False, id="listed-lately"),
        pytest.param(waiting("b"), BIND_HORIZON, True, id="listed-long-ago"),
        pytest.param(waiting("b", slow_binding=True), BIND_HORIZON, False, id="with-volumes-binding-takes-longer"),
        pytest.param(waiting("b", slow_binding=True), SLOW_BIND_HORIZON, True, id="but-not-for-ever"),
        pytest.param(nominated("b"), BIND_HORIZON, False, id="nominated-so-a-cycle-may-wait-for-a-plugin"),
        pytest.param(nominated("b"), SLOW_BIND_HORIZON, True, id="nominated-for-good"),
        pytest.param(gated("b", gates=("other",)), 1.0, False, id="a-gated-pod-may-have-been-let-go"),
        pytest.param(gated("b", gates=("other",)), BIND_HORIZON, True, id="a-gated-pod-listed-long-ago"),
    ]
)
def test_a_pod_that_was_listed_lately_may_still_be_bound_without_a_write(pod, seconds, freed):
    of = claim(list=["guard", finished("a")])
    plan = decided(view(of, finished("a"), pod, entry_histories=lately("b", seconds)))
    assert bool(of_type(plan, Deallocate)) is freed
    assert listed(plan) == (None if freed else ["guards/train"])
    assert codes(plan) == [Code.DEALLOCATED if freed else Code.DEALLOCATION_WAITS]


@pytest.mark.parametrize(
    ("pods", "listings", "known"),
    [
        pytest.param([nominated("b")], lately("b", SLOW_BIND_HORIZON), ["b"], id="listed-before-any-cycle-that-runs"),
        pytest.param([nominated("b")], {}, ["b"], id="never-listed-so-that-binding-it-writes-the-claim"),
        pytest.param([waiting("b")], {}, [], id="not-nominated-as-far-as-our-copy-knows"),
    ],
)
def test_the_live_read_need_not_heed_a_nomination_that_no_binding_cycle_stands_behind(pods, listings, known):
    plan = decided(view(claim(list=["guard"]), *pods, entry_histories=listings))
    (write,) = of_type(plan, Deallocate)
    assert write.nominated == {(uid(name), "n1") for name in known}


@pytest.mark.parametrize(
    ("pod", "seconds", "freed"),
    [
        pytest.param(waiting("b"), BIND_HORIZON, True, id="waiting"),
        pytest.param(nominated("b"), BIND_HORIZON, False, id="nominated"),
        pytest.param(nominated("b"), SLOW_BIND_HORIZON, True, id="nominated-for-good"),
    ],
)
def test_a_pod_that_was_seen_late_may_have_been_let_in_by_an_entry_for_many(pod, seconds, freed):
    known = view(claim(list=["guard"]), pod, history=ObservedHistory(closed_since=NOON - seconds))
    assert bool(of_type(decided(known), Deallocate)) is freed


def test_how_long_a_nominated_pod_keeps_the_claim_is_told():
    (reason,) = decided(view(claim(list=["guard"]), nominated("b"), entry_histories=lately("b", 10.0))).reasons
    assert f"{SLOW_BIND_HORIZON:.0f} s" in reason.text


def test_while_that_is_so_the_guard_keeps_the_edge():
    plan = decided(view(claim(list=[finished("a")]), finished("a"), waiting("b"), entry_histories=lately("b", 10.0)))
    assert listed(plan) == ["guards/train"]
    waits = decided(view(claim(list=["guard"]), waiting("b"), entry_histories=lately("b", 10.0)))
    assert (waits.claim_writes, waits.wake_at) == ((), NOON + 50.0)


# Rule 8, where an entry for many lets pods in that nobody lists: binding them writes nothing on the claim

GROUP = ConsumerReference.parse("podgroups.scheduling.k8s.io/g", uid=uid("g"))
NATIVE = {"workload": JOB, "native": True, "any_pod": True}


def stages(*versions, pods=(), workload=FINISHED):
    """Show the world pods, then one version of the claim after the other; return what decides at an instant."""
    world = ClaimCache()
    for each in pods:
        world.observe_pod(each, now=NOON)
    for number, of in enumerate(versions):
        world.observe_claim(of, now=NOON + number, ours=number > 0)

    def at(now):
        return decided(msgspec.structs.replace(world.view(KEY, now=now), workload=workload), now=now)

    return at


@pytest.mark.parametrize(
    "form",
    [
        pytest.param({**NATIVE, "list": [JOB]}, id="the-job-has-finished"),
        pytest.param({**NATIVE, "list": [JOB], "deleting": True}, id="the-claim-is-deleted"),
        pytest.param(
            {**NATIVE, "list": [JOB], "annotations": {FORCE_RELEASE: "uid-claim-train"}}, id="it-is-released-by-force"
        ),
    ],
)
def test_the_entry_that_lets_any_pod_in_goes_before_the_allocation(form):
    plan = stages(claim(version=1, **form))(NOON)
    assert not of_type(plan, Deallocate)
    assert JOB.uid not in {entry.uid for write in of_type(plan, SetReservedFor) for entry in write.entries}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({**NATIVE, "list": [JOB]}, {**NATIVE}, id="it-was-taken-off"),
        pytest.param({"list": [GROUP]}, {"list": ["guard"]}, id="its-group-is-gone"),
    ],
)
def test_a_bind_horizon_lies_between_that_entry_and_the_allocation(before, after):
    at = stages(claim(version=1, **before), claim(version=2, **after))
    first = at(NOON + 1.0)
    assert (of_type(first, Deallocate), codes(first)[-1]) == ([], Code.DEALLOCATION_WAITS)
    end = NOON + 1.0 + BIND_HORIZON
    assert not of_type(at(end - 0.1), Deallocate)
    assert of_type(at(end), Deallocate) == [Deallocate(claim=KEY, confirm=True)]


@pytest.mark.parametrize(
    "form",
    [
        pytest.param({"list": [JOB]}, id="it-waits-for-bindings"),
        pytest.param({"list": ["guard"]}, id="another-process-has-put-a-guard-there"),
        pytest.param({"list": [JOB], "annotations": {FORCE_RELEASE: "uid-claim-train"}}, id="it-is-released-by-force"),
    ],
)
def test_no_guard_stays_in_a_list_where_every_entry_lets_any_pod_in(form):
    """A pod that is bound between the live read and the write would lose its devices: simulation seed 134454696."""
    plan = stages(claim(version=1, **NATIVE, **form))(NOON + PATIENCE)
    (write,) = plan.claim_writes
    assert write == SetReservedFor(claim=KEY, entries=())


def test_a_release_by_force_takes_out_the_entry_of_a_lost_node_that_lets_any_pod_in():
    form = {**NATIVE, "list": [JOB, lost_node_entry("n1", "b1")], "annotations": {FORCE_RELEASE: "uid-claim-train"}}
    (write,) = stages(claim(version=1, **form))(NOON).claim_writes
    assert write == SetReservedFor(claim=KEY, entries=())


OF_GROUP = pod("a", phase="Succeeded", node="n1", pod_group="g")
NO_GROUP = WorkloadState(phase=WorkloadPhase.ABSENT, gone=frozenset({GROUP.uid}))


PATIENCE = VanishedPod("").seconds_to_end
"""Seconds for which a guard that is there at the start may stand for a pod that was deleted by force."""


@pytest.mark.parametrize(
    ("form", "known", "seconds"),
    [
        pytest.param(NATIVE, {}, BIND_HORIZON, id="the-workload's-with-the-fields-of-the-kep"),
        pytest.param({"list": ["guard"]}, {"pods": [OF_GROUP]}, PATIENCE, id="a-pod-group's-in-whose-place-is-a-guard"),
        pytest.param(
            {"list": ["guard"], "workload": GROUP, "entered": True},
            {"workload": NO_GROUP},
            PATIENCE,
            id="the-pod-group's-that-it-is-reserved-for-in-whose-place-is-a-guard",
        ),
        pytest.param(
            {"list": ["guard"], "annotations": {FORCE_RELEASE: "uid-claim-train"}},
            {},
            PATIENCE,
            id="any-pod-group's-by-a-release-by-force-in-whose-place-is-a-guard",
        ),
        pytest.param(
            {"list": [JOB, "guard"], "workload": JOB, "entered": True},
            {},
            PATIENCE,
            id="a-pod-that-was-deleted-by-force-in-whose-place-is-a-guard",
        ),
    ],
)
def test_after_a_restart_the_entry_may_have_gone_a_moment_ago(form, known, seconds):
    at = stages(claim(version=1, **form), **known)
    assert not of_type(at(NOON + seconds - 0.1), Deallocate)
    assert of_type(at(NOON + seconds), Deallocate)


def test_why_the_guard_keeps_a_claim_after_a_restart_is_told():
    plan = stages(claim(version=1, list=["guard"]))(NOON)
    assert (codes(plan), plan.wake_at) == ([Code.GUARD_FOUND], NOON + PATIENCE)


@pytest.mark.parametrize(
    ("entries", "pods"),
    [
        pytest.param([JOB], [], id="nobody-is-left"),
        pytest.param([JOB], [OF_GROUP], id="the-pods-of-a-group-have-no-guard"),
    ],
)
def test_where_binding_writes_the_claim_nothing_waits(entries, pods):
    at = stages(claim(version=1, workload=JOB, entered=True, list=entries), pods=pods)
    assert of_type(at(NOON), Deallocate) == [Deallocate(claim=KEY, confirm=True)]


def test_the_finalizer_and_our_marks_go_in_the_write_after():
    of = claim(workload=JOB, entered=True, list=[JOB])
    plan = decided(view(of, workload=FINISHED))
    marks = ((workload_reservations.RESERVED_FOR_ANY_POD, None), (workload_reservations.ENTERED_ALLOCATION, None))
    assert plan.claim_writes == (
        Deallocate(claim=KEY, confirm=True),
        PatchMetadata(claim=KEY, annotations=marks, finalizers=()),
    )


def test_foreign_finalizers_stay():
    of = claim(list=[finished("a")])
    metadata = msgspec.structs.replace(of.metadata, finalizers=["other", DELETE_PROTECTION])
    plan = decided(view(msgspec.structs.replace(of, metadata=metadata), finished("a")))
    assert of_type(plan, PatchMetadata)[0].finalizers == ("other",)


@pytest.mark.parametrize(
    ("of", "notes"),
    [
        pytest.param(claim(workload=JOB, allocation=None, protected=True), [], id="being-allocated-right-now"),
        pytest.param(
            claim(allocation=None, protected=True, deleting=True),
            [PatchMetadata(claim=KEY, finalizers=())],
            id="under-deletion-nothing-protects-it",
        ),
        pytest.param(
            claim(workload=JOB, allocation=None, annotations=workload_reservations.entry_annotations(allocation())),
            [
                PatchMetadata(
                    claim=KEY,
                    annotations=(
                        (workload_reservations.RESERVED_FOR_ANY_POD, None),
                        (workload_reservations.ENTERED_ALLOCATION, None),
                    ),
                )
            ],
            id="marks-of-an-allocation-that-is-no-more",
        ),
    ],
)
def test_the_metadata_of_an_unallocated_claim(of, notes):
    assert list(decided(view(of, workload=PRESENT)).actions) == notes


@pytest.mark.parametrize(
    ("pods", "at", "goes", "wake_at"),
    [
        pytest.param([], NOON, True, NEVER, id="the-write-after-the-deallocation-has-failed"),
        pytest.param([], NOON + 5.0, False, NOON + 5.0, id="a-scheduler-may-be-about-to-allocate"),
        pytest.param([waiting("a")], NOON, False, NEVER, id="a-scheduler-will-allocate"),
        pytest.param([gated("a", gates=("other",))], NOON, True, NEVER, id="no-scheduler-looks-at-a-gated-pod"),
    ],
)
def test_a_finalizer_that_was_left_behind_goes_later(pods, at, goes, wake_at):
    of = claim(allocation=None, protected=True)
    plan = decided(view(of, *pods, history=ObservedHistory(leftover_at=at)))
    assert plan.claim_writes == ((PatchMetadata(claim=KEY, finalizers=()),) if goes else ())
    assert plan.wake_at == wake_at


# Rule 9: what must never be, beside tests/dra/engine/claims/test_stuck_allocations.py


def test_a_pod_that_gets_bound_after_all_ends_it():
    pod = starting("a")
    of = view(claim(list=["guard"]), pod, history=ObservedHistory(podless_since=NOON - 100.0))
    plan = decided(of)
    assert not of_type(plan, Deallocate)
    assert listed(plan) == ["guards/train", "a"]


def test_a_bound_pod_whose_claim_lost_its_allocation_is_warned_with_the_way_out():
    plan = decided(view(claim(allocation=None, protected=True), starting("a"), started("b"), waiting("c")))
    assert [(r.code, r.subject.key[1]) for r in plan.reasons] == [
        (Code.ALLOCATION_LOST, "a"),
        (Code.ALLOCATION_LOST, "b"),
    ]
    assert "only a controller replaces a deleted pod" in plan.reasons[0].note


@pytest.mark.parametrize(
    ("form", "pod", "code"),
    [
        pytest.param({}, starting("a"), Code.BOUND_WITHOUT_ALLOCATION, id="bound-by-node-name-and-never-allocated"),
        pytest.param({}, started("a"), Code.ALLOCATION_LOST, id="a-kubelet-starts-no-pod-before-the-allocation"),
        pytest.param({"protected": True}, starting("a"), Code.ALLOCATION_LOST, id="the-finalizer-was-left"),
        pytest.param(
            {"annotations": {workload_reservations.ENTERED_ALLOCATION: "digest"}},
            starting("a"),
            Code.ALLOCATION_LOST,
            id="the-annotations-of-the-entry-were-left",
        ),
    ],
)
def test_a_bound_pod_of_a_claim_that_was_never_allocated_has_lost_nothing(form, pod, code):
    (reason,) = decided(view(claim(allocation=None, **form), pod)).reasons
    assert (reason.code, reason.subject.key[1]) == (code, "a")


def test_a_device_that_two_claims_hold_is_told():
    conflict = DeviceConflict(
        item=DeviceID(driver="d", pool="p", device="gpu-0"),
        holder=Holder(kind="claim", key=("ml", "other"), uid=uid("other")),
        refused=Holder(kind="claim", key=KEY, uid=uid("claim-train")),
    )
    plan = decided(view(claim(), conflicts=(conflict,)))
    (reason,) = plan.reasons
    assert reason.note.startswith(
        "device d/p/gpu-0 is also allocated to claim ml/other. Decide which claim keeps the device"
    )
    assert reason.note.endswith("See: kubectl dra explain claim train -n ml")
    assert not plan.actions


# Rule 10: deletion


@for_each_case(
    [
        pytest.param([], [], None, True, id="unused"),
        pytest.param(["guard"], [], None, True, id="only-the-guard"),
        pytest.param([finished("a")], [finished("a")], None, True, id="its-pods-ended"),
        pytest.param([], [waiting("a")], None, True, id="who-was-not-listed-cannot-be-bound"),
        pytest.param([gated("a")], [gated("a")], None, False, id="its-gate-goes-with-the-claim"),
        pytest.param([gated("a")], [gated("a")], NOON - BIND_HORIZON, True, id="by-then-everybody-knows"),
        pytest.param([waiting("a")], [waiting("a")], None, False, id="a-cycle-may-be-running"),
        pytest.param([waiting("a")], [waiting("a")], NOON - BIND_HORIZON, True, id="no-cycle-can-be-running"),
        pytest.param(
            [waiting("a")], [waiting("a", slow_binding=True)], NOON - BIND_HORIZON, False, id="but-a-slow-one"
        ),
        pytest.param([started("a")], [started("a")], NOON - 1000.0, False, id="somebody-consumes"),
        pytest.param([FOREIGN], [], NOON - 1000.0, False, id="a-foreign-entry"),
        pytest.param([waiting("a")], [], NOON - 1000.0, False, id="a-doubtful-entry"),
    ]
)
def test_a_claim_under_deletion(list_, pods, since, freed):
    of = claim(list=list_, deleting=True)
    plan = decided(view(of, *pods, history=ObservedHistory(deleting_since=since)))
    assert bool(of_type(plan, Deallocate)) is freed
    if freed:
        assert of_type(plan, PatchMetadata) == [PatchMetadata(claim=KEY, finalizers=())]


def test_a_claim_under_deletion_is_looked_at_again_when_no_cycle_can_be_running():
    of = claim(list=[waiting("a")], deleting=True)
    plan = decided(view(of, waiting("a"), history=ObservedHistory(deleting_since=NOON - 20.0)))
    assert plan.wake_at == NOON + 40.0
    assert codes(plan) == [Code.DELETION_WAITS]


def test_the_workload_entry_goes_with_a_claim_that_is_deleted():
    of = claim(workload=JOB, entered=True, list=[JOB], deleting=True)
    assert of_type(decided(view(of, workload=PRESENT)), Deallocate)


def test_but_not_from_under_a_running_pod():
    of = claim(workload=JOB, entered=True, list=[JOB, "guard"], deleting=True)
    plan = decided(view(of, started("a"), workload=PRESENT))
    assert not plan.claim_writes


def test_a_claim_under_deletion_waits_for_pods_that_were_listed_a_moment_ago():
    listings = {uid("a"): EntryHistory(last_listed=NOON - 1.0)}
    of = claim(list=["guard"], deleting=True)
    plan = decided(view(of, waiting("a"), entry_histories=listings, history=ObservedHistory(deleting_since=NOON)))
    assert plan.actions == ()
    assert plan.wake_at == NOON - 1.0 + BIND_HORIZON


def test_no_tombstone_is_put_into_the_list_of_a_claim_under_deletion():
    of = claim(workload=JOB, list=[JOB, finished("b"), started("a")], deleting=True)
    plan = decide(view(of, started("a"), finished("b"), workload=PRESENT), policy=ALONGSIDE, now=NOON)
    assert listed(plan) == ["jobs/train", "a"]


@pytest.mark.parametrize(
    ("of", "pods", "told"),
    [
        pytest.param(claim(list=[FOREIGN]), [], True, id="nothing-else-keeps-it"),
        pytest.param(claim(list=[FOREIGN], deleting=True), [], True, id="under-deletion"),
        pytest.param(claim(list=[FOREIGN, started("a")]), [started("a")], False, id="a-pod-uses-it"),
        pytest.param(claim(list=[FOREIGN]), [gated("a")], False, id="a-pod-wants-it"),
        pytest.param(claim(workload=JOB, entered=True, list=[JOB, FOREIGN]), [], False, id="reserved-for-a-job"),
        pytest.param(claim(list=[waiting("a")]), [], False, id="a-pod-that-is-looked-up"),
    ],
)
def test_a_claim_that_only_others_keep_says_for_whom(of, pods, told):
    plan = decided(view(of, *pods, workload=PRESENT))
    notes = [r.note for r in plan.reasons if r.code is Code.KEPT_BY_OTHERS]
    assert bool(notes) is told
    assert all("things.example.com/x" in n and "kubectl dra release --help" in n for n in notes)
