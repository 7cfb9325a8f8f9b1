"""Rules 2, 7 and 12."""

import msgspec
import pytest

from dra.engine.claims.actions import Deallocate, LookUpWorkload, PatchMetadata
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.codes import Code
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import EntryKind, ObservedHistory, OwningPodPhase, WorkloadPhase, WorkloadState
from dra.engine.claims.workload_entry import WorkloadFate, workload_fate
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import SLOW_BIND_HORIZON
from dra.model import workload_reservations
from dra.model.meta import OwnerReference, Uid
from dra.model.references import ConsumerReference
from tests.dra.engine.examples import (
    FINISHED,
    FOREIGN,
    GONE,
    GUARD,
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
    of_type,
    started,
    uid,
    view,
    waiting,
)
from tests.violations import combinations, for_each_case, named

UNTOLD = ConsumerReference.parse("jobs.batch/train")
BEFORE = msgspec.structs.replace(JOB, uid=Uid("uid-job-before"))
ANOTHER = WorkloadState(phase=WorkloadPhase.PRESENT, uid=Uid("uid-job-after"))
ABSENT = WorkloadState(phase=WorkloadPhase.ABSENT)
UNJUDGED = WorkloadState(phase=WorkloadPhase.PRESENT, uid=JOB.uid, rule_error="the rule takes too many iterations")
OVER_LIMIT = WorkloadState(phase=WorkloadPhase.OVER_LIMIT)
LET_THE_OWNER_DECIDE = msgspec.structs.replace(REPLACE, release_finished=False)


@for_each_case(
    [
        pytest.param(JOB, PRESENT, WorkloadFate.ALIVE, id="there"),
        pytest.param(JOB, FINISHED, WorkloadFate.FINISHED, id="finished"),
        pytest.param(JOB, GONE, WorkloadFate.GONE, id="gone"),
        pytest.param(
            JOB, msgspec.structs.replace(ANOTHER, gone=frozenset({JOB.uid})), WorkloadFate.GONE, id="gone-and-replaced"
        ),
        pytest.param(JOB, ANOTHER, WorkloadFate.ASKED, id="another-of-that-name"),
        pytest.param(
            JOB, msgspec.structs.replace(FINISHED, uid=Uid("x")), WorkloadFate.ASKED, id="another-that-finished"
        ),
        pytest.param(JOB, ABSENT, WorkloadFate.ASKED, id="not-there-by-our-copy"),
        pytest.param(JOB, WorkloadState(), WorkloadFate.DOUBT, id="not-looked-at"),
        pytest.param(
            JOB, WorkloadState(phase=WorkloadPhase.FORBIDDEN, uid=JOB.uid), WorkloadFate.DOUBT, id="forbidden"
        ),
        pytest.param(JOB, WorkloadState(phase=WorkloadPhase.NO_KIND), WorkloadFate.DOUBT, id="no-such-kind"),
        pytest.param(JOB, WorkloadState(phase=WorkloadPhase.OVER_LIMIT), WorkloadFate.DOUBT, id="too-many-kinds"),
        pytest.param(UNTOLD, PRESENT, WorkloadFate.PENDING, id="uid-not-known"),
    ]
)
def test_the_fate_of_a_workload_is_that_of_its_uid(reference, workload, expected):
    assert workload_fate(view(claim(workload=JOB), workload=workload), reference) is expected


# Rule 2: enter


@for_each_case(
    [
        pytest.param(claim(workload=JOB), [waiting("a")], ["jobs/train", "a"], id="a-waiting-pod"),
        pytest.param(claim(workload=JOB), [gated("a")], ["jobs/train", "a"], id="a-gated-pod"),
        pytest.param(claim(workload=JOB), [started("a")], ["jobs/train", "guards/train"], id="a-consuming-pod"),
        pytest.param(claim(workload=JOB, list=[waiting("a")]), [waiting("a")], ["jobs/train", "a"], id="beside-a-pod"),
        pytest.param(claim(workload=JOB), [], None, id="allocated-empty-and-no-pods-is-an-unreserve"),
        pytest.param(claim(workload=JOB), [finished("a")], None, id="only-finished-pods"),
        pytest.param(claim(workload=JOB, deleting=True), [started("a")], None, id="claim-under-deletion"),
        pytest.param(claim(workload=JOB, allocation=None), [waiting("a")], None, id="not-allocated"),
        pytest.param(claim(), [waiting("a")], None, id="reserved-for-nobody"),
    ]
)
def test_when_the_workload_is_entered(of, pods, written):
    plan = decided(view(of, *pods, workload=PRESENT))
    assert listed(plan) == written
    assert (Code.WORKLOAD_ENTERED in codes(plan)) is (written is not None)


