"""ConfigMap slo-controller-config: what is read, what is told, and what stays in effect."""

import json
from fractions import Fraction

import pytest

from dra.api.colocation.node_strategy import node_strategy
from dra.api.colocation.slo_configuration import NODE_STRATEGIES_MAX, OFF, read_slo_configuration
from dra.api.colocation.strategies import (
    CalculatePolicy,
    ColocationStrategy,
    QosStrategy,
    ResctrlStrategy,
    SuppressPolicy,
    ThresholdStrategy,
)
from tests.violations import for_each_case

COLOCATION, THRESHOLD, QOS = "colocation-config", "resource-threshold-config", "resource-qos-config"


def read(key, content, last=OFF):
    text = content if isinstance(content, str) else json.dumps(content)
    return read_slo_configuration({key: text}, last=last)


def strategy(configuration, labels=None, annotations=None):
    return node_strategy(configuration, labels=labels or {}, annotations=annotations or {}).strategy


def errors(configuration):
    return [str(problem) for problem in configuration.problems if not problem.is_warning]


def warnings(configuration):
    return [str(problem) for problem in configuration.problems if problem.is_warning]


def nodes(*fields, key=COLOCATION):
    return {"nodeConfigs" if key == COLOCATION else "nodeStrategies": list(fields)}


RELEASE_NOTES_1_2 = """
{
  "clusterStrategy": {
    "lsClass": {
      "resctrlQOS": {
        "enable": true,
        "catRangeStartPercent": 0,
        "catRangeEndPercent": 100,
        "MBAPercent": 100
      }
    },
    "beClass": {
      "resctrlQOS": {
        "enable": true,
        "catRangeStartPercent": 0,
        "catRangeEndPercent": 30,
        "MBAPercent": 100
      }
    }
  }
}
"""


def test_the_configuration_of_the_release_notes_is_read_as_it_is_printed():
    configuration = read(QOS, RELEASE_NOTES_1_2)
    assert configuration.problems == ()
    strategy_ = configuration.qos_strategy({})
    assert strategy_.be == ResctrlStrategy(enable=True, cat_range_end_percent=30, mba_percent=100)
    assert strategy_.ls == ResctrlStrategy(enable=True)
    assert strategy_.lsr == ResctrlStrategy()


def test_without_a_configuration_everything_is_off_with_koordinators_defaults():
    for data in (None, {}, {COLOCATION: "", QOS: "  "}):
        configuration = read_slo_configuration(data)
        assert configuration == OFF
    assert strategy(OFF) == ColocationStrategy()
    assert (strategy(OFF).enable, strategy(OFF).cpu_reclaim_threshold_percent) == (False, 60)
    assert OFF.threshold_strategy({}) == ThresholdStrategy(enable=False, cpu_suppress_threshold_percent=65)
    assert OFF.qos_strategy({}) == QosStrategy()


def test_all_fields_of_colocation_are_read():
    configuration = read(
        COLOCATION,
        '{"enable": true, "metricAggregateDurationSeconds": 1, "metricReportIntervalSeconds": 2,'
        '"metricAggregatePolicy": {"durations": ["90s", "1h"]}, "metricMemoryCollectPolicy": "usageWithPageCache",'
        '"cpuReclaimThresholdPercent": 130, "cpuCalculatePolicy": "maxUsageRequest",'
        '"memoryReclaimThresholdPercent": 0,'
        '"memoryCalculatePolicy": "request", "degradeTimeMinutes": 3, "updateTimeThresholdSeconds": 4,'
        '"resourceDiffThreshold": 0.29, "batchCPUThresholdPercent": 0, "batchMemoryThresholdPercent": 200,'
        '"midCPUThresholdPercent": 10}',
    )
    assert configuration.problems == ()
    assert strategy(configuration) == ColocationStrategy(
        enable=True,
        metric_aggregate_duration_seconds=1,
        metric_report_interval_seconds=2,
        metric_aggregate_durations=("1m30s", "1h0m0s"),
        metric_memory_collect_policy="usageWithPageCache",
        cpu_reclaim_threshold_percent=130,
        cpu_calculate_policy=CalculatePolicy.MAX_USAGE_REQUEST,
        memory_reclaim_threshold_percent=0,
        memory_calculate_policy=CalculatePolicy.REQUEST,
        degrade_time_minutes=3,
        update_time_threshold_seconds=4,
        resource_diff_threshold=Fraction(29, 100),
        batch_cpu_threshold_percent=0,
        batch_memory_threshold_percent=200,
    )


