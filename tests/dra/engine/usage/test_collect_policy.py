import pytest

from dra.engine.usage.collect_policy import WINDOWS_MAX, collect_policy
from dra.engine.usage.report import CollectPolicy
from tests.violations import for_each_case


def test_a_policy_is_read_from_the_spec():
    given = {
        "aggregateDurationSeconds": 60,
        "reportIntervalSeconds": 30,
        "nodeAggregatePolicy": {"durations": ["1m", "5m0s", "1m0s"]},
    }
    assert collect_policy(given) == (
        CollectPolicy(aggregate_seconds=60, report_seconds=30, percentile_seconds=(60, 300)),
        (),
    )


@pytest.mark.parametrize("given", [None, {}, {"nodeAggregatePolicy": None}, {"nodeAggregatePolicy": {}}])
def test_without_a_policy_koordinators_defaults_hold(given):
    assert collect_policy(given) == (CollectPolicy(), ())


@for_each_case(
    [
        ({"aggregateDurationSeconds": 0}, "aggregateDurationSeconds: 0 is not from 1 to 3600; 300 is used"),
        ({"aggregateDurationSeconds": -5}, "aggregateDurationSeconds: -5"),
        ({"aggregateDurationSeconds": 10**9}, "aggregateDurationSeconds: 1000000000"),
        ({"aggregateDurationSeconds": float("nan")}, "aggregateDurationSeconds: nan"),
        ({"reportIntervalSeconds": "60"}, "reportIntervalSeconds: '60'"),
        ({"reportIntervalSeconds": True}, "reportIntervalSeconds: True"),
        ({"nodeAggregatePolicy": {"durations": {"5m": 1}}}, "durations: "),
        ({"nodeAggregatePolicy": {"durations": ["5 minutes"]}}, "durations: '5 minutes' is not from 1s to 1h"),
        ({"nodeAggregatePolicy": {"durations": ["48h"]}}, "durations: '48h'"),
        ({"nodeAggregatePolicy": {"durations": [300]}}, "durations: '300'"),
    ]
)
def test_a_value_that_cannot_be_used_is_told_and_replaced(given, problem):
    policy, problems = collect_policy(given)
    assert len(problems) == 1
    assert problem in problems[0]
    assert (policy.aggregate_seconds, policy.report_seconds) == (300, 60)


def test_windows_are_bounded_in_number():
    policy, _ = collect_policy({"nodeAggregatePolicy": {"durations": [f"{number}m" for number in range(1, 50)]}})
    assert len(policy.percentile_seconds) == WINDOWS_MAX


def test_an_empty_list_asks_for_no_percentiles():
    policy, problems = collect_policy({"nodeAggregatePolicy": {"durations": []}})
    assert (policy.percentile_seconds, problems) == ((), ())
    assert policy.longest_seconds == 300