@pytest.mark.parametrize("workload", [FINISHED, GONE], ids=["finished", "gone"])
def test_a_workload_that_is_over_is_not_entered(workload):
    plan = decided(view(claim(workload=JOB), waiting("a"), workload=workload))
    assert listed(plan) == ["a"]


@pytest.mark.parametrize(
    "workload", [ABSENT, WorkloadState(), ANOTHER], ids=["not-seen-yet", "not-looked-at", "another"]
)
def test_an_entry_by_uid_needs_no_sight_of_the_workload(workload):
    assert listed(decided(view(claim(workload=JOB), waiting("a"), workload=workload))) == ["jobs/train", "a"]


def test_the_entry_is_remembered_after_it_was_made():
    plan = decided(view(claim(workload=JOB), waiting("a"), workload=PRESENT))
    marks = of_type(plan, PatchMetadata)[0]
    assert dict(marks.annotations) == workload_reservations.entry_annotations(allocation())
    assert plan.claim_writes[-1] == marks


@pytest.mark.parametrize(
    ("of", "enters"),
    [
        pytest.param(claim(workload=JOB, entered=True), False, id="entered-for-this-allocation"),
        pytest.param(
            claim(workload=JOB, annotations=workload_reservations.entry_annotations(allocation("gpu-9"))),
            True,
            id="for-another",
        ),
        pytest.param(claim(workload=JOB, native=True, any_pod=True), False, id="the-scheduler-had-entered-it"),
        pytest.param(claim(workload=JOB, native=True), True, id="the-scheduler-had-not"),
    ],
)
def test_a_missing_entry_that_was_made_for_this_allocation_was_released_by_its_owner(of, enters):
    plan = decided(view(of, waiting("a"), workload=PRESENT))
    assert ("jobs/train" in (listed(plan) or [])) is enters
    assert (Code.OWNER_RELEASED in codes(plan)) is not enters


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(claim(workload=JOB), id="uid-recorded"),
        pytest.param(claim(workload=UNTOLD), id="uid-not-recorded"),
        pytest.param(claim(workload=JOB, allocation=allocation(stamp=None)), id="without-a-timestamp"),
    ],
)
def test_an_owner_may_release_the_claim_before_the_annotations_record_the_entry(of):
    """The entry and its annotations are two writes; what was seen in between counts, and is recorded now."""
    plan = decided(
        view(of, started("a"), workload=PRESENT, history=ObservedHistory(entered=frozenset({JOB.uid}))),
    )
    assert "jobs/train" not in (listed(plan) or [])
    assert Code.OWNER_RELEASED in codes(plan)
    (metadata,) = of_type(plan, PatchMetadata)
    recorded = workload_reservations.entry_annotations(of.status.allocation)
    assert recorded.items() <= dict(metadata.annotations).items()


def test_another_workload_that_was_listed_is_not_the_one_that_released_the_claim():
    known = ObservedHistory(entered=frozenset({BEFORE.uid, FOREIGN.uid}))
    plan = decided(view(claim(workload=JOB), started("a"), workload=PRESENT, history=known))
    assert "jobs/train" in listed(plan)


def test_a_match_without_a_timestamp_may_be_an_allocation_made_later_and_is_no_release():
    timeless = allocation(stamp=None)
    plan = decided(view(claim(workload=JOB, allocation=timeless, entered=True), waiting("a"), workload=PRESENT))
    assert Code.OWNER_RELEASED not in codes(plan)


def test_on_a_server_with_the_field_nothing_need_be_remembered():
    plan = decided(view(claim(workload=JOB, native=True, any_pod=True, list=[JOB]), waiting("a"), workload=PRESENT))
    assert plan.claim_writes == ()


