import msgspec
import pytest

from dra.model import workload_reservations
from dra.model.claims import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from dra.model.references import ConsumerReference, MalformedReferenceError
from tests.dra.engine.examples import JOB, allocation, claim
from tests.violations import for_each_case

UNTOLD = ConsumerReference.parse("jobs.batch/train")
OTHER = ConsumerReference.parse("jobs.batch/other", uid=workload_reservations.Uid("uid-other"))


@for_each_case(
    [
        pytest.param(claim(), None, id="reserved-for-nobody"),
        pytest.param(claim(workload=JOB), workload_reservations.WorkloadReservation(reference=JOB), id="annotation"),
        pytest.param(
            claim(workload=UNTOLD), workload_reservations.WorkloadReservation(reference=UNTOLD), id="uid-not-told-yet"
        ),
        pytest.param(
            claim(workload=JOB, entered=True),
            workload_reservations.WorkloadReservation(
                reference=JOB, any_pod=True, entered=workload_reservations.allocation_digest(allocation())
            ),
            id="annotation-of-an-entry-made",
        ),
        pytest.param(
            claim(workload=JOB, native=True),
            workload_reservations.WorkloadReservation(reference=JOB, native=True),
            id="field",
        ),
        pytest.param(
            claim(workload=JOB, native=True, any_pod=True),
            workload_reservations.WorkloadReservation(reference=JOB, native=True, any_pod=True),
            id="field-and-any-pod",
        ),
        pytest.param(
            claim(workload=JOB, native=True, allocation=None),
            workload_reservations.WorkloadReservation(reference=JOB, native=True),
            id="field-of-an-unallocated-claim",
        ),
        pytest.param(
            claim(workload=JOB, native=True, annotations={workload_reservations.RESERVED_FOR: str(OTHER)}),
            workload_reservations.WorkloadReservation(reference=JOB, native=True),
            id="the-field-wins",
        ),
        pytest.param(
            claim(workload=JOB, annotations={workload_reservations.RESOLVED_UID: JOB.uid}),
            workload_reservations.WorkloadReservation(reference=JOB, resolved=True),
            id="uid-found-by-us",
        ),
        pytest.param(
            claim(workload=JOB, annotations={workload_reservations.RESOLVED_UID: OTHER.uid}),
            workload_reservations.WorkloadReservation(reference=JOB),
            id="uid-told-after-we-had-found-another",
        ),
    ]
)
def test_both_forms_say_the_same(of, expected):
    assert workload_reservations.workload_reservation(of) == expected


def test_the_fields_are_read_under_their_names_in_the_kep():
    found = msgspec.json.decode(
        b"""{"metadata": {"name": "train"},
             "spec": {"reservedFor": {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "uid-job"}},
             "status": {"allocation": {"reservedForAnyPod": true}}}""",
        type=ResourceClaim,
    )
    assert workload_reservations.workload_reservation(found) == workload_reservations.WorkloadReservation(
        reference=JOB, native=True, any_pod=True
    )


def test_an_annotation_that_cannot_be_read_says_how_to_write_it():
    with pytest.raises(MalformedReferenceError, match=r"for example:? jobs\.batch"):
        workload_reservations.workload_reservation(claim(annotations={workload_reservations.RESERVED_FOR: "Job/train"}))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(allocation(), True, id="equal"),
        pytest.param(allocation("gpu-1"), False, id="another-device"),
        pytest.param(allocation(nodes=["n1"]), False, id="other-nodes"),
        pytest.param(allocation(stamp="2026-11-20T12:30:00Z"), False, id="same-device-allocated-again"),
        pytest.param(
            msgspec.structs.replace(
                allocation(),
                devices=DeviceAllocationResult(results=allocation().devices.results, config=[{"source": "class"}]),
            ),
            True,
            id="configuration-is-no-identity",
        ),
    ],
)
def test_the_digest_tells_one_allocation_from_the_next(other, same):
    assert (
        workload_reservations.allocation_digest(other) == workload_reservations.allocation_digest(allocation())
    ) is same


MARKS = dict.fromkeys((workload_reservations.RESERVED_FOR_ANY_POD, workload_reservations.ENTERED_ALLOCATION))
FOUND = {workload_reservations.RESOLVED_UID: None, workload_reservations.RESERVED_FOR_UID: None}


