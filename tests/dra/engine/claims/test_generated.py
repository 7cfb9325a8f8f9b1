"""Rule 13: claims that were made for a pod."""

import pytest

from dra.engine.actions import Annotate, Deallocate, DeleteClaim
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import OwnerPhase
from tests.dra.engine.examples import CLAIM_UID, KEY, allocation, claim, decided, finished, of_type, started, view

DELETED = [DeleteClaim(claim=KEY, uid=CLAIM_UID)]


@pytest.mark.parametrize(
    ("phase", "deleted"),
    [
        pytest.param(OwnerPhase.DONE, DELETED, id="done"),
        pytest.param(OwnerPhase.REPLACED, DELETED, id="another-pod-has-its-name"),
        pytest.param(OwnerPhase.PRESENT, [], id="it-may-run"),
        pytest.param(OwnerPhase.UNKNOWN, [], id="not-seen-is-for-the-garbage-collector"),
        pytest.param(OwnerPhase.NONE, [], id="made-by-hand"),
    ],
)
def test_an_unused_claim_goes_with_its_pod(phase, deleted):
    unused = view(claim(allocation=None), owner=phase)
    assert of_type(decided(unused), DeleteClaim) == deleted
    assert of_type(decided(unused, policy=ALONGSIDE), DeleteClaim) == []


def test_it_is_deallocated_first():
    a = finished("a")
    plan = decided(view(claim(allocation=allocation(), list=[a]), a, owner=OwnerPhase.DONE), policy=REPLACE)
    assert [type(action) for action in plan.actions] == [Deallocate, Annotate, DeleteClaim]


def test_it_stays_while_another_pod_uses_it():
    a, b = finished("a"), started("b")
    plan = decided(view(claim(allocation=allocation(), list=[a, b]), a, b, owner=OwnerPhase.DONE))
    assert of_type(plan, DeleteClaim) == []