@for_each_case(
    [
        pytest.param(PRESENT, Code.WORKLOAD_ENTERED, ["jobs/train", "a"], id="there"),
        pytest.param(ABSENT, Code.WORKLOAD_PENDING, ["a"], id="not-there-yet"),
        pytest.param(WorkloadState(), None, ["a"], id="not-looked-at"),
        pytest.param(FINISHED, None, ["a"], id="one-that-finished-is-not-meant"),
        pytest.param(WorkloadState(phase=WorkloadPhase.FORBIDDEN), Code.WORKLOAD_UNREADABLE, ["a"], id="forbidden"),
        pytest.param(WorkloadState(phase=WorkloadPhase.NO_KIND), Code.WORKLOAD_UNKNOWN_KIND, ["a"], id="no-such-kind"),
        pytest.param(OVER_LIMIT, Code.WORKLOAD_KINDS_EXCEEDED, ["a"], id="too-many-kinds"),
    ]
)
def test_a_reference_that_comes_before_its_workload(workload, code, written):
    plan = decided(view(claim(workload=UNTOLD), waiting("a"), workload=workload))
    assert listed(plan) == written
    assert codes(plan) == ([code] if code else [])


def test_a_uid_that_was_found_is_written_back_even_before_the_allocation():
    of = claim(workload=UNTOLD, allocation=None)
    plan = decided(view(of, workload=PRESENT))
    assert [dict(a.annotations) for a in plan.actions] == [workload_reservations.resolved_uid_annotations(of, JOB.uid)]


def test_a_reference_that_cannot_be_read_is_told_and_ignored():
    plan = decided(view(claim(), waiting("a"), malformed="'x' is no RESOURCE[.GROUP]/NAME"))
    assert codes(plan) == [Code.MALFORMED_REFERENCE]
    assert listed(plan) is None


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        pytest.param({"reserve.dra/reservedfor": "jobs.batch/x"}, [Code.UNKNOWN_ANNOTATION], id="a-misspelled-key"),
        pytest.param({f"reserve.dra/reserved-fo{n}": "" for n in range(9)}, [Code.UNKNOWN_ANNOTATION], id="several"),
        pytest.param({"reserve.dra/team": "vision"}, [], id="a-key-that-is-like-no-other"),
        pytest.param({"example.com/reserved-for": "jobs.batch/x"}, [], id="a-key-of-another-project"),
    ],
)
def test_a_misspelled_annotation_is_reported_once(annotations, told):
    assert codes(decided(view(claim(annotations=annotations)))) == told


SUCCEEDED = msgspec.structs.replace(ANOTHER, gone=frozenset({JOB.uid}))
FOUND_BY_US = {
    workload_reservations.RESERVED_FOR_UID: JOB.uid,
    workload_reservations.RESOLVED_UID: JOB.uid,
    workload_reservations.RESOLVED_FOR: "jobs.batch/train",
}


@pytest.mark.parametrize(
    ("of", "entered"),
    [
        pytest.param(claim(workload=UNTOLD, annotations=FOUND_BY_US), True, id="restored-with-our-annotations"),
        pytest.param(claim(workload=JOB), False, id="the-creator-gave-the-uid"),
        pytest.param(
            claim(workload=UNTOLD, annotations=FOUND_BY_US, entered=True), False, id="released-for-this-allocation"
        ),
        pytest.param(claim(workload=UNTOLD, annotations=FOUND_BY_US, list=[JOB]), False, id="still-in-the-list"),
    ],
)
def test_a_claim_in_use_is_reserved_for_the_successor_only_if_it_was_never_entered_for_the_predecessor(of, entered):
    """A restore from a backup keeps our annotations, and all objects have new uids."""
    plan = decided(view(of, started("a"), workload=SUCCEEDED))
    assert (Code.WORKLOAD_ENTERED in codes(plan)) is entered
    if entered:
        (note,) = of_type(plan, PatchMetadata)
        assert dict(note.annotations)[workload_reservations.RESOLVED_UID] == ANOTHER.uid
        assert dict(note.annotations)[workload_reservations.RESERVED_FOR_UID] == ANOTHER.uid


