import pytest

from dra.engine.migration.eviction_pace import EvictionPace


@pytest.mark.parametrize(
    ("qps", "burst", "now", "turns"),
    [
        pytest.param(1.0, 1, [0.0, 0.0, 0.0], [0.0, 1.0, 2.0], id="one-a-second"),
        pytest.param(1.0, 2, [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], id="two-at-once"),
        pytest.param(1.0, 1, [0.0, 5.0, 5.0], [0.0, 5.0, 6.0], id="unused-time-is-lost"),
        pytest.param(0.1, 1, [0.0, 1.0], [0.0, 10.0], id="slow"),
    ],
)
def test_turns(qps, burst, now, turns):
    pace = EvictionPace(qps, burst)
    assert [pace.next_turn(each) for each in now] == turns
