"""Strategies of v1alpha1 become profiles that are valid and say the same."""

import pytest

from dra.api.descheduler.forms import read_configuration
from dra.api.descheduler.problems import MalformedDeschedulerConfigurationError
from dra.api.descheduler.strategies import translate
from dra.engine.descheduling.profiles import compile_descheduling

OLD = {
    "apiVersion": "descheduler/v1alpha1",
    "kind": "DeschedulerPolicy",
    "maxNoOfPodsToEvictPerNode": 5,
    "evictLocalStoragePods": True,
    "strategies": {
        "RemoveDuplicates": {"enabled": True, "params": {"removeDuplicates": {"excludeOwnerKinds": ["Job"]}}},
        "PodLifeTime": {
            "enabled": True,
            "params": {"podLifeTime": {"maxPodLifeTimeSeconds": 60, "podStatusPhases": ["Pending"]}},
        },
        "RemovePodsViolatingTopologySpreadConstraint": {"enabled": True, "params": {"includeSoftConstraints": True}},
        "LowNodeUtilization": {
            "enabled": True,
            "params": {
                "nodeFit": True,
                "thresholdPriority": 100,
                "nodeResourceUtilizationThresholds": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
            },
        },
        "RemovePodsViolatingNodeTaints": {"enabled": False},
    },
}


def test_a_proposal_is_a_policy_that_compiles():
    descheduling = compile_descheduling(read_configuration(translate(OLD)))
    (profile,) = descheduling.profiles
    assert [plugin.name for plugin, _ in profile.deschedule] == ["PodLifeTime"]
    assert [plugin.name for plugin, _ in profile.balance] == [
        "RemoveDuplicates",
        "RemovePodsViolatingTopologySpreadConstraint",
        "LowNodeUtilization",
    ]
    assert descheduling.limits.per_node == 5
    assert profile.requires_place


@pytest.mark.parametrize(
    ("name", "args"),
    [
        pytest.param("PodLifeTime", {"maxPodLifeTimeSeconds": 60, "states": ["Pending"]}, id="phases-are-states"),
        pytest.param("RemoveDuplicates", {"excludeOwnerKinds": ["Job"]}, id="nested"),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            {"constraints": ["DoNotSchedule", "ScheduleAnyway"]},
            id="soft-constraints",
        ),
        pytest.param(
            "DefaultEvictor",
            {"evictLocalStoragePods": True, "nodeFit": True, "priorityThreshold": {"value": 100}},
            id="said-once-for-the-evictor",
        ),
    ],
)
def test_arguments_are_translated(name, args):
    (profile,) = translate(OLD)["profiles"]
    assert {config["name"]: config["args"] for config in profile["pluginConfig"]}[name] == args


@pytest.mark.parametrize("strategies", [None, [], "all", {"RemoveDuplicates": None}, {"RemoveDuplicates": True}])
def test_what_cannot_be_read_is_refused_like_the_rest(strategies):
    with pytest.raises(MalformedDeschedulerConfigurationError) as refused:
        read_configuration({"apiVersion": "descheduler/v1alpha1", "strategies": strategies})
    assert refused.value.proposal["profiles"][0]["plugins"] == {}
