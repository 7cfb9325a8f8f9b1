"""The strategy of one node: ConfigMap, annotation and labels, and where each field is from."""

import json

import pytest

from dra.api.colocation.node_strategy import node_strategy, ratio_percent
from dra.api.colocation.slo_configuration import read_slo_configuration
from tests.violations import for_each_case

ANNOTATION = "node.koordinator.sh/colocation-strategy"
CPU, MEMORY = (f"node.koordinator.sh/{name}-reclaim-ratio" for name in ("cpu", "memory"))
CONFIG = {
    "enable": True,
    "cpuReclaimThresholdPercent": 60,
    "nodeConfigs": [
        {"name": "x", "nodeSelector": {"matchLabels": {"x": "1"}}, "cpuReclaimThresholdPercent": 70},
        {"name": "x+y", "nodeSelector": {"matchLabels": {"x": "1", "y": "1"}}, "cpuReclaimThresholdPercent": 80},
    ],
}
CONFIGURATION = read_slo_configuration({"colocation-config": json.dumps(CONFIG)})


def of(labels=None, annotation=None):
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    return node_strategy(CONFIGURATION, labels=labels or {}, annotations=annotations)


def test_trap_vector_7_the_first_of_two_that_match_counts_and_the_next_node_is_not_changed_by_it():
    both = of({"x": "1", "y": "1"})
    assert (both.strategy.cpu_reclaim_threshold_percent, both.matching) == (70, ("nodeConfig x", "nodeConfig x+y"))
    assert of().strategy.cpu_reclaim_threshold_percent == 60
    assert of().matching == ()


@pytest.mark.parametrize(
    ("labels", "annotation", "percent", "source"),
    [
        pytest.param({}, None, 60, "cluster", id="cluster"),
        pytest.param({"x": "1"}, None, 70, "nodeConfig x", id="node-config"),
        pytest.param({"x": "1"}, '{"cpuReclaimThresholdPercent": 75}', 75, f"annotation {ANNOTATION}", id="annotation"),
        pytest.param(
            {"x": "1", CPU: "0.8"},
            '{"cpuReclaimThresholdPercent": 75}',
            80,
            f"label {CPU}",
            id="vector-8-label-over-annotation-over-node-config-over-cluster",
        ),
    ],
)
def test_the_highest_layer_wins_and_is_named(labels, annotation, percent, source):
    found = of(labels, annotation)
    assert found.strategy.cpu_reclaim_threshold_percent == percent
    assert found.sources()["cpuReclaimThresholdPercent"] == source
    assert found.sources()["degradeTimeMinutes"] == "default"
    assert found.problems == ()


@for_each_case(
    [
        pytest.param("0.8", 80, id="vector-8"),
        pytest.param("0.29", 29, id="no-binary-fraction-29"),
        pytest.param("0.57", 57, id="no-binary-fraction-57"),
        pytest.param("0.58", 58, id="no-binary-fraction-58"),
        pytest.param("1.15", 115, id="no-binary-fraction-115"),
        pytest.param("0.999", 99, id="cut-to-whole-percent"),
        pytest.param("0", 0, id="zero"),
        pytest.param("1.", 100, id="a-point-at-the-end"),
        pytest.param(".5", 50, id="a-point-at-the-start"),
        pytest.param("5e-1", 50, id="an-exponent"),
        pytest.param("+0.5", 50, id="a-plus"),
    ]
)
def test_ratios_are_decimals(text, percent):
    assert ratio_percent(text) == percent


@for_each_case(
    ["NaN", "Inf", "-0.1", "80%", "", "0,8", "0x1p-1", "1_0", " 0.8", "1e99", "9" * 63, "\u0660.\u0668", "true"]
)
def test_a_label_that_is_no_ratio_is_told_and_the_layer_below_holds(text):
    found = of({"x": "1", CPU: text, MEMORY: "0.5"})
    assert found.strategy.cpu_reclaim_threshold_percent == 70
    assert found.strategy.memory_reclaim_threshold_percent == 50
    (problem,) = found.problems
    assert problem.startswith(f"label {CPU}: ")
    assert "is not a ratio, for example 0.8" in problem


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no-json"),
        pytest.param("75", id="a-number"),
        pytest.param('{"cpuReclaimThresholdPercent": -1}', id="out-of-range"),
        pytest.param('{"enable": false, "degradeTimeMinutes": "5"}', id="one-wrong-field-of-two"),
    ],
)
def test_an_annotation_with_an_error_is_left_out_as_a_whole_and_told(text):
    found = of({}, text)
    assert found.strategy == of().strategy
    (problem,) = found.problems
    assert problem.startswith(f"annotation {ANNOTATION}: ")


def test_an_unknown_field_of_an_annotation_is_told_and_the_rest_counts():
    found = of({}, '{"enable": false, "memoryReclaimThreshold": 3}')
    assert found.strategy.enable is False
    assert "do you mean memoryReclaimThresholdPercent?" in found.problems[0]