def test_the_first_node_strategy_that_matches_wins_field_by_field():
    pool = {"matchLabels": {"pool": "a"}}
    configuration = read(
        THRESHOLD,
        {"clusterStrategy": {"enable": True, "cpuSuppressMinPercent": 5}}
        | nodes(
            {"name": "a", "nodeSelector": pool, "cpuSuppressThresholdPercent": 0, "cpuSuppressPolicy": "cfsQuota"},
            {"name": "b", "nodeSelector": pool, "cpuSuppressThresholdPercent": 99, "enable": False},
            key=THRESHOLD,
        ),
    )
    assert configuration.problems == ()
    assert configuration.threshold_strategy({"pool": "a"}) == ThresholdStrategy(
        enable=True,
        cpu_suppress_threshold_percent=0,
        cpu_suppress_min_percent=5,
        cpu_suppress_policy=SuppressPolicy.CFS_QUOTA,
    )
    assert configuration.threshold_strategy({}) == ThresholdStrategy(enable=True, cpu_suppress_min_percent=5)


@for_each_case(
    [
        pytest.param({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True, id="labels"),
        pytest.param({"matchLabels": {"a": "1"}}, {"a": "2"}, False, id="other-value"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True, id="in"
        ),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True, id="not-in"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True, id="exists"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False, id="absent"),
        pytest.param(
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            {"a": "1"},
            False,
            id="both-kinds-must-match",
        ),
        pytest.param({}, {"a": "1"}, False, id="an-empty-selector-matches-no-node"),
        pytest.param(None, {"a": "1"}, False, id="no-selector-matches-no-node"),
    ]
)
def test_selectors(selector, labels, matches):
    configuration = read(COLOCATION, nodes({"name": "x", "nodeSelector": selector, "enable": True}))
    assert strategy(configuration, labels).enable is matches
    assert errors(configuration) == []


def test_an_empty_selector_is_told():
    configuration = read(COLOCATION, nodes({"name": "all", "nodeSelector": {}, "enable": True}))
    (warning,) = warnings(configuration)
    assert warning == (
        "colocation-config: nodeConfig all: nodeSelector: selects no node here, since it is empty; name the labels, or "
        "move the fields to the cluster's"
    )


