import pytest
from pydantic import ValidationError

from dra.api.descheduler.load_plugin_args import (
    HighNodeUtilizationArgs,
    LowNodeLoadArgs,
    LowNodeUtilizationArgs,
    RemovePodsUnderPressureArgs,
)
from tests.violations import for_each_case

CPU = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
LOAD = {"lowThresholds": {"cpu": 20}, "highThresholds": {"cpu": 50}}
POOL = {"nodeSelector": {"matchLabels": {"a": "b"}}}

ONE_SIDED = "is missing, and {} has it; give both the same resources"


@for_each_case(
    [
        pytest.param(LowNodeUtilizationArgs, {}, "thresholds", id="no-thresholds"),
        pytest.param(LowNodeUtilizationArgs, {"thresholds": {}, "targetThresholds": {}}, "no resource", id="empty"),
        pytest.param(
            LowNodeUtilizationArgs,
            {"thresholds": {"Pods": 20}, "targetThresholds": {"Pods": 50}},
            "'Pods' is no resource, did you mean pods",
            id="a-capital-letter-makes-no-extended-resource",
        ),
        pytest.param(
            LowNodeUtilizationArgs,
            CPU | {"thresholds": {"cpu": 60}},
            "thresholds.cpu: 60 is above",
            id="low-above-high",
        ),
        pytest.param(
            LowNodeUtilizationArgs,
            CPU | {"thresholds": {"cpu": 20, "memory": 20}},
            f"targetThresholds.memory: {ONE_SIDED.format('thresholds')}",
            id="a-threshold-without-its-target",
        ),
        pytest.param(
            LowNodeUtilizationArgs,
            CPU | {"targetThresholds": {"cpu": 50, "memory": 50}},
            f"thresholds.memory: {ONE_SIDED.format('targetThresholds')}",
            id="a-target-without-its-threshold",
        ),
        pytest.param(LowNodeUtilizationArgs, CPU | {"thresholds": {"cpu": 101}}, "less than or equal", id="above-100"),
        pytest.param(LowNodeUtilizationArgs, CPU | {"thresholds": {"cpu": -1}}, "greater than or equal", id="below-0"),
        pytest.param(LowNodeUtilizationArgs, CPU | {"thresholds": {"cpu": "20"}}, "valid number", id="a-text"),
        pytest.param(LowNodeUtilizationArgs, CPU | {"thresholds": {"cpu": True}}, "valid number", id="a-boolean"),
        pytest.param(LowNodeUtilizationArgs, CPU | {"thresholds": {"cpu": float("nan")}}, "", id="not-a-number"),
        pytest.param(LowNodeUtilizationArgs, CPU | {"numberOfNodes": -1}, "numberOfNodes", id="negative-nodes"),
        pytest.param(LowNodeUtilizationArgs, CPU | {"nodeFit": True}, "nodeFit", id="a-field-of-another-plugin"),
        pytest.param(
            LowNodeUtilizationArgs,
            CPU | {"evictableNamespaces": {"include": ["a"]}},
            "include: is not supported here",
            id="namespaces-can-only-be-excluded",
        ),
        pytest.param(
            LowNodeUtilizationArgs, CPU | {"evictionLimits": {"total": 1}}, "evictionLimits.total", id="no-such-limit"
        ),
        pytest.param(
            LowNodeUtilizationArgs,
            CPU | {"metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "q"}}},
            "Prometheus is not supported; use KubernetesMetrics",
            id="Prometheus-knows-no-pods",
        ),
        pytest.param(
            LowNodeUtilizationArgs,
            CPU | {"metricsUtilization": {"source": "KubernetesMetrics", "metricsServer": True}},
            "not both",
            id="two-sources",
        ),
        pytest.param(LowNodeUtilizationArgs, CPU | {"metricsUtilization": {}}, "source: is missing", id="no-source"),
        pytest.param(HighNodeUtilizationArgs, {"thresholds": {}}, "thresholds", id="nothing-to-compact-by"),
        pytest.param(
            HighNodeUtilizationArgs, {"thresholds": {"cpu": 20}, "evictionModes": ["Any"]}, "evictionModes", id="mode"
        ),
        pytest.param(HighNodeUtilizationArgs, CPU, "targetThresholds", id="compaction-has-no-target"),
        pytest.param(LowNodeLoadArgs, {}, "lowThresholds: no resource has a threshold", id="load-without-thresholds"),
        pytest.param(
            LowNodeLoadArgs,
            {"lowThresholds": {"cpu": 30}},
            f"highThresholds.cpu: {ONE_SIDED.format('lowThresholds')}",
            id="47-a-low-without-its-high-would-stand-still",
        ),
        pytest.param(
            LowNodeLoadArgs,
            LOAD | {"highThresholds": {"cpu": 50, "memory": 60}},
            f"lowThresholds.memory: {ONE_SIDED.format('highThresholds')}",
            id="a-high-without-its-low-would-be-100",
        ),
        pytest.param(
            LowNodeLoadArgs,
            LOAD | {"prodLowThresholds": {"cpu": 10}},
            f"prodHighThresholds.cpu: {ONE_SIDED.format('prodLowThresholds')}",
            id="a-prodLow-without-prodHigh-would-leave-no-receivers",
        ),
        pytest.param(
            LowNodeLoadArgs,
            LOAD | {"prodLowThresholds": {"cpu": 10}, "prodHighThresholds": {"cpu": 60}},
            "prodHighThresholds.cpu: 60 is above highThresholds.cpu, 50",
            id="prod-pods-are-a-part-of-all",
        ),
        pytest.param(
            LowNodeLoadArgs, LOAD | {"lowThresholds": {"cpu": 51}}, "lowThresholds.cpu: 51 is above", id="load-crossed"
        ),
        pytest.param(
            LowNodeLoadArgs,
            {"lowThresholds": {"nvidia.com/gpu": 30}, "highThresholds": {"nvidia.com/gpu": 50}},
            "lowThresholds.nvidia.com/gpu: is not measured",
            id="a-resource-that-nobody-measures",
        ),
        pytest.param(
            LowNodeLoadArgs,
            LOAD | {"nodePools": [POOL | {"lowThresholds": {"cpu": 60}}]},
            "nodePools[0].lowThresholds.cpu: 60 is above highThresholds.cpu, 50",
            id="a-pool-that-inherits-the-other-side",
        ),
        pytest.param(LowNodeLoadArgs, LOAD | {"nodePools": [{"name": "a"}]}, "nodeSelector", id="a-pool-of-no-nodes"),
        pytest.param(
            LowNodeLoadArgs,
            LOAD | {"anomalyCondition": {"consecutiveAbnormalities": 0}},
            "consecutiveAbnormalities",
            id="no-abnormality-at-all",
        ),
        pytest.param(LowNodeLoadArgs, LOAD | {"nodeMetricExpirationSeconds": 0}, "greater than 0", id="always-expired"),
        pytest.param(
            LowNodeLoadArgs,
            LOAD | {"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}},
            "not both",
            id="both-lists-of-namespaces",
        ),
        pytest.param(LowNodeLoadArgs, LOAD | {"detectorCacheTimeout": "5"}, "duration", id="a-duration-without-unit"),
        pytest.param(LowNodeLoadArgs, LOAD | {"thresholds": {"cpu": 5}}, "thresholds", id="the-communitys-field"),
        pytest.param(
            RemovePodsUnderPressureArgs,
            {"cpuPressurePercent": 5, "lowPressurePercent": 5},
            "lowPressurePercent: 5 is not below cpuPressurePercent, 5",
            id="a-receiver-would-be-under-pressure",
        ),
        pytest.param(RemovePodsUnderPressureArgs, {"consecutiveReports": 0}, "consecutiveReports", id="no-report"),
        pytest.param(RemovePodsUnderPressureArgs, {"target": "Both"}, "target", id="no-such-target"),
    ],
)
def test_bad_arguments_are_refused_by_their_field(model, content, message):
    with pytest.raises(ValidationError) as refused:
        model.model_validate(content)
    texts = [
        ".".join(map(str, error["loc"])) + ("." if error["loc"] else "") + error["msg"].removeprefix("Value error, ")
        for error in refused.value.errors()
    ]
    assert any(message in text for text in texts), texts


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(LOAD | {"lowThresholds": {"cpu": 60}, "useDeviationThresholds": True}, id="deviations-may-cross"),
        pytest.param({"nodePools": [POOL | LOAD]}, id="thresholds-in-a-pool-alone"),
        pytest.param({"prodLowThresholds": {"cpu": 5}, "prodHighThresholds": {"cpu": 9}}, id="prod-thresholds-alone"),
        pytest.param(LOAD | {"anomalyCondition": {"timeout": "1m", "consecutiveNormalities": 3}}, id="koordinators"),
        pytest.param(LOAD | {"resourceWeights": {"cpu": 0}}, id="a-weight-of-0-means-1"),
    ],
)
def test_arguments_that_are_accepted(content):
    assert LowNodeLoadArgs.model_validate(content)


def test_a_pool_inherits_what_it_does_not_say_and_the_other_nodes_are_the_last_pool():
    args = LowNodeLoadArgs.model_validate(
        LOAD
        | {"nodePools": [POOL | {"highThresholds": {"cpu": 70}}], "anomalyCondition": {"consecutiveAbnormalities": 2}}
    )
    pool, rest = args.effective_pools
    assert (pool.low_thresholds, pool.high_thresholds) == ({"cpu": 20}, {"cpu": 70})
    assert pool.anomaly_condition.consecutive_abnormalities == 2
    assert (rest.node_selector, rest.high_thresholds) == (None, {"cpu": 50})


@pytest.mark.parametrize(
    ("weights", "resource", "weight"),
    [
        pytest.param({}, "cpu", 1, id="cpu"),
        pytest.param({}, "memory", 1, id="memory"),
        pytest.param({}, "pods", 0, id="without-a-threshold"),
        pytest.param({"cpu": 4}, "cpu", 4, id="given"),
        pytest.param({"cpu": 0}, "cpu", 1, id="reset"),
    ],
)
def test_weights(weights, resource, weight):
    args = LowNodeLoadArgs.model_validate(LOAD | {"resourceWeights": weights})
    assert args.effective_pools[0].weight(resource) == weight
