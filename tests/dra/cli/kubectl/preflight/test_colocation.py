"""The check of colocation: installed or not, off, broken, on."""

import pytest

from dra.api.colocation.slo_configuration import read_slo_configuration
from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.preflight.colocation import ColocationInstallation, judge_installation
from tests.violations import for_each_case

BROKEN = read_slo_configuration({"colocation-config": '{"enable": 1, "nodeConfigs": [{"name": "gpu"}]}'})
MANY = read_slo_configuration({"colocation-config": '{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}'})


@for_each_case(
    [
        pytest.param({}, CheckState.OK, "not installed (the default)", id="not-installed"),
        pytest.param({"is_served": True}, CheckState.OK, "installed, and off", id="no-config-map"),
        pytest.param({"is_configured": True}, CheckState.WARNING, "NodeMetrics are not served", id="half-installed"),
        pytest.param(
            {"is_served": True, "is_configured": True, "nodes": 5, "enabled_nodes": 3},
            CheckState.OK,
            "on for 3 of 5 nodes",
            id="on-for-some",
        ),
        pytest.param(
            {"is_served": True, "is_configured": True, "configuration": BROKEN},
            CheckState.WARNING,
            "colocation-config: enable: 1 is not true or false; colocation-config: nodeConfig gpu: nodeSelector: ",
            id="errors-name-key-and-node-config",
        ),
        pytest.param(
            {"is_served": True, "is_configured": True, "configuration": MANY},
            CheckState.WARNING,
            "; and 2 more",
            id="many-errors-are-cut",
        ),
        pytest.param({"is_served": True, "unread": "no right"}, CheckState.UNKNOWN, "no right", id="no-right"),
        pytest.param({"unread": "no right"}, CheckState.OK, "not installed", id="no-right-and-nothing-to-read"),
    ]
)
def test_the_check(found, state, said):
    result = judge_installation(ColocationInstallation(**found))
    assert result.state is state
    assert said in result.detail