BAD = [
    # JSON
    pytest.param(COLOCATION, "{", "is not valid JSON", id="no-json"),
    pytest.param(COLOCATION, "[]", "is not a JSON object", id="a-list"),
    pytest.param(COLOCATION, '"enable"', "is not a JSON object", id="a-text"),
    pytest.param(COLOCATION, "null", "is not a JSON object", id="null"),
    pytest.param(COLOCATION, '{"enable": true,}', "is not valid JSON", id="a-comma-too-many"),
    pytest.param(COLOCATION, "{'enable': true}", "is not valid JSON", id="single-quotes"),
    pytest.param(COLOCATION, "enable: true", "is not valid JSON", id="yaml"),
    pytest.param(COLOCATION, '{"enable": true} {"enable": false}', "is not valid JSON", id="two-objects"),
    pytest.param(COLOCATION, '{"enable": true, "enable": false}', "'enable' is given twice", id="a-name-twice"),
    pytest.param(COLOCATION, '{"resourceDiffThreshold": NaN}', "NaN is no number", id="nan"),
    pytest.param(COLOCATION, '{"resourceDiffThreshold": Infinity}', "Infinity is no number", id="infinity"),
    pytest.param(COLOCATION, f'{{"degradeTimeMinutes": {"9" * 5000}}}', "is not valid", id="thousands-of-digits"),
    pytest.param(COLOCATION, '{"a":' * 100_000, "is nested too deeply", id="nested-too-deeply"),
    # Types
    pytest.param(COLOCATION, {"enable": "true"}, "enable: 'true' is not true or false", id="a-text-for-a-boolean"),
    pytest.param(COLOCATION, {"enable": 1}, "enable: 1 is not true or false", id="a-number-for-a-boolean"),
    pytest.param(
        COLOCATION,
        {"cpuReclaimThresholdPercent": "60"},
        "cpuReclaimThresholdPercent: '60' is not a whole number",
        id="a-text-for-a-number",
    ),
    pytest.param(COLOCATION, {"cpuReclaimThresholdPercent": 60.5}, "60.5 is not a whole number", id="a-fraction"),
    pytest.param(COLOCATION, {"cpuReclaimThresholdPercent": True}, "true is not a whole number", id="a-boolean"),
    pytest.param(COLOCATION, {"cpuReclaimThresholdPercent": {}}, "{} is not a whole number", id="an-object"),
    pytest.param(COLOCATION, {"metricAggregatePolicy": []}, "[] is not an object", id="a-list-for-an-object"),
    # Ranges
    pytest.param(COLOCATION, {"cpuReclaimThresholdPercent": -1}, "0 or more", id="negative-reclaim"),
    pytest.param(COLOCATION, {"memoryReclaimThresholdPercent": 2**63}, "out of range", id="beyond-64-bits"),
    pytest.param(COLOCATION, {"metricAggregateDurationSeconds": 0}, "1 or more", id="no-window"),
    pytest.param(COLOCATION, {"metricReportIntervalSeconds": 0}, "1 or more", id="no-interval"),
    pytest.param(COLOCATION, {"degradeTimeMinutes": 0}, "1 or more", id="no-degrade-time"),
    pytest.param(COLOCATION, {"updateTimeThresholdSeconds": 0}, "1 or more", id="no-update-time"),
    pytest.param(COLOCATION, {"resourceDiffThreshold": 0}, "greater than 0", id="a-threshold-of-0"),
    pytest.param(COLOCATION, {"resourceDiffThreshold": 1.01}, "at most 1", id="a-threshold-above-1"),
    pytest.param(COLOCATION, '{"resourceDiffThreshold": 1e999999999}', "at most 1", id="a-huge-exponent"),
    pytest.param(COLOCATION, '{"resourceDiffThreshold": 1e-999999999}', "decimals", id="a-tiny-exponent"),
    pytest.param(COLOCATION, {"resourceDiffThreshold": "0.1"}, "is not a number", id="a-threshold-in-quotes"),
    pytest.param(COLOCATION, {"batchCPUThresholdPercent": -5}, "0 or more", id="negative-most"),
    pytest.param(COLOCATION, {"midCPUThresholdPercent": 101}, "from 0 to 100", id="mid-above-100"),
    pytest.param(COLOCATION, {"cpuCalculatePolicy": "request"}, "not one of usage, max", id="request-is-for-memory"),
    pytest.param(COLOCATION, {"memoryCalculatePolicy": "Usage"}, "not one of usage, request", id="an-unknown-word"),
    pytest.param(COLOCATION, {"metricAggregatePolicy": {"durations": ["5"]}}, "not a duration", id="no-unit"),
    pytest.param(COLOCATION, {"metricAggregatePolicy": {"durations": ["0s"]}}, "above 0", id="no-duration"),
    pytest.param(COLOCATION, {"metricAggregatePolicy": {"durations": "5m"}}, "is not a list", id="one-duration"),
    pytest.param(THRESHOLD, {"clusterStrategy": {"cpuSuppressThresholdPercent": 101}}, "from 0 to 100", id="above-100"),
    pytest.param(THRESHOLD, {"clusterStrategy": {"cpuSuppressMinPercent": -1}}, "from 0 to 100", id="below-0"),
    pytest.param(THRESHOLD, {"clusterStrategy": {"cpuSuppressPolicy": "quota"}}, "cpuset, cfsQuota", id="no-policy"),
    pytest.param(THRESHOLD, {"clusterStrategy": {"cpuEvictTimeWindowSeconds": 0}}, "1 or more", id="no-time-window"),
    pytest.param(THRESHOLD, {"clusterStrategy": []}, "clusterStrategy: [] is not an object", id="a-list-of-strategies"),
    pytest.param(
        THRESHOLD,
        {"clusterStrategy": {"memoryEvictLowerPercent": 70, "memoryEvictThresholdPercent": 70}},
        "clusterStrategy.memoryEvictLowerPercent: 70 is not less than memoryEvictThresholdPercent 70",
        id="a-pair-that-is-equal",
    ),
    pytest.param(
        THRESHOLD,
        {"clusterStrategy": {"cpuEvictBESatisfactionUpperPercent": 30}}
        | nodes(
            {"name": "x", "nodeSelector": {"matchLabels": {"a": "1"}}, "cpuEvictBESatisfactionLowerPercent": 40},
            key=THRESHOLD,
        ),
        "nodeStrategy x: cpuEvictBESatisfactionLowerPercent: 40 is not less",
        id="a-pair-of-which-the-cluster-has-one-half",
    ),
    pytest.param(
        QOS,
        {"clusterStrategy": {"beClass": {"resctrlQOS": {"catRangeStartPercent": 30}}}},
        "beClass.resctrlQOS.catRangeStartPercent: 30 is not less than catRangeEndPercent 30",
        id="a-range-that-the-default-ends",
    ),
    pytest.param(
        QOS,
        {"clusterStrategy": {"lsClass": {"resctrlQOS": {"catRangeStartPercent": 50}}}}
        | nodes(
            {
                "name": "x",
                "nodeSelector": {"matchLabels": {"a": "1"}},
                "lsClass": {"resctrlQOS": {"catRangeEndPercent": 50}},
            },
            key=QOS,
        ),
        "nodeStrategy x: lsClass.resctrlQOS.catRangeStartPercent: 50 is not less",
        id="a-range-of-which-the-cluster-has-the-start",
    ),
    pytest.param(QOS, {"clusterStrategy": {"beClass": {"resctrlQOS": {"MBAPercent": 101}}}}, "0 to 100", id="mba"),
    pytest.param(QOS, {"clusterStrategy": {"lsClass": {"cpuQOS": {"groupIdentity": 3}}}}, "-1 to 2", id="identity"),
    pytest.param(QOS, {"clusterStrategy": {"lsClass": {"memoryQOS": {"wmarkScalePermill": 0}}}}, "1 to", id="wmark"),
    pytest.param(QOS, {"clusterStrategy": {"beClass": {"memoryQOS": {"priority": 13}}}}, "0 to 12", id="priority"),
    # Node strategies
    pytest.param(COLOCATION, {"nodeConfigs": {}}, "nodeConfigs: {} is not a list", id="an-object-of-node-configs"),
    pytest.param(COLOCATION, {"nodeConfigs": [1]}, "nodeConfigs[0]: 1 is not an object", id="a-number-as-node-config"),
    pytest.param(COLOCATION, nodes({"name": "x", "nodeSelector": "a=b"}), "nodeConfig x: nodeSelector", id="a-text"),
    pytest.param(
        COLOCATION,
        nodes({"nodeSelector": {"matchLabels": {"a": 1}}}),
        "nodeConfigs[0]: nodeSelector",
        id="a-number-label",
    ),
    pytest.param(
        COLOCATION,
        nodes({"name": "x", "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}}),
        "operator 'in' is not one of",
        id="an-operator-in-lower-case",
    ),
    pytest.param(
        COLOCATION,
        nodes({"name": "x", "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
        "operator In needs values",
        id="an-operator-without-values",
    ),
    pytest.param(
        COLOCATION,
        nodes(
            {
                "name": "x",
                "nodeSelector": {"matchLabels": {"a": "1"}},
                "cpuReclaimThresholdPercent": -1,
            }
        ),
        "nodeConfig x: cpuReclaimThresholdPercent: -1 is out of range",
        id="a-range-in-a-node-config",
    ),
    pytest.param(
        COLOCATION,
        nodes(*[{"nodeSelector": {"matchLabels": {"a": "1"}}}] * (NODE_STRATEGIES_MAX + 1)),
        f"is not a list of at most {NODE_STRATEGIES_MAX}",
        id="too-many-node-configs",
    ),
]


@for_each_case(BAD)
def test_an_error_keeps_the_last_good_content_of_its_key_and_is_told(key, content, text):
    good = {
        COLOCATION: '{"enable": true, "cpuReclaimThresholdPercent": 71}',
        THRESHOLD: '{"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 72}}',
        QOS: '{"clusterStrategy": {"beClass": {"resctrlQOS": {"enable": true, "mbaPercent": 73}}}}',
    }
    last = read_slo_configuration(good)
    bad = content if isinstance(content, str) else json.dumps(content)
    configuration = read_slo_configuration(good | {key: bad}, last=last)
    (error,) = errors(configuration)
    assert error.startswith(f"{key}: ")
    assert text in error
    assert len(error) < 400
    assert strategy(configuration).cpu_reclaim_threshold_percent == 71
    assert configuration.threshold_strategy({}).cpu_suppress_threshold_percent == 72
    assert configuration.qos_strategy({}).be.mba_percent == 73
    at_start = read(key, content)
    assert (at_start.colocation, at_start.threshold, at_start.qos) == (OFF.colocation, OFF.threshold, OFF.qos)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(
            {"cpuReclaimThresholdPercnt": 1},
            "cpuReclaimThresholdPercnt: unknown field, do you mean cpuReclaimThresholdPercent?; it has no effect",
            id="a-typo",
        ),
        pytest.param({"zzz": 1}, "zzz: unknown field; it has no effect", id="nothing-near"),
        pytest.param({"ENABLE": False}, "ENABLE: the same field as enable, which counts", id="the-same-in-capitals"),
        pytest.param(
            nodes(*[{"name": "x", "nodeSelector": {"matchLabels": {"a": "1"}}}] * 2),
            "nodeConfig x: the name is used twice; give each its own, by which messages can tell them apart",
            id="a-name-twice",
        ),
    ],
)
def test_a_warning_leaves_the_rest_in_effect(content, text):
    configuration = read(COLOCATION, {"enable": True, "degradeTimeMinutes": 5} | content)
    assert warnings(configuration) == [f"colocation-config: {text}"]
    assert errors(configuration) == []
    assert (strategy(configuration).enable, strategy(configuration).degrade_time_minutes) == (True, 5)


def test_upper_and_lower_case_of_names_do_not_matter_and_null_is_absent():
    configuration = read(COLOCATION, {"Enable": True, "CPUReclaimThresholdPercent": 1, "degradeTimeMinutes": None})
    assert configuration.problems == ()
    assert strategy(configuration) == ColocationStrategy(enable=True, cpu_reclaim_threshold_percent=1)


def test_a_key_that_is_gone_or_empty_turns_off_what_it_turned_on():
    last = read(COLOCATION, {"enable": True})
    assert read_slo_configuration({}, last=last) == OFF
    assert read_slo_configuration(None, last=last) == OFF


@pytest.mark.parametrize("given", ["5", '{"a": 1}', '"usage"'])
def test_a_memory_policy_that_no_node_metric_can_have_is_told_at_its_key(given):
    """The API server would refuse the spec of the NodeMetric of every node."""
    text = f'{{"enable": true, "metricMemoryCollectPolicy": {given}}}'
    (problem,) = read_slo_configuration({"colocation-config": text}).problems
    assert str(problem).startswith("colocation-config: metricMemoryCollectPolicy: ")
    assert str(problem).endswith("is not one of usageWithoutPageCache, usageWithHotPageCache, usageWithPageCache")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param('"metricReportIntervalSeconds": 900', "metricReportIntervalSeconds", id="of-the-cluster"),
        pytest.param('"degradeTimeMinutes": 1', "metricReportIntervalSeconds", id="by-the-default-of-the-other"),
        pytest.param(
            '"nodeConfigs": [{"name": "slow", "nodeSelector": {"matchLabels": {"a": "b"}}, '
            '"metricReportIntervalSeconds": 3600}]',
            "nodeConfig slow: metricReportIntervalSeconds",
            id="of-a-node-config",
        ),
        pytest.param(
            '"degradeTimeMinutes": 1, "nodeConfigs": [{"name": "a", "nodeSelector": {"matchLabels": {"a": "b"}}}]',
            "metricReportIntervalSeconds",
            id="once-for-the-cluster-and-all-its-node-configs",
        ),
        pytest.param('"metricReportIntervalSeconds": 899', None, id="just-in-time"),
    ],
)
def test_reports_that_come_later_than_they_are_believed_are_told(fields, path):
    """Each report would be stale before the next one, and batch resources come and go."""
    found = read_slo_configuration({"colocation-config": f'{{"enable": true, {fields}}}'})
    assert [str(each).startswith(f"colocation-config: {path}: ") for each in found.problems] == [True] * bool(path)
    assert all(each.is_warning for each in found.problems)
    assert found.colocation.cluster["enable"]
