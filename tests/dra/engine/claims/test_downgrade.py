"""Conversion to lists that stock Kubernetes understands."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims import patches
from dra.engine.claims.actions import Deallocate, PatchMetadata, SetReservedFor
from dra.engine.claims.consumers import CONSUMING, Stage
from dra.engine.claims.downgrade import LISTED_WAITING_MAX, DowngradeState, assess, next_write
from dra.engine.claims.view import EntryKind, WorkloadPhase, WorkloadState, lost_node_entry, tombstone_entry
from dra.model import workload_reservations
from dra.model.claims import DELETE_PROTECTION, RESERVED_FOR_MAX_SIZE
from dra.model.references import ConsumerReference
from tests.dra.engine.examples import (
    FINISHED,
    FOREIGN,
    FOREIGN_GATE,
    GONE,
    JOB,
    PRESENT,
    claim,
    consumer,
    finished,
    gated,
    many,
    names,
    started,
    starting,
    view,
    waiting,
)
from tests.violations import for_each_case

GROUP = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="workers", uid="uid-workers")
TOMBSTONE = tombstone_entry(finished("f").entry)
GUARD_OF_CLAIM = "guard"


def entered(*entries, **form):
    return claim(workload=JOB, entered=True, list=[JOB, *entries], **form)


def converted(of, *pods, **known):
    """All steps, one after the other: the lists as they become, "notes", "free", and the claim at the end."""
    steps = []
    for _ in range(10):
        write = next_write(view(of, *pods, **known))
        if write is None:
            return steps, of
        match write:
            case SetReservedFor(entries=entries):
                steps.append(names(entries))
            case PatchMetadata():
                steps.append("notes")
            case Deallocate():
                steps.append("free")
        of = patches.apply_write(of, write)
    raise AssertionError(f"never done: {steps}")


def test_pods_are_listed_first_then_our_notes_go_and_the_entries_last():
    steps, after = converted(
        entered("guard", started("a")), started("a"), started("b"), starting("c"), workload=PRESENT
    )
    assert steps == [["jobs/train", "guards/train", "a", "c", "b"], "notes", ["c", "a", "b"]]
    assert after.metadata.annotations == {
        workload_reservations.RESERVED_FOR: "jobs.batch/train",
        workload_reservations.RESERVED_FOR_UID: JOB.uid,
    }
    assert after.protected


@pytest.mark.parametrize(
    ("count", "state"),
    [
        pytest.param(255, DowngradeState.CONVERTIBLE, id="255"),
        pytest.param(256, DowngradeState.CONVERTIBLE, id="256"),
        pytest.param(257, DowngradeState.TOO_MANY, id="257"),
        pytest.param(400, DowngradeState.TOO_MANY, id="400"),
    ],
)
def test_a_list_has_room_for_256(count, state):
    pods = many(started, count)
    found = view(entered("guard"), *pods, workload=PRESENT)
    assert assess(found).state is state
    steps, after = converted(entered("guard"), *pods, workload=PRESENT)
    assert all(len(step) <= RESERVED_FOR_MAX_SIZE for step in steps if isinstance(step, list))
    if state is DowngradeState.TOO_MANY:
        assert steps == []
        assert f"{count} pods" in assess(found).detail
    else:
        assert {e.uid for e in after.entries} == {c.uid for c in pods}


def test_pods_that_wait_are_counted_be_they_behind_gates_or_not():
    of = view(entered(), started("a"), *many(waiting, 2), gated("c"), workload=PRESENT)
    assert (assess(of).consuming, assess(of).pending) == (1, 3)


def test_the_entries_of_others_take_their_room():
    pods = many(started, 256)
    assert assess(view(entered(FOREIGN), *pods, workload=PRESENT)).state is DowngradeState.TOO_MANY


def test_who_has_ended_makes_room():
    ended = many(finished, 200, prefix="f")
    pods = many(started, 200)
    of = entered("guard", *(tombstone_entry(c.entry) for c in ended[:54]), *ended[54:])
    steps, after = converted(of, *ended, *pods, workload=PRESENT)
    assert {e.uid for e in after.entries} == {c.uid for c in pods}
    assert all(len(step) <= RESERVED_FOR_MAX_SIZE for step in steps if isinstance(step, list))


ORPHANS = [
    pytest.param(entered(), GONE, id="workload-gone"),
    pytest.param(entered("guard", TOMBSTONE), FINISHED, id="workload-finished"),
    pytest.param(claim(list=["guard"]), PRESENT, id="guard-without-workload"),
    pytest.param(claim(workload=JOB, entered=True, list=["guard"]), PRESENT, id="released-by-its-owner"),
    pytest.param(claim(workload=JOB, entered=True), PRESENT, id="released-and-empty"),
    pytest.param(claim(workload=JOB, entered=True, list=[JOB], deleting=True), PRESENT, id="under-deletion"),
]


@pytest.mark.parametrize(("of", "workload"), ORPHANS)
def test_an_orphan_is_given_back(of, workload):
    assert assess(view(of, workload=workload)).state is DowngradeState.ORPHAN
    steps, after = converted(of, workload=workload)
    assert steps == ["free", "notes"]
    assert after.status.allocation is None
    assert not after.protected


@for_each_case(
    [
        pytest.param(entered(), [], PRESENT, "has no pods", id="workload-without-pods"),
        pytest.param(entered(), [], WorkloadState(), "it is unknown", id="doubt"),
        pytest.param(entered(), [], WorkloadState(phase=WorkloadPhase.FORBIDDEN), "it is unknown", id="forbidden"),
        pytest.param(
            claim(list=[FOREIGN]), [], PRESENT, "another client made entry things.example.com/x", id="foreign"
        ),
        pytest.param(
            entered(),
            [gated("a", gates=(FOREIGN_GATE,))],
            PRESENT,
            "wait behind scheduling gates or for their PodGroup",
            id="suspended",
        ),
        pytest.param(
            entered(),
            [waiting("a", pod_group="g")],
            GONE,
            "wait behind scheduling gates or for their PodGroup",
            id="gang",
        ),
        pytest.param(entered("guard", deleting=True), [started("a")], PRESENT, "cannot be listed", id="under-deletion"),
    ]
)
def test_what_waits_for_its_owner_is_left_alone(of, pods, workload, detail):
    found = view(of, *pods, workload=workload)
    assert assess(found).state is DowngradeState.OWNER
    assert detail in assess(found).detail
    assert next_write(found) is None


def test_a_claim_that_was_given_up_is_given_back_though_its_workload_is_there():
    found = view(entered(), workload=PRESENT)
    assert assess(found, given_up=True).state is DowngradeState.ORPHAN
    assert isinstance(next_write(found, given_up=True), Deallocate)


def test_giving_up_frees_nothing_that_is_used():
    found = view(entered(started("a")), started("a"), workload=PRESENT)
    assert assess(found, given_up=True).state is DowngradeState.CONVERTIBLE
    assert isinstance(next_write(found, given_up=True), PatchMetadata)


def test_a_claim_with_a_lost_node_waits_for_it():
    found = view(entered(lost_node_entry("n7", "boot-1")), started("a"), workload=PRESENT)
    assert assess(found).state is DowngradeState.NODE
    assert "n7" in assess(found).detail
    assert next_write(found) is None


@pytest.mark.parametrize(
    ("of", "pods"),
    [
        pytest.param(claim(list=[]), [], id="allocated-and-unused"),
        pytest.param(claim(list=[started("a")]), [started("a")], id="all-listed"),
        pytest.param(claim(list=[finished("a")]), [finished("a")], id="the-stock-controller-prunes"),
        pytest.param(claim(list=[GROUP]), [started("a", pod_group="workers")], id="listed-by-its-group"),
        pytest.param(claim(allocation=None, workload=JOB), [], id="not-allocated"),
        pytest.param(claim(workload=JOB, list=[waiting("a")]), [waiting("a")], id="a-waiting-pod-is-listed"),
    ],
)
def test_what_stock_kubernetes_understands_is_ready(of, pods):
    assert assess(view(of, *pods)).state is DowngradeState.READY
    assert next_write(view(of, *pods)) is None


def test_a_bound_pod_that_nobody_lists_is_listed():
    steps, _ = converted(claim(list=[]), started("a"))
    assert steps == [["a"]]


def test_waiting_pods_are_listed_where_nobody_else_is_so_that_somebody_can_give_back():
    pods = many(waiting, 40)
    steps, after = converted(entered(), *pods, workload=PRESENT)
    assert len(after.entries) == LISTED_WAITING_MAX
    assert steps[1] == "notes"


def test_waiting_pods_that_are_not_listed_are_not_listed_beside_others():
    steps, _ = converted(entered("guard"), started("a"), *many(waiting, 3), workload=PRESENT)
    assert steps[-1] == ["a"]


def test_a_promise_to_a_waiting_pod_is_kept():
    steps, _ = converted(entered(waiting("w")), started("a"), waiting("w"), workload=PRESENT)
    assert steps[-1] == ["a", "w"]


def test_a_pod_off_the_allocation_is_not_listed_unless_it_has_started_there():
    pods = [starting("a"), started("b"), started("c")]
    known = {"workload": PRESENT, "excluded": frozenset({pods[0].uid, pods[1].uid})}
    steps, _ = converted(entered("guard"), *pods, **known)
    assert steps[-1] == ["b", "c"]


def test_without_the_finalizer_nobody_would_give_the_claim_back():
    _, after = converted(entered(started("a"), protected=False), started("a"), workload=PRESENT)
    assert after.metadata.finalizers == [DELETE_PROTECTION]


def test_notes_that_a_killed_conversion_left_go_too():
    leftover = claim(allocation=None, workload=JOB, protected=True)
    steps, after = converted(leftover)
    assert steps == ["notes"]
    assert not after.protected


def test_a_claim_without_devices_loses_its_notes_and_lists_no_pod():
    """The API server refuses entries there (422), and the whole downgrade ended with that."""
    leftover = claim(
        allocation=None, workload=JOB, annotations={workload_reservations.ENTERED_ALLOCATION: "0123456789abcdef"}
    )
    steps, _ = converted(leftover, waiting("a"), started("b"))
    assert steps == ["notes"]


def test_what_is_told_of_a_claim():
    told = assess(view(entered("guard", started("a")), started("a"), started("b"), workload=PRESENT))
    assert (told.consuming, told.listed) == (2, 1)
    assert told.entries == ("jobs.batch/train", "guards.reserve.dra/train")
    assert told.detail == "lists 1 pods, then removes jobs.batch/train, guards.reserve.dra/train"


# Whatever there is:

_stages = st.sampled_from([Stage.GATED, Stage.WAITING, Stage.STARTING, Stage.STARTED, Stage.FINISHED])
_pods = st.lists(st.tuples(_stages, st.booleans(), st.booleans()), max_size=12)
_extra = st.lists(
    st.sampled_from([JOB, GUARD_OF_CLAIM, FOREIGN, GROUP, TOMBSTONE]),
    unique_by=lambda e: getattr(e, "uid", e),
    max_size=5,
)


@given(
    pods=_pods,
    extra=_extra,
    workload=st.sampled_from([PRESENT, GONE, FINISHED, WorkloadState()]),
    entered_before=st.booleans(),
    deleting=st.booleans(),
    given_up=st.booleans(),
)
def test_nobody_is_ever_unlisted_and_nothing_that_is_used_is_freed(
    pods, extra, workload, entered_before, deleting, given_up
):
    found = [
        consumer(
            f"p{n}",
            stage,
            **({"gates": ("reserve.dra/claim",)} if stage is Stage.GATED else {}),
            pod_group="workers" if gang else "",
        )
        for n, (stage, _, gang) in enumerate(pods)
    ]
    listed = [c for c, (_, is_listed, _) in zip(found, pods, strict=True) if is_listed]
    of = claim(workload=JOB, entered=entered_before, list=[*extra, *listed], deleting=deleting)
    unfinished = {c.uid for c in found if c.stage is not Stage.FINISHED}
    for _ in range(8):
        seen = view(of, *found, workload=workload)
        write = next_write(seen, given_up=given_up)
        if write is None:
            break
        if isinstance(write, Deallocate):
            assert not unfinished
        after = patches.apply_write(of, write)
        before_uids, after_uids = {e.uid for e in of.entries}, {e.uid for e in after.entries}
        assert not (before_uids - after_uids) & unfinished
        assert len(after.entries) <= RESERVED_FOR_MAX_SIZE
        if deleting:
            assert after_uids <= before_uids
        of = after
    else:
        raise AssertionError("never done")
    end = assess(view(of, *found, workload=workload), given_up=given_up)
    assert end.state not in {DowngradeState.CONVERTIBLE, DowngradeState.ORPHAN}
    if end.state is DowngradeState.READY and of.status.allocation is not None:
        kinds = {e.kind for e in view(of, *found, workload=workload).entries}
        assert kinds.isdisjoint({EntryKind.WORKLOAD, EntryKind.GUARD, EntryKind.TOMBSTONE})
        groups = {e.name for e in of.entries if e.is_pod_group}
        needing = {c.uid for c in found if c.stage in CONSUMING and c.pod_group not in groups}
        assert needing <= {e.uid for e in of.entries}


def test_an_assessment_is_data():
    assert msgspec.json.encode(assess(view(entered(), workload=GONE)))
