"""How many bindings may be in flight after fast and after slow ones."""

import pytest

from dra.engine.scheduling.binding_limit import DECREASE_FACTOR, LIMIT_INITIAL, LIMIT_MAX, LIMIT_MIN, BindingLimit
from tests.violations import for_each_case

SECONDS = 4.0
FAST, USUAL, SLOW = 0.1, 0.7, 1.1


@for_each_case(
    [
        pytest.param([], LIMIT_INITIAL, id="at-the-start"),
        pytest.param([(FAST, 4)] * 5, LIMIT_INITIAL + 1, id="a-round-of-fast-ones-in-all-slots"),
        pytest.param([(FAST, 3)] * 100, LIMIT_INITIAL, id="fast-ones-that-leave-slots-free"),
        pytest.param([(USUAL, 4)] * 100, LIMIT_INITIAL, id="neither-fast-nor-slow"),
        pytest.param([(SLOW, 4)], 2, id="a-slow-one"),
        pytest.param([(SLOW, 4)] * 100, LIMIT_MIN, id="only-slow-ones"),
        pytest.param([(FAST, LIMIT_MAX)] * 1000, LIMIT_MAX, id="only-fast-ones"),
    ]
)
def test_the_limit_follows_the_duration_of_bindings(bindings, limit):
    current = BindingLimit(seconds=SECONDS)
    for number, (took, in_flight) in enumerate(bindings):
        current.adapt(took, in_flight=in_flight, now=10.0 * number)
    assert current.value == limit


def test_slow_bindings_that_began_before_the_last_decrease_decrease_nothing():
    limit = BindingLimit(seconds=SECONDS)
    for _ in range(1000):
        limit.adapt(FAST, in_flight=LIMIT_MAX, now=0.0)
    for now in (10.0, 10.1, 10.2):
        limit.adapt(SLOW, in_flight=LIMIT_MAX, now=now)
    assert limit.value == int(LIMIT_MAX * DECREASE_FACTOR)
