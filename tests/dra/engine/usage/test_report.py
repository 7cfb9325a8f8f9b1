from functools import partial

import pytest

from dra.api.colocation.strategies import SuppressPolicy
from dra.engine.suppression.decide import Suppression
from dra.engine.usage.history import UsageHistory
from dra.engine.usage.report import CollectPolicy, ReportedPod, make_report
from dra.engine.usage.samples import GpuProcessUse, GpuReading
from tests.dra.engine.usage.readings import GIB, node, pressure, round_at

POLICY = CollectPolicy()
WEB = ReportedPod(namespace="default", name="web", uid="web", priority="koord-prod", qos="LS")
JOB = ReportedPod(namespace="batch", name="job", uid="job", priority="koord-batch", qos="BE")
PLAIN = ReportedPod(namespace="default", name="plain", uid="plain", priority="", qos="")


def use_of(seconds, *, pods=None, node_milli=2000, start=1):
    """A node that has used CPUs evenly, sampled each second, and its pods each ten."""
    usage = UsageHistory(node_seconds=1800.0, pod_seconds=300.0)
    pods = {"web": 1000} if pods is None else pods
    for at in range(start, start + seconds + 1):
        usage.observe_node(node(at, busy=at * node_milli / 10, used_bytes=4 * GIB))
        if at % 10 == 1:
            usage.observe_round(round_at(at, node_milli=node_milli, used_bytes=4 * GIB, pods=pods), known=pods)
    return usage


def report(usage, *pods, policy=POLICY, now):
    return make_report(usage, pods, policy, now=float(now), update_time="2026-11-28T08:00:00Z")