@pytest.mark.parametrize(
    ("of", "written"),
    [
        pytest.param(claim(workload=UNTOLD, annotations=FOUND_BY_US), ["a"], id="found-by-the-controller"),
        pytest.param(claim(workload=JOB), ["jobs/train", "a"], id="given-by-the-creator"),
    ],
)
@pytest.mark.parametrize("workload", [WorkloadState(), ABSENT, ANOTHER], ids=["not-looked-at", "not-there", "another"])
def test_a_uid_that_was_found_earlier_is_checked_before_it_is_entered(of, written, workload):
    assert listed(decided(view(of, waiting("a"), workload=workload))) == written


def test_a_claim_whose_recorded_uid_is_not_checked_yet_is_kept():
    of = claim(workload=UNTOLD, annotations=FOUND_BY_US, list=[finished("a")])
    plan = decided(view(of, finished("a"), workload=ANOTHER))
    assert not of_type(plan, Deallocate)
    assert of_type(plan, LookUpWorkload)


def test_a_claim_under_deletion_records_no_uid():
    """The list may hold the entry of a predecessor of that name; found by machine seed 878428243."""
    of = claim(workload=UNTOLD, deleting=True, list=[msgspec.structs.replace(JOB, uid=uid("predecessor"))])
    notes = of_type(decided(view(of, finished("a"), workload=PRESENT)), PatchMetadata)
    assert workload_reservations.RESOLVED_UID not in {key for note in notes for key, _ in note.annotations}


# Rules 7 and 12: keep or release


@for_each_case(
    [
        pytest.param(PRESENT, [], None, False, id="a-deployment-scaled-to-zero"),
        pytest.param(PRESENT, [finished("a")], None, False, id="all-its-pods-ended"),
        pytest.param(FINISHED, [], Code.WORKLOAD_RELEASED, True, id="finished"),
        pytest.param(FINISHED, [finished("a")], Code.WORKLOAD_RELEASED, True, id="finished-and-so-its-pods"),
        pytest.param(FINISHED, [started("a")], Code.RELEASE_WAITS, False, id="finished-but-a-pod-runs"),
        pytest.param(FINISHED, [gated("a")], Code.RELEASE_WAITS, False, id="finished-but-a-pod-waits"),
        pytest.param(GONE, [], Code.WORKLOAD_RELEASED, True, id="gone"),
        pytest.param(GONE, [started("a")], Code.RELEASE_WAITS, False, id="gone-but-a-pod-runs"),
        pytest.param(ABSENT, [], None, False, id="not-there-by-our-copy"),
        pytest.param(ANOTHER, [], None, False, id="another-of-that-name"),
        pytest.param(WorkloadState(), [], None, False, id="not-looked-at"),
        pytest.param(WorkloadState(phase=WorkloadPhase.FORBIDDEN), [], Code.WORKLOAD_UNREADABLE, False, id="forbidden"),
        pytest.param(
            WorkloadState(phase=WorkloadPhase.NO_KIND), [], Code.WORKLOAD_UNKNOWN_KIND, False, id="no-such-kind"
        ),
        pytest.param(OVER_LIMIT, [], Code.WORKLOAD_KINDS_EXCEEDED, False, id="too-many-kinds"),
        pytest.param(UNJUDGED, [finished("a")], Code.RULE_FAILED, False, id="its-rule-gives-no-answer"),
    ],
)
def test_what_becomes_of_the_entry(workload, pods, code, freed):
    of = claim(workload=JOB, entered=True, list=[JOB, "guard"])
    plan = decided(view(of, *pods, workload=workload))
    assert bool(of_type(plan, Deallocate)) is freed
    assert "jobs/train" in (listed(plan) or ["jobs/train"])
    assert [c for c in codes(plan) if c is not Code.DEALLOCATED] == ([code] if code else [])


@pytest.mark.parametrize("workload", [ABSENT, ANOTHER], ids=["not-there", "another"])
def test_who_is_not_where_it_should_be_is_looked_up(workload):
    plan = decided(view(claim(workload=JOB, entered=True, list=[JOB]), workload=workload))
    assert of_type(plan, LookUpWorkload) == [LookUpWorkload(claim=KEY, reference=JOB)]
    assert not plan.claim_writes


