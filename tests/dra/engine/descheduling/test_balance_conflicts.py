"""Balance plugins that undo each other's work are told of; plugins that do not are not."""

import pytest

from dra.api.descheduler.load_plugin_args import HighNodeUtilizationArgs, LowNodeLoadArgs, LowNodeUtilizationArgs
from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.balance_conflicts import conflicts
from tests.violations import for_each_case


def low(cpu, target, **more):
    fields = {"thresholds": {"cpu": cpu}, "targetThresholds": {"cpu": target}, **more}
    return ("LowNodeUtilization", LowNodeUtilizationArgs.model_validate(fields))


def load(cpu, target):
    fields = {"lowThresholds": {"cpu": cpu}, "highThresholds": {"cpu": target}}
    return ("LowNodeLoad", LowNodeLoadArgs.model_validate(fields))


def high(**thresholds):
    return ("HighNodeUtilization", HighNodeUtilizationArgs.model_validate({"thresholds": thresholds}))


OTHER = ("RemoveDuplicates", PluginArgs())


@for_each_case(
    [
        pytest.param([low(20, 50)], "", id="alone"),
        pytest.param([low(20, 50), OTHER], "", id="beside-a-plugin-without-thresholds"),
        pytest.param(
            [low(20, 70), high(cpu=30)],
            "profiles[0]: LowNodeUtilization fills nodes with little cpu, as are emptied by HighNodeUtilization "
            "(profiles[1]); disable one of both",
            id="low-beside-high",
        ),
        pytest.param([low(20, 70), high(memory=30)], "", id="of-different-resources"),
        pytest.param(
            [low(20, 70), load(20, 50)],
            "profiles[0]: LowNodeUtilization fills nodes up to 70 % of cpu, and above 50 % pods are evicted by "
            "LowNodeLoad (profiles[1]); disable one of both",
            id="the-one-fills-above-the-threshold-of-the-other",
        ),
        pytest.param([low(20, 50), load(20, 50)], "", id="equal-bands"),
        pytest.param([low(5, 5, useDeviationThresholds=True), load(20, 50)], "", id="deviation-says-no-percentage"),
        pytest.param([high(cpu=20), high(cpu=30)], "", id="both-empty"),
    ]
)
def test_pairs_of_balance_plugins(enabled, text):
    entries = [(("profiles", index), name, args) for index, (name, args) in enumerate(enabled)]
    assert list(conflicts(entries)) == ([text] if text else [])
