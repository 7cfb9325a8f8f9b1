"""Rule 13: claims that were made for a pod."""

import pytest

from dra.engine.claims.actions import Deallocate, DeleteClaim, PatchMetadata
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import OwningPodPhase
from tests.dra.engine.examples import CLAIM_UID, KEY, allocation, claim, decided, finished, of_type, started, view

DELETED = [DeleteClaim(claim=KEY, uid=CLAIM_UID)]


@pytest.mark.parametrize(
    ("phase", "deleted"),
    [
        pytest.param(OwningPodPhase.DONE, DELETED, id="done"),
        pytest.param(OwningPodPhase.REPLACED, DELETED, id="another-pod-has-its-name"),
        pytest.param(OwningPodPhase.PRESENT, [], id="it-may-run"),
        pytest.param(OwningPodPhase.UNKNOWN, [], id="not-seen-is-for-the-garbage-collector"),
        pytest.param(OwningPodPhase.NONE, [], id="made-by-hand"),
    ],
)
def test_an_unused_claim_goes_with_its_pod(phase, deleted):
    unused = view(claim(allocation=None), owner=phase)
    assert of_type(decided(unused), DeleteClaim) == deleted
    assert of_type(decided(unused, policy=ALONGSIDE), DeleteClaim) == []


def test_it_is_deallocated_first():
    a = finished("a")
    plan = decided(view(claim(allocation=allocation(), list=[a]), a, owner=OwningPodPhase.DONE), policy=REPLACE)
    assert [type(action) for action in plan.actions] == [Deallocate, PatchMetadata, DeleteClaim]


def test_it_stays_while_another_pod_uses_it():
    a, b = finished("a"), started("b")
    plan = decided(view(claim(allocation=allocation(), list=[a, b]), a, b, owner=OwningPodPhase.DONE))
    assert of_type(plan, DeleteClaim) == []