@pytest.mark.parametrize(("workload", "freed"), [(FINISHED, False), (GONE, True)], ids=["finished", "gone"])
def test_where_owners_decide_only_a_workload_that_is_gone_is_released(workload, freed):
    of = claim(workload=JOB, entered=True, list=[JOB])
    plan = decided(view(of, workload=workload), policy=LET_THE_OWNER_DECIDE)
    assert bool(of_type(plan, Deallocate)) is freed


def test_a_release_takes_the_marks_and_the_uid_that_we_found_along():
    of = claim(workload=JOB, entered=True, annotations={workload_reservations.RESOLVED_UID: JOB.uid}, list=[JOB])
    note = of_type(decided(view(of, workload=FINISHED)), PatchMetadata)[0]
    ours = {
        workload_reservations.RESERVED_FOR_ANY_POD,
        workload_reservations.ENTERED_ALLOCATION,
        workload_reservations.RESOLVED_UID,
        workload_reservations.RESERVED_FOR_UID,
    }
    assert dict(note.annotations) == dict.fromkeys(ours)
    assert note.finalizers == ()


@pytest.mark.parametrize(
    ("workload", "freed", "asks"),
    [
        pytest.param(FINISHED, True, False, id="finished"),
        pytest.param(GONE, True, False, id="gone"),
        pytest.param(ABSENT, False, True, id="not-seen-yet"),
    ],
)
def test_an_entry_whose_uid_could_not_be_noted_tells_it_itself(workload, freed, asks):
    """The write of the marks came too late or never, and meanwhile the object has ended: simulation seed 85."""
    of = claim(workload=UNTOLD, entered=True, list=[JOB])
    plan = decided(view(of, workload=workload))
    assert bool(of_type(plan, Deallocate)) is freed
    assert bool(of_type(plan, LookUpWorkload)) is asks
    forgotten = dict.fromkeys((workload_reservations.RESERVED_FOR_ANY_POD, workload_reservations.ENTERED_ALLOCATION))
    noted = dict(of_type(plan, PatchMetadata)[0].annotations)
    assert noted == (forgotten if freed else workload_reservations.resolved_uid_annotations(of, JOB.uid))


@pytest.mark.parametrize(
    ("workload", "pods", "freed", "asks"),
    [
        pytest.param(PRESENT, [waiting("a")], False, False, id="the-next-one-takes-its-place"),
        pytest.param(PRESENT, [], False, True, id="kept-until-it-is-known-to-be-gone"),
        pytest.param(msgspec.structs.replace(PRESENT, gone=frozenset({BEFORE.uid})), [], True, False, id="gone"),
    ],
)
def test_an_entry_of_an_earlier_workload_of_that_name(workload, pods, freed, asks):
    of = claim(workload=JOB, list=[BEFORE, *pods])
    of_view = view(of, *pods, workload=workload)
    assert EntryKind.FORMER in of_view.kinds
    plan = decided(of_view)
    assert bool(of_type(plan, Deallocate)) is freed
    assert of_type(plan, LookUpWorkload) == ([LookUpWorkload(claim=KEY, reference=BEFORE)] if asks else [])
    if pods:
        assert listed(plan) == ["jobs/train", "a"]


def test_foreign_entries_are_no_business_of_the_workload():
    of = claim(workload=JOB, entered=True, list=[JOB, FOREIGN, GUARD])
    plan = decided(view(of, workload=FINISHED))
    assert not of_type(plan, Deallocate)
    assert listed(plan) == ["things/x"]


@pytest.mark.parametrize(
    "phase",
    [WorkloadPhase.FORBIDDEN, WorkloadPhase.NO_KIND, WorkloadPhase.OVER_LIMIT, WorkloadPhase.UNKNOWN],
)
def test_a_claim_whose_workload_cannot_be_looked_at_is_not_given_back(phase):
    of = claim(workload=UNTOLD, list=[finished("a")])
    plan = decided(view(of, finished("a"), workload=WorkloadState(phase=phase)))
    assert listed(plan) == ["guards/train"]


def test_a_guard_that_doubt_left_behind_makes_way_for_the_workload():
    of = claim(workload=UNTOLD, list=["guard"])
    assert listed(decided(view(of, workload=PRESENT))) == ["jobs/train"]


