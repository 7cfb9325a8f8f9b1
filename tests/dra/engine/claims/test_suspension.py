"""Rule 7, suspended workloads: kept with a warning by default, released where annotation or policy says so."""

import msgspec
import pytest

from dra.engine.claims.actions import Deallocate, PatchMetadata, SetReservedFor
from dra.engine.claims.codes import Code
from dra.engine.claims.policy import REPLACE
from dra.engine.claims.view import WorkloadState
from dra.model import workload_reservations
from dra.model.workload_reservations import WHEN_SUSPENDED
from tests.dra.engine.examples import (
    FOREIGN,
    JOB,
    KEY,
    PRESENT,
    claim,
    codes,
    decided,
    finished,
    gated,
    listed,
    of_type,
    started,
    view,
)

SUSPENDED = msgspec.structs.replace(PRESENT, suspended=True)
RELEASE = msgspec.structs.replace(REPLACE, release_suspended=True)
MARKS = (workload_reservations.RESERVED_FOR_ANY_POD, workload_reservations.ENTERED_ALLOCATION)


def of_job(when=None, **fields):
    annotations = {WHEN_SUSPENDED: when} if when is not None else {}
    return claim(workload=JOB, entered=True, annotations=annotations, **{"list": [JOB], **fields})


@pytest.mark.parametrize(
    ("when", "policy", "reported", "freed"),
    [
        pytest.param(None, REPLACE, [Code.KEPT_WHILE_SUSPENDED], False, id="by-default-it-is-kept"),
        pytest.param(None, RELEASE, [Code.WORKLOAD_RELEASED, Code.DEALLOCATED], True, id="the-policy-releases"),
        pytest.param("release", REPLACE, [Code.WORKLOAD_RELEASED, Code.DEALLOCATED], True, id="the-claim-releases"),
        pytest.param("keep", REPLACE, [], False, id="the-claim-is-kept-on-purpose"),
        pytest.param("keep", RELEASE, [], False, id="the-claim-overrides-the-policy"),
        pytest.param("Release", RELEASE, [Code.KEPT_WHILE_SUSPENDED], False, id="an-unknown-value-keeps"),
    ],
)
def test_the_claim_of_a_suspended_workload_without_pods(when, policy, reported, freed):
    plan = decided(view(of_job(when), workload=SUSPENDED), policy=policy)
    assert (codes(plan), bool(of_type(plan, Deallocate))) == (reported, freed)


@pytest.mark.parametrize("pod", [started("a"), gated("a")], ids=["runs", "waits"])
def test_a_release_waits_for_the_pods_of_the_suspended_workload(pod):
    plan = decided(view(of_job("release"), pod, workload=SUSPENDED))
    assert codes(plan) == [Code.RELEASE_WAITS]
    assert not of_type(plan, Deallocate)
    assert "jobs/train" in (listed(plan) or ["jobs/train"])


def test_nothing_is_reported_while_pods_of_the_suspended_workload_end():
    assert codes(decided(view(of_job(), started("a"), workload=SUSPENDED))) == []


def test_a_claim_that_is_not_allocated_is_not_reported():
    assert codes(decided(view(claim(workload=JOB, allocation=None), workload=SUSPENDED))) == []


def test_a_suspended_workload_that_another_uid_names_is_looked_up_first():
    other = WorkloadState(phase=SUSPENDED.phase, uid="uid-other", suspended=True)
    assert not decided(view(of_job("release"), workload=other)).claim_writes


def test_the_text_names_an_unknown_value_and_the_valid_ones():
    (reason,) = decided(view(of_job("relese"), workload=SUSPENDED)).reasons
    assert "the unknown value 'relese', and keep or release are valid" in reason.text


def test_the_uid_of_a_suspended_workload_stays_after_its_release():
    of = of_job("release")
    of.metadata.annotations.update(workload_reservations.resolved_uid_annotations(of, JOB.uid))
    (note,) = of_type(decided(view(of, workload=SUSPENDED)), PatchMetadata)
    assert dict(note.annotations) == dict.fromkeys(MARKS)


def test_an_entry_that_goes_before_the_allocation_takes_its_annotations_along():
    of = of_job("release", list=[JOB, FOREIGN])
    first, second = decided(view(of, finished("a"), workload=SUSPENDED)).claim_writes
    assert dict(first.annotations) == dict.fromkeys(MARKS), "if only this is written, the entry is still there"
    assert second == SetReservedFor(claim=KEY, entries=(FOREIGN,))


def test_an_entry_that_its_owner_has_removed_stays_away_after_the_suspension():
    of = of_job("release", list=[FOREIGN])
    assert not decided(view(of, workload=SUSPENDED)).claim_writes
    assert Code.WORKLOAD_ENTERED not in codes(decided(view(of, started("a"), workload=PRESENT)))


def test_the_resumed_workload_is_entered_again_for_the_same_allocation():
    of = claim(workload=JOB, list=["guard"])
    assert "jobs/train" in listed(decided(view(of, started("a"), workload=PRESENT)))
