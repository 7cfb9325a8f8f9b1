"""When one more eviction is within the limit on the rate."""

import pytest

from dra.engine.instants import NEVER
from dra.engine.migration.eviction_rate import EvictionRate
from tests.violations import for_each_case

NOW = 1000.0


@for_each_case(
    [
        pytest.param(EvictionRate(limit=2, window=60), [], 0, NOW, id="none-yet"),
        pytest.param(EvictionRate(limit=2, window=60), [50], 0, NOW, id="below-the-limit"),
        pytest.param(EvictionRate(limit=2, window=60), [50, 10], 0, NOW + 10, id="until-the-oldest-leaves-the-window"),
        pytest.param(EvictionRate(limit=2, window=60), [60, 10], 0, NOW, id="the-end-of-the-window-is-outside"),
        pytest.param(EvictionRate(limit=2, window=60), [10], 1, NOW + 50, id="a-granted-eviction-counts"),
        pytest.param(EvictionRate(limit=2, window=60), [], 2, NEVER, id="granted-evictions-alone-fill-the-window"),
        pytest.param(EvictionRate(limit=6, window=60, burst=1), [4], 0, NOW + 6, id="one-every-ten-seconds"),
        pytest.param(EvictionRate(limit=6, window=60, burst=1), [10], 0, NOW, id="after-the-interval"),
        pytest.param(EvictionRate(limit=6, window=60, burst=2), [4], 0, NOW, id="two-at-once"),
        pytest.param(EvictionRate(limit=6, window=60, burst=2), [4, 4], 0, NOW + 6, id="a-third-waits"),
        pytest.param(EvictionRate(limit=6, window=60, burst=3), [], 2, NOW, id="burst-beside-granted-ones"),
        pytest.param(EvictionRate(limit=6, window=60, burst=2), [], 2, NOW + 10, id="granted-ones-take-the-burst"),
    ]
)
def test_the_next_eviction(rate, ago, pending, due):
    evictions = [NOW - seconds for seconds in ago]
    assert rate.next_eviction_at(evictions, pending=pending, now=NOW) == pytest.approx(due)