@pytest.mark.parametrize(
    ("of", "pods", "told"),
    [
        pytest.param(claim(workload=JOB), [waiting("a")], True, id="a-pod-wants-it"),
        pytest.param(claim(workload=JOB, allocation=None), [gated("a")], True, id="unallocated"),
        pytest.param(claim(workload=JOB, allocation=None), [], False, id="nobody-wants-it"),
        pytest.param(claim(workload=JOB, entered=True, list=[JOB]), [started("a")], False, id="its-entry-tells"),
    ],
)
def test_a_claim_that_names_somebody_who_is_gone_says_so_to_those_who_want_it(of, pods, told):
    plan = decided(view(of, *pods, workload=GONE))
    assert (Code.WORKLOAD_GONE in codes(plan)) is told


# The reference is edited while the claim is allocated

EVAL = ConsumerReference.parse("jobs.batch/eval", uid=uid("eval"))
EDITED = {
    workload_reservations.RESERVED_FOR: "jobs.batch/eval",
    workload_reservations.RESOLVED_UID: JOB.uid,
    workload_reservations.RESOLVED_FOR: "jobs.batch/train",
}


def edited(*entries):
    """The claim was entered for the Job ``train``, whose uid we found, and names the Job ``eval`` now."""
    of = claim(workload=JOB, entered=True, list=entries)
    return msgspec.structs.replace(
        of, metadata=msgspec.structs.replace(of.metadata, annotations={**of.metadata.annotations, **EDITED})
    )


def test_after_the_reference_is_edited_the_new_workload_is_entered_in_place_of_the_old_one():
    there = WorkloadState(phase=WorkloadPhase.PRESENT, uid=EVAL.uid)
    plan = decided(view(edited(JOB), started("a"), workload=there))
    assert listed(plan) == ["jobs/eval", "guards/train"]
    noted = dict(of_type(plan, PatchMetadata)[0].annotations)
    assert noted[workload_reservations.RESERVED_FOR_UID] == noted[workload_reservations.RESOLVED_UID] == EVAL.uid
    assert noted[workload_reservations.RESOLVED_FOR] == "jobs.batch/eval"


@pytest.mark.parametrize(
    ("former", "freed"),
    [
        pytest.param(WorkloadState(), False, id="the-old-one-may-be-there"),
        pytest.param(
            WorkloadState(phase=WorkloadPhase.ABSENT, gone=frozenset({JOB.uid})), True, id="the-old-one-is-gone"
        ),
    ],
)
def test_until_the_new_workload_is_there_the_old_one_keeps_the_claim(former, freed):
    plan = decided(view(edited(JOB), workload=WorkloadState(phase=WorkloadPhase.ABSENT), former=former))
    assert bool(of_type(plan, Deallocate)) is freed
    assert bool(of_type(plan, LookUpWorkload)) is not freed
    assert Code.OWNER_RELEASED not in codes(plan)


def test_the_world_follows_the_old_workload_as_long_as_it_is_listed():
    world = ClaimCache()
    world.observe_claim(edited(JOB), now=NOON)
    world.workloads.observe_kind(JOBS, WorkloadPhase.ABSENT)
    world.workloads.forget(WorkloadKey(JOBS, NAMESPACE, "train"), JOB.uid)
    assert of_type(decided(world.view(KEY, now=NOON)), Deallocate)


@pytest.mark.parametrize(
    ("list_", "pods", "workload", "freed"),
    [
        pytest.param([], [], GONE, True, id="its-workload-is-gone"),
        pytest.param([], [], FINISHED, True, id="its-workload-has-finished"),
        pytest.param([], [], PRESENT, False, id="its-workload-is-there"),
        pytest.param([], [], WorkloadState(), False, id="nobody-knows"),
        pytest.param([], [waiting("a")], GONE, False, id="a-pod-wants-it"),
        pytest.param([FOREIGN], [], GONE, False, id="others-keep-it"),
    ],
)
def test_what_a_failed_binding_left_behind_is_free_once_the_workload_is_over(list_, pods, workload, freed):
    """kube-scheduler's Unreserve empties the list before the workload was ever entered: no edge will come."""
    plan = decided(view(claim(workload=JOB, list=list_), *pods, workload=workload))
    assert of_type(plan, Deallocate) == ([Deallocate(claim=KEY, confirm=True)] if freed else [])


