"""How long a scheduling cycle that already runs may still bind its pod, by the bindings that were seen."""

import pytest

from dra.engine.claims.bind_latency import REMEMBERED_FOR
from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON
from tests.dra.engine.examples import KEY, NOON, claim, observe_all, pod, waiting


def bound_after(world, seconds, **form):
    """A pod waits, is listed, and is bound so many seconds after that."""
    observe_all(world, claim(version=1), pod("a", **form))
    observe_all(world, claim(version=2, list=[waiting("a")]), now=NOON + 10.0)
    observe_all(world, pod("a", version=2, node="n1", claims=form.get("claims", ("train",))), now=NOON + 10.0 + seconds)
    return world.view(KEY, now=NOON + 10.0 + seconds).bind_horizon(waiting("b"))


@pytest.mark.parametrize(
    ("seconds", "form", "horizon"),
    [
        pytest.param(1.0, {}, BIND_HORIZON, id="as-a-rule"),
        pytest.param(100.0, {}, 200.0, id="requests-wait-in-the-client"),
        pytest.param(10_000.0, {}, SLOW_BIND_HORIZON, id="not-for-ever"),
        pytest.param(100.0, {"unschedulable": "no room"}, BIND_HORIZON, id="there-was-no-room"),
        pytest.param(100.0, {"claims": ("train", "data")}, BIND_HORIZON, id="it-waited-for-another-claim"),
    ],
)
def test_the_bind_horizon_follows_the_slowest_binding(world, seconds, form, horizon):
    assert bound_after(world, seconds, **form) == horizon


def test_a_slow_binding_is_forgotten(world):
    seen = NOON + 110.0
    assert bound_after(world, 100.0) == 200.0
    assert world.view(KEY, now=seen + REMEMBERED_FOR - 1.0).observed_bind_horizon == 200.0
    assert world.view(KEY, now=seen + 2 * REMEMBERED_FOR).observed_bind_horizon == BIND_HORIZON
