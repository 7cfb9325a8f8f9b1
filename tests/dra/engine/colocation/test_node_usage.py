import msgspec
import pytest

from dra.engine.colocation.node_usage import node_usage
from dra.model.node_metrics import NodeMetric
from tests.violations import for_each_case


def usage(*, pod=None, **status):
    content = {"updateTime": "2026-11-28T08:00:00Z", "nodeMetric": {}, "podsMetric": [pod or {}], **status}
    return node_usage(msgspec.convert({"metadata": {"name": "n1"}, "status": content}, NodeMetric))


@for_each_case(
    [
        pytest.param({"cpu": {"some": {"avg10": 90.0, "avg60": 12.5}}}, 12.5, id="of-the-last-minute"),
        pytest.param({"cpu": {"some": {"avg60": 12}}}, 12.0, id="a-whole-number"),
        pytest.param(None, None, id="a-kernel-without-PSI"),
        pytest.param({}, None, id="empty"),
        pytest.param({"cpu": {"some": 12}}, None, id="no-object"),
        pytest.param({"cpu": {"some": {"avg60": "12"}}}, None, id="a-text"),
        pytest.param({"cpu": {"some": {"avg60": True}}}, None, id="a-boolean"),
        pytest.param({"cpu": {"some": {"avg60": -1}}}, None, id="negative"),
        pytest.param({"cpu": {"some": {"avg60": 1e300}}}, None, id="more-than-100"),
    ]
)
def test_pressure_of_a_pod_is_a_percentage_or_unknown(psi, percent):
    assert usage(pod={"psi": psi} if psi is not None else {}).pods[0].cpu_pressure_percent == percent


@pytest.mark.parametrize(
    ("status", "at_floor"),
    [
        pytest.param({}, False, id="older-agents-and-others-do-not-tell"),
        pytest.param({"suppression": {"policy": "cpuset", "cpu": "2", "atFloor": True}}, True, id="at-the-floor"),
        pytest.param({"suppression": {"policy": "cpuset", "cpu": "9", "atFloor": False}}, False, id="held-back"),
        pytest.param({"suppression": {"later": "field"}}, False, id="of-a-later-agent"),
    ],
)
def test_batch_pods_are_at_their_floor_if_the_report_says_so(status, at_floor):
    assert usage(**status).batch_at_floor == at_floor