def test_under_deletion_the_entry_of_an_earlier_workload_of_that_name_stays_as_it_is():
    of = claim(workload=UNTOLD, list=[JOB, started("a")], deleting=True)
    plan = decided(view(of, started("a"), workload=ANOTHER))
    assert listed(plan) is None


# A claim that was generated for one pod


RESERVATION = OwnerReference(
    api_version="scheduling.koordinator.sh/v1alpha1", kind="Reservation", name="r", uid=uid("r")
)
GROUP = OwnerReference(
    api_version="scheduling.k8s.io/v1beta1", kind="PodGroup", name="g", uid=uid("g"), controller=True
)


def owned_by(owner, **form):
    of = claim(**form)
    return msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, owner_references=[owner]))


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
@pytest.mark.parametrize(
    "of",
    [
        pytest.param(claim(workload=JOB, owner="a", list=[started("a")]), id="with-the-uid"),
        pytest.param(claim(workload=UNTOLD, owner="a", list=[started("a")]), id="without-the-uid"),
        pytest.param(owned_by(RESERVATION, workload=JOB, list=[started("a")]), id="made-for-a-reservation"),
    ],
)
def test_a_claim_of_one_pod_is_never_entered_for_its_workload(of, policy):
    plan = decided(view(of, started("a"), workload=PRESENT), policy=policy)
    assert (plan.actions, codes(plan)) == ((), [Code.RESERVATION_IGNORED])


@for_each_case(
    combinations(
        named([PRESENT, WorkloadState(), ABSENT], ["exists", "unknown", "absent"]),
        [
            pytest.param(claim(workload=JOB, owner="a", entered=True, list=[JOB]), id="by-an-earlier-release"),
            pytest.param(claim(workload=UNTOLD, owner="a", entered=True, list=[JOB]), id="without-a-recorded-uid"),
            pytest.param(claim(workload=BEFORE, owner="a", entered=True, list=[JOB]), id="for-another-of-that-name"),
            pytest.param(claim(workload=JOB, owner="a", native=True, any_pod=True, list=[JOB]), id="by-a-scheduler"),
        ],
    )
)
def test_an_entry_of_the_workload_in_the_claim_of_one_pod_ends_with_that_pod(workload, of):
    runs = decided(view(of, started("a"), workload=workload))
    assert not of_type(runs, Deallocate)
    assert "jobs/train" in (listed(runs) or ["jobs/train"])
    ended = decided(view(of, workload=workload, owning_pod=OwningPodPhase.DONE))
    assert not of_type(ended, LookUpWorkload)
    emptied = msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, reserved_for=[]))
    closed = ObservedHistory(closed_since=NOON - SLOW_BIND_HORIZON)
    later = decided(view(emptied, workload=workload, owning_pod=OwningPodPhase.DONE, history=closed))
    assert of_type(ended, Deallocate) or (listed(ended) == [] and of_type(later, Deallocate))


def test_the_claim_of_one_pod_may_be_reserved_for_that_pod():
    of = claim(workload=ConsumerReference.parse("pods/a"), owner="a", list=[started("a")])
    assert Code.RESERVATION_IGNORED not in codes(decided(view(of, started("a"))))


def test_the_claim_of_a_pod_group_is_reserved_for_its_workload():
    of = owned_by(GROUP, workload=JOB, list=[started("a")])
    assert codes(decided(view(of, started("a"), workload=PRESENT))) == [Code.WORKLOAD_ENTERED]


def test_a_claim_that_a_driver_pod_owns_and_the_workers_share_stays_reserved():
    """An operator made it, not a template: it has no annotation with the pod's entry."""
    driver = OwnerReference(api_version="v1", kind="Pod", name="driver", uid=uid("driver"), controller=True)
    of = owned_by(driver, workload=JOB, list=[started("worker")])
    plan = decided(view(of, started("worker"), workload=PRESENT, owning_pod=OwningPodPhase.PRESENT))
    assert codes(plan) == [Code.WORKLOAD_ENTERED]
