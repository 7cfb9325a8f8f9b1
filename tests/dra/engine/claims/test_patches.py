import json

import pytest

from dra.engine.claims import patches
from dra.engine.claims.actions import AddEntries, ClaimPlan, Deallocate, PatchMetadata, SetReservedFor, Ungate
from dra.engine.claims.view import tombstone_entry
from dra.model.claims import DELETE_PROTECTION
from tests.dra.engine.examples import FOREIGN, GUARD, JOB, KEY, allocation, claim, finished, uid, waiting

LIST = SetReservedFor(claim=KEY, entries=(JOB, waiting("a").entry))
NOTE = PatchMetadata(claim=KEY, annotations=(("x", "1"), ("y", None)), finalizers=("other",))


@pytest.mark.parametrize(
    ("write", "subresource", "body"),
    [
        pytest.param(
            LIST,
            "status",
            {
                "status": {
                    "reservedFor": [
                        {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "uid-job"},
                        {"resource": "pods", "name": "a", "uid": "uid-a"},
                    ]
                }
            },
            id="the-list-as-a-whole",
        ),
        pytest.param(
            AddEntries(claim=KEY, entries=(waiting("a").entry,)),
            "status",
            {"status": {"reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}]}},
            id="one-entry-beside-others",
        ),
        pytest.param(
            Deallocate(claim=KEY),
            "status",
            {"status": {"allocation": None, "reservedFor": None, "devices": None}},
            id="all-three-in-one-write",
        ),
        pytest.param(
            NOTE,
            None,
            {"metadata": {"annotations": {"x": "1", "y": None}, "finalizers": ["other"]}},
            id="metadata-beside-the-status",
        ),
        pytest.param(
            PatchMetadata(claim=KEY, annotations=(("x", "1"),)),
            None,
            {"metadata": {"annotations": {"x": "1"}}},
            id="finalizers-are-left-alone",
        ),
        pytest.param(
            PatchMetadata(claim=KEY, finalizers=()),
            None,
            {"metadata": {"finalizers": []}},
            id="the-last-finalizer-goes",
        ),
    ],
)
def test_writes_as_merge_patches(write, subresource, body):
    assert patches.subresource(write) == subresource
    assert json.loads(json.dumps(patches.merge_patch_of(write))) == body


def test_the_patches_of_pods():
    assert patches.ungate_patch() == {"spec": {"schedulingGates": None}}
    assert patches.ungate_patch(("a", "b")) == {"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}}
    assert patches.resync_patch("12:00") == {"metadata": {"annotations": {"reserve.dra/listed-at": "12:00"}}}


def test_a_write_leaves_alone_what_it_does_not_name():
    before = claim(workload=JOB, annotations={"y": "2", "z": "3"}, list=[FOREIGN])
    after = patches.apply_write(before, NOTE)
    assert after.metadata.annotations == {k: v for k, v in before.metadata.annotations.items() if k != "y"} | {"x": "1"}
    assert after.metadata.finalizers == ["other"]
    assert after.status == before.status
    assert after.metadata.resource_version == before.metadata.resource_version


def test_the_list_is_replaced_and_the_allocation_stays():
    after = patches.apply_write(claim(list=[GUARD]), LIST)
    assert after.entries == (JOB, waiting("a").entry)
    assert after.status.allocation == allocation()


def test_an_entry_is_added_and_all_else_stays():
    after = patches.apply_write(claim(list=[GUARD]), AddEntries(claim=KEY, entries=(JOB,)))
    assert after.entries == (GUARD, JOB)
    assert after.status.allocation == allocation()


def test_an_entry_takes_the_place_of_the_one_with_its_uid():
    ended = finished("a").entry
    after = patches.apply_write(
        claim(list=[GUARD, ended, JOB]), AddEntries(claim=KEY, entries=(tombstone_entry(ended),))
    )
    assert after.entries == (GUARD, tombstone_entry(ended), JOB)


def test_a_deallocation_clears_the_status_and_leaves_the_finalizer():
    after = patches.apply_write(claim(list=[GUARD]), Deallocate(claim=KEY))
    assert (after.status.allocation, after.entries) == (None, ())
    assert after.metadata.finalizers == [DELETE_PROTECTION]


def test_the_writes_on_a_claim_are_those_that_form_its_chain():
    ungate = Ungate(pod=("ml", "a"), uid=uid("a"), resource_version="1")
    assert ClaimPlan(actions=(LIST, ungate, NOTE)).claim_writes == (LIST, NOTE)
