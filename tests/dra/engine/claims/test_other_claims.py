"""A pod of several claims is held up by the claims that are not ready for it."""

import pytest

from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.model.pods import GANG_ANNOTATIONS
from tests.dra.engine.examples import KEY, NOON, claim, observe_all, pod, uid, waiting


@pytest.mark.parametrize(
    ("other", "held_up"),
    [
        pytest.param(None, False, id="no-such-claim"),
        pytest.param(claim("data", allocation=None), False, id="unallocated-and-nobody-opens-it"),
        pytest.param(claim("data"), True, id="allocated-and-not-listed-there"),
        pytest.param(claim("data", list=[waiting("a")]), False, id="listed-there"),
        pytest.param(claim("data", deleting=True), False, id="being-deleted"),
        pytest.param(claim("data", owner="a"), False, id="its-own"),
    ],
)
def test_a_gated_pod_is_held_up_by_claims_that_are_not_ready_for_it(world, other, held_up):
    observe_all(
        world, claim(), *([other] if other else []), pod("a", gates=[SCHEDULING_GATE], claims=("train", "data"))
    )
    assert world.view(KEY, now=NOON).awaiting_other_claims == (frozenset({uid("a")}) if held_up else frozenset())


def test_a_gated_pod_is_held_up_while_another_opens_its_second_claim(world):
    observe_all(world, claim(), claim("data", allocation=None), pod("opener", claims=("data",)))
    observe_all(world, pod("a", gates=[SCHEDULING_GATE], claims=("train", "data")))
    assert world.view(KEY, now=NOON).awaiting_other_claims == {uid("a")}
    assert world.view(KEY, now=NOON + 60.0).awaiting_other_claims == frozenset()


@pytest.mark.parametrize(
    ("gangs", "held_up"),
    [
        pytest.param(("crew", "crew"), False, id="of-its-own-gang"),
        pytest.param(("other", "crew"), True, id="of-another-gang"),
        pytest.param(("", ""), True, id="of-no-gang"),
    ],
)
def test_the_pods_of_a_gang_open_a_second_claim_together(world, gangs, held_up):
    opener, late = ({"annotations": {GANG_ANNOTATIONS[0]: gang} if gang else {}} for gang in gangs)
    observe_all(world, claim(), claim("data", allocation=None), pod("opener", claims=("data",), **opener))
    observe_all(world, pod("a", gates=[SCHEDULING_GATE], claims=("train", "data"), **late))
    assert world.view(KEY, now=NOON).awaiting_other_claims == (frozenset({uid("a")}) if held_up else frozenset())