def test_a_report_has_averages_of_node_system_and_pods_in_milli_cpus_and_bytes():
    found = report(use_of(600, pods={"web": 1000, "job": 300}), WEB, JOB, now=601)
    assert found["updateTime"] == "2026-11-28T08:00:00Z"
    metric = found["nodeMetric"]
    assert metric["nodeUsage"]["resources"] == {"cpu": "2000m", "memory": str(4 * GIB)}
    assert metric["systemUsage"]["resources"] == {"cpu": "700m", "memory": str(4 * GIB - GIB // 2)}
    assert found["podsMetric"] == [
        {
            "namespace": "batch",
            "name": "job",
            "uid": "job",
            "priority": "koord-batch",
            "qos": "BE",
            "podUsage": {"resources": {"cpu": "300m", "memory": str(GIB // 4)}},
        },
        {
            "namespace": "default",
            "name": "web",
            "uid": "web",
            "priority": "koord-prod",
            "qos": "LS",
            "podUsage": {"resources": {"cpu": "1000m", "memory": str(GIB // 4)}},
        },
    ]


def test_percentiles_are_told_of_the_windows_that_are_covered_by_half_and_include_the_average():
    found = report(use_of(600), now=601)["nodeMetric"]["aggregatedNodeUsages"]
    assert [each["duration"] for each in found] == ["5m0s", "10m0s"]
    resources = {"resources": {"cpu": "2000m", "memory": str(4 * GIB)}}
    assert found[0]["usage"] == dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), resources)


@pytest.mark.parametrize(
    ("seconds", "reported"), [pytest.param(149, False, id="149-s"), pytest.param(170, True, id="170-s")]
)
def test_after_a_restart_nothing_is_reported_before_half_of_the_window_is_sampled(seconds, reported):
    assert (report(use_of(seconds), now=seconds + 1) is not None) == reported


def test_once_samples_have_stopped_nothing_is_reported():
    usage = use_of(600)
    assert report(usage, now=601 + 30) is not None
    assert report(usage, now=601 + 31) is None


def test_without_samples_of_pods_there_is_no_system_and_so_no_report():
    """An absent systemUsage would be read as 0: all that the system uses would be offered to batch pods."""
    usage = UsageHistory(node_seconds=1800.0, pod_seconds=300.0)
    for at in range(1, 602):
        usage.observe_node(node(at, busy=at))
    assert report(usage, now=601) is None


def test_a_young_pod_is_left_out_so_that_its_request_counts():
    usage = use_of(600)
    for at in range(611, 681, 10):
        usage.observe_node(node(at, busy=at * 200))
        usage.observe_round(round_at(at, node_milli=2000, pods={"job": 300}), known=["job"])
        found = report(usage, JOB, now=at)["podsMetric"]
        assert bool(found) == (at >= 681)
    usage.observe_node(node(681, busy=681 * 200))
    usage.observe_round(round_at(681, node_milli=2000, pods={"job": 300}), known=["job"])
    assert len(report(usage, JOB, now=681)["podsMetric"]) == 1


def test_pressure_is_that_of_the_pods_own_cgroup_and_absent_where_there_is_none():
    usage = use_of(600, pods={"web": 1000, "job": 300})
    usage.pods["web"].pressure = pressure(77)
    job, web = report(usage, WEB, JOB, now=601)["podsMetric"]
    assert "psi" not in job
    assert web["psi"] == {"cpu": {"some": {"avg10": 1.0, "avg60": 2.0, "avg300": 3.0, "total": 77}}}


def test_a_pod_without_classes_has_none_in_the_report():
    (found,) = report(use_of(600, pods={"plain": 1}), PLAIN, now=601)["podsMetric"]
    assert found.keys() == {"namespace", "name", "uid", "podUsage"}


def test_a_pod_that_was_not_sampled_is_absent_not_zero():
    assert report(use_of(600), JOB, now=601)["podsMetric"] == []


def test_gpus_are_devices_of_the_node_and_of_the_pods_that_use_them():
    usage = use_of(600)
    use = GpuProcessUse(utilization_percent=20.0, memory_bytes=GIB)
    read = partial(GpuReading, uuid="GPU-0", minor=0, memory_total_bytes=16 * GIB, pods={"web": use})
    usage.observe_gpus(590.0, [read(utilization_percent=40.0, memory_used_bytes=2 * GIB)])
    usage.observe_gpus(600.0, [read(utilization_percent=60.0, memory_used_bytes=6 * GIB)])
    found = report(usage, WEB, now=601)
    assert found["nodeMetric"]["nodeUsage"]["devices"] == [
        {
            "type": "gpu",
            "id": "GPU-0",
            "minor": 0,
            "resources": {
                "koordinator.sh/gpu-core": "50",
                "koordinator.sh/gpu-memory": str(4 * GIB),
                "koordinator.sh/gpu-memory-ratio": "25",
            },
        }
    ]
    assert found["podsMetric"][0]["podUsage"]["devices"][0]["resources"]["koordinator.sh/gpu-core"] == "20"


def test_gpus_that_are_gone_are_taken_out_of_the_status():
    """A merge patch keeps a field that it does not name."""
    assert report(use_of(600), now=601)["nodeMetric"]["nodeUsage"]["devices"] is None


def test_a_shorter_window_and_interval_are_those_of_the_policy():
    policy = CollectPolicy(aggregate_seconds=60.0, report_seconds=10.0, percentile_seconds=(30.0,))
    found = report(use_of(61), WEB, policy=policy, now=62)
    assert [each["duration"] for each in found["nodeMetric"]["aggregatedNodeUsages"]] == ["30s"]
    assert len(found["podsMetric"]) == 1


@pytest.mark.parametrize(
    ("suppression", "told"),
    [
        pytest.param(Suppression(), None, id="nobody-is-held-back"),
        pytest.param(
            Suppression(policy=SuppressPolicy.CFS_QUOTA, budget_milli=20, at_floor=True),
            {"policy": "cfsQuota", "cpu": "20m", "atFloor": True},
            id="at-the-floor",
        ),
        pytest.param(Suppression(policy=SuppressPolicy.CPUSET), None, id="as-before-without-a-sample"),
    ],
)
def test_a_report_says_how_far_batch_pods_are_held_back(suppression, told):
    usage = use_of(160)
    status = make_report(usage, [], POLICY, now=160.0, update_time="2026-11-28T08:00:00Z", suppression=suppression)
    assert status["suppression"] == told
