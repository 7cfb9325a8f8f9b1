"""What is known of the pods that claims were made for; pods and claims come by two watches."""

import pytest

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import OwningPodPhase
from tests.dra.engine.examples import KEY, NOON, claim, pod, told, uid

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
    assert told(ClaimCache(), *seen).view(KEY, now=NOON).owning_pod is phase


def test_a_pod_that_was_seen_to_go_is_replaced_by_the_next_of_its_name():
    world = told(ClaimCache(), pod("a"), claim(owner="a", version=30))
    world.forget_pod(uid("a"))
    assert told(world, AFTER).view(KEY, now=NOON).owning_pod is OwningPodPhase.REPLACED
