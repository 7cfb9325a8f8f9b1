"""The quota of the class BestEffort: shrinks at once, grows in steps, ignores small differences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.suppression.quota import limit_quota, next_quota
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(2, None, 450, 45000, id="without-a-quota-the-wanted-one-at-once"),
        pytest.param(2, 20000, 450, 40000, id="grows-by-ten-percent-of-the-capacity"),
        pytest.param(2, 44000, 450, 44000, id="less-than-one-percent-is-not-written"),
        pytest.param(2, 45000, 100, 10000, id="shrinks-at-once"),
        pytest.param(2, 45000, 1, 2000, id="at-least-2000"),
        pytest.param(2, 3000, 1, 2000, id="the-least-is-written-whatever-the-difference"),
        pytest.param(2, 90000, -300, 2000, id="a-negative-budget-is-the-least-quota-at-once"),
        pytest.param(80, 1000000, 20000, 1800000, id="80-cpus-from-10-to-20"),
        pytest.param(80, 1900000, 20000, 2000000, id="80-cpus-from-19-to-20"),
        pytest.param(80, 2400000, 20000, 2000000, id="80-cpus-from-24-to-20"),
        pytest.param(80, 1980000, 20000, 1980000, id="80-cpus-19.8-are-20"),
        pytest.param(80, None, 20000, 2000000, id="80-cpus-without-a-quota"),
        pytest.param(80, None, 1, 2000, id="80-cpus-least"),
        pytest.param(80, None, 700, 70000, id="no-quota-is-no-number-on-a-big-node-either"),
        pytest.param(4, 44000, 460, 44000, id="4-cpus-within-one-percent"),
        pytest.param(4, 44000, 480, 48000, id="4-cpus-one-percent"),
    ],
)
def test_one_step(cpus, current, budget, wanted):
    assert next_quota(budget, capacity_milli=cpus * 1000, current=current) == wanted


def test_growth_is_a_step_each_round_until_the_budget_is_reached():
    steps, quota = [], 20000
    for _ in range(7):
        quota = next_quota(1300, capacity_milli=2000, current=quota, ours=quota)
        steps.append(quota)
    assert steps == [40000, 60000, 80000, 100000, 120000, 130000, 130000]


@pytest.mark.parametrize(
    "current",
    [
        pytest.param(None, id="lifted-by-a-daemon-reload"),
        pytest.param(20000, id="halved-by-somebody"),
        pytest.param(150000, id="raised-by-somebody"),
    ],
)
def test_a_value_of_others_is_no_base_for_a_step(current):
    assert next_quota(450, capacity_milli=2000, current=current, ours=44000) == 44000


def test_a_quota_is_of_the_period_that_the_cgroup_has():
    assert next_quota(450, capacity_milli=2000, current=None, period=50000) == 22500
    assert next_quota(0, capacity_milli=2000, current=None, period=50000) == 1000
    assert limit_quota(500, period=10000) == 5000
    assert limit_quota(5, period=10000) == 1000


@given(
    budget=st.integers(-(10**6), 10**6),
    cpus=st.integers(1, 512),
    current=st.none() | st.integers(1000, 10**8),
    period=st.integers(1000, 10**6),
)
def test_the_kernel_takes_every_quota_and_the_budget_is_reached_within_eleven_steps(budget, cpus, current, period):
    quota = current
    for _ in range(11):
        quota = next_quota(budget, capacity_milli=cpus * 1000, current=quota, ours=quota, period=period)
        assert quota >= 1000
    wanted = max(budget * period // 1000, 1000)
    capacity = cpus * period
    assert quota >= min(wanted, capacity) - capacity // 50
