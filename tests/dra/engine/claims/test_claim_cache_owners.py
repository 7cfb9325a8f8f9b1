"""What is known of the pods that claims were made for; pods and claims come by two watches."""

import msgspec
import pytest

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import OwningPodPhase
from dra.model.pods import PodExtendedResourceClaimStatus
from tests.dra.engine.examples import KEY, NOON, claim, observe_all, pod, uid

BEFORE = pod("a", version=5, identity=uid("before"))
AFTER = pod("a", version=10, identity=uid("after"))


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        pytest.param([pod("a", version=2), claim(owner="a")], OwningPodPhase.PRESENT, id="it-is-there"),
        pytest.param([claim(owner="a")], OwningPodPhase.UNKNOWN, id="it-is-not-shown-yet"),
        pytest.param([BEFORE, claim(owner="a", version=9)], OwningPodPhase.UNKNOWN, id="the-one-before-is-still-shown"),
        pytest.param(
            [claim(owner="a", version=9), AFTER], OwningPodPhase.REPLACED, id="another-one-came-after-the-claim"
        ),
    ],
)
def test_what_is_known_of_the_pod_that_a_claim_was_made_for(seen, phase):
    assert observe_all(ClaimCache(), *seen).view(KEY, now=NOON).owning_pod is phase


def test_a_pod_that_was_seen_to_go_is_replaced_by_the_next_of_its_name():
    world = observe_all(ClaimCache(), pod("a"), claim(owner="a", version=30))
    world.forget_pod(uid("a"))
    assert observe_all(world, AFTER).view(KEY, now=NOON).owning_pod is OwningPodPhase.REPLACED


@pytest.mark.parametrize(
    ("owner", "used"),
    [
        pytest.param("a", True, id="made-for-the-pod"),
        pytest.param("b", False, id="made-for-another-pod"),
        pytest.param(None, False, id="made-for-no-pod"),
    ],
)
def test_a_pod_uses_a_claim_for_extended_resources_only_if_it_was_made_for_the_pod(owner, used):
    """Any client that may write the status of a pod can name a claim there."""
    world = ClaimCache()
    bound = pod("a", claims=(), node="n1")
    extended = PodExtendedResourceClaimStatus(resource_claim_name="train")
    bound = msgspec.structs.replace(
        bound, status=msgspec.structs.replace(bound.status, extended_resource_claim_status=extended)
    )
    world.observe_claim(claim(owner=owner), now=NOON)
    world.observe_pod(bound, now=NOON)
    assert [each.name for each in world.view(KEY, now=NOON).starting] == (["a"] if used else [])
