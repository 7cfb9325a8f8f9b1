"""Tolerations match taints as core/v1 ``Toleration.ToleratesTaint`` does."""

import pytest

from dra.model.nodes import Taint
from dra.model.scheduling import Toleration
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param({"key": "foo", "operator": "Exists"}, {"key": "foo"}, True, id="exists-and-no-value"),
        pytest.param(
            {"key": "foo", "operator": "Exists"}, {"key": "foo", "value": "bar"}, True, id="exists-and-a-value"
        ),
        pytest.param({"operator": "Exists"}, {"key": "foo", "value": "bar"}, True, id="exists-without-a-key"),
        pytest.param({"key": "foo", "value": "bar"}, {"key": "foo", "value": "bar"}, True, id="equal"),
        pytest.param({"key": "foo", "value": "1"}, {"key": "foo", "value": "2"}, False, id="another-value"),
        pytest.param({"key": "a", "value": "1"}, {"key": "b", "value": "1"}, False, id="another-key"),
        pytest.param({"key": "foo", "effect": "NoSchedule"}, {"key": "foo"}, False, id="another-effect"),
        pytest.param(
            {"key": "sla", "operator": "Gt", "value": "900"}, {"key": "sla", "value": "950"}, True, id="greater"
        ),
        pytest.param(
            {"key": "sla", "operator": "Gt", "value": "950"}, {"key": "sla", "value": "950"}, False, id="not-gt"
        ),
        pytest.param({"key": "sla", "operator": "Lt", "value": "990"}, {"key": "sla", "value": "950"}, True, id="less"),
        pytest.param(
            {"key": "sla", "operator": "Lt", "value": "950"}, {"key": "sla", "value": "950"}, False, id="not-lt"
        ),
        pytest.param(
            {"key": "sla", "operator": "Lt", "value": "9"}, {"key": "sla", "value": "10"}, False, id="as-numbers"
        ),
        pytest.param(
            {"key": "sla", "operator": "Gt", "value": "x"}, {"key": "sla", "value": "1"}, False, id="no-number"
        ),
        pytest.param({"key": "sla", "operator": "Gt", "value": "1"}, {"key": "sla"}, False, id="taint-without-a-value"),
        pytest.param(
            {"key": "a", "operator": "Gt", "value": "1"}, {"key": "b", "value": "2"}, False, id="gt-of-another-key"
        ),
    ],
)
def test_a_toleration_matches_a_taint(toleration, taint, tolerated):
    assert Toleration(**toleration).tolerates(Taint(**{"effect": "NoExecute"} | taint)) is tolerated