@pytest.mark.parametrize(
    ("of", "uid_too", "removed"),
    [
        pytest.param(claim(), True, {}, id="nothing-of-ours"),
        pytest.param(claim(workload=JOB, entered=True), False, MARKS, id="marks"),
        pytest.param(claim(workload=JOB, entered=True), True, MARKS, id="the-creators-uid-stays"),
        pytest.param(
            claim(workload=JOB, entered=True, annotations={workload_reservations.RESOLVED_UID: JOB.uid}),
            True,
            MARKS | FOUND,
            id="a-uid-that-we-found-goes",
        ),
        pytest.param(
            claim(workload=JOB, entered=True, annotations={workload_reservations.RESOLVED_UID: JOB.uid}),
            False,
            MARKS,
            id="but-only-with-the-workload",
        ),
        pytest.param(
            claim(workload=JOB, annotations={workload_reservations.RESOLVED_UID: OTHER.uid}),
            True,
            {workload_reservations.RESOLVED_UID: None},
            id="a-uid-that-somebody-told-later-stays",
        ),
    ],
)
def test_what_is_forgotten_with_an_allocation(of, uid_too, removed):
    assert workload_reservations.annotation_removals(of, uid_too=uid_too) == removed


def test_the_marks_of_an_entry_are_what_the_accessor_reads():
    marked = claim(workload=JOB, annotations=workload_reservations.entry_annotations(allocation()))
    found = workload_reservations.workload_reservation(marked)
    assert (found.any_pod, found.entered) == (True, workload_reservations.allocation_digest(allocation()))


def test_the_marks_of_a_uid_are_what_the_accessor_reads():
    found = workload_reservations.workload_reservation(
        claim(
            workload=UNTOLD, annotations=workload_reservations.resolved_uid_annotations(claim(workload=UNTOLD), JOB.uid)
        )
    )
    assert (found.reference, found.resolved) == (JOB, True)


@pytest.mark.parametrize(
    ("annotations", "uid", "former"),
    [
        pytest.param(
            {workload_reservations.RESOLVED_FOR: "jobs.batch/train"}, JOB.uid, "", id="found-for-this-reference"
        ),
        pytest.param({}, JOB.uid, "", id="found-before-that-was-noted"),
        pytest.param({workload_reservations.RESOLVED_FOR: "jobs.batch/eval"}, "", JOB.uid, id="found-for-another-one"),
        pytest.param(
            {workload_reservations.RESOLVED_FOR: "jobs.batch/eval", workload_reservations.RESOLVED_UID: "uid-other"},
            JOB.uid,
            "",
            id="the-creator-has-told-the-uid",
        ),
    ],
)
def test_a_uid_that_was_found_does_not_stick_to_another_name(annotations, uid, former):
    of = claim(workload=JOB, entered=True, annotations={workload_reservations.RESOLVED_UID: JOB.uid, **annotations})
    found = workload_reservations.workload_reservation(of)
    assert (found.reference.name, found.reference.uid, found.former) == ("train", uid, former)
    assert bool(found.entered) is not bool(former)


EVERYTHING = DeviceRequestAllocationResult(
    request="gpu",
    driver="gpu.example.com",
    pool="n1",
    device="gpu-0",
    admin_access=False,
    share_id="s",
    consumed_capacity={"memory": "1Gi"},
    binding_conditions=["a"],
    binding_failure_conditions=["b"],
    tolerations=[{"key": "k"}],
)


class ResultOfLater(DeviceRequestAllocationResult, frozen=True):
    """A result with a field that a later Kubernetes has."""

    network: str = "eth0"


@pytest.mark.parametrize(
    ("results", "digest"),
    [
        pytest.param([EVERYTHING], "01a1700bde0c0392", id="all-fields"),
        pytest.param(
            [
                ResultOfLater(
                    network="eth1", **{name: getattr(EVERYTHING, name) for name in EVERYTHING.__struct_fields__}
                )
            ],
            "01a1700bde0c0392",
            id="a-field-of-a-later-release",
        ),
        pytest.param(None, "fe44a8cccd89edae", id="none"),
    ],
)
def test_a_digest_is_the_same_in_every_release(results, digest):
    """Marks on claims outlive the release that wrote them: an owner's release would be forgotten by an upgrade."""
    assert (
        workload_reservations.allocation_digest(AllocationResult(devices=DeviceAllocationResult(results=results)))
        == digest
    )
