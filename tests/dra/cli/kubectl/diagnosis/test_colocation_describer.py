"""``kubectl dra explain node``: the sum line by line, and what a reader at night needs beside it."""

import json

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.bundle_file import read_bundle, write_bundle
from tests.dra.engine.diagnosis.colocated import GIB, at, busy, config, metric, node, pod, pod_metric, snapshot


@pytest.fixture
def explain(tmp_path):
    """Run ``explain`` on a bundle of a cluster with one busy node, unless parts are given."""

    def run(arguments="node n1", *, exit_code=0, **parts):
        write_bundle(snapshot(**(busy() | parts)), tmp_path / "b.tgz")
        done = CliRunner().invoke(main, ["explain", *arguments.split(), "--from", str(tmp_path / "b.tgz")])
        assert done.exit_code == exit_code, done.output
        return done.stdout

    return run


def test_the_sum_is_shown_line_by_line(explain):
    settled = [node(batch=(4900, 28561532519))]
    assert (
        explain(nodes=settled)
        == """\
node n1: Ready; 0 devices of its own, 0 held
  uses      6000m of 16000m CPU, 20480Mi of 65536Mi memory, reported 35s ago; pods request 7000m and 18432Mi
  strategy  enable true (cluster); cpuReclaimThresholdPercent 65 (cluster); else defaults
  batch     batch-cpu: 4900m offered, 3000m held by 2 batch pods, 1900m left
  capacity     16000m
  - margin      5600m  65 % may be used (cpuReclaimThresholdPercent: cluster)
  - system       500m  used outside of pods
  - used        4000m  used by pods of higher classes than batch
  - request     1000m  requested by 1 pod that no report has yet: ml/web-1
  = sum         4900m
  batch     batch-memory: 27238Mi offered, 3072Mi held by 2 batch pods, 24166Mi left
  capacity    65536Mi
  - margin    22937Mi  65 % may be used (memoryReclaimThresholdPercent: default)
  - system     1024Mi  used outside of pods
  - used      12288Mi  used by pods of higher classes than batch
  - request    2048Mi  requested by 1 pod that no report has yet: ml/web-1
  = sum       27238Mi
"""
    )


def test_a_slow_batch_pod_leads_to_its_node(explain):
    lines = ("  batch     runs on what other pods do not use, and", "  next      kubectl dra explain node n1")
    started = [pod("train-0", batch_cpu=1000), pod("web-0", cpu="6")]
    for each in started:
        each["status"]["conditions"] = [{"type": "PodReadyToStartContainers", "status": "True"}]
    assert all(line in explain("pod train-0 -n ml", pods=started) for line in lines)
    assert not any(line in explain("pod web-0 -n ml", pods=started) for line in lines)


def test_batch_pods_that_get_less_than_they_hold_are_seen(explain):
    reports = [pod_metric("train-0", "4m", "1Gi", uid="uid-train-0"), pod_metric("train-1", "6m", "1Gi")]
    assert "3000m held by 2 batch pods that use 10m, " in explain(metrics=[metric("n1", *reports)])
    old = metric("n1", *reports, updated=at(hours=1))
    another = metric("n1", reports[1], reports[0] | {"uid": "of-the-pod-before"})
    for unknown in (old, another):
        assert "3000m held by 2 batch pods, " in explain(metrics=[unknown])
    one = {"pods": [pod("train-0", batch_cpu=1000)], "metrics": [metric("n1", reports[0])]}
    assert "1000m held by 1 batch pod that uses 4m, " in explain(**one)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        pytest.param(
            {}, "differs   8000m is offered until the controller writes 4900m, within a minute", id="a-write-is-due"
        ),
        pytest.param(
            {"nodes": [node(batch=(5000, 16 * GIB))]},
            "differs   5000m is offered: a change of at most 10 % (resourceDiffThreshold: default) waits for 300 s",
            id="threshold-not-passed",
        ),
        pytest.param(
            {"metrics": [metric("n1", pod_metric("web-0", "9", "12Gi"))]},
            "= sum            0m  less than batch pods hold, so 3000m is offered",
            id="floor",
        ),
        pytest.param(
            {"metrics": [metric(updated=at(hours=2))]},
            "= sum         3000m  the report of what the node uses is too old, so no more is offered",
            id="stale",
        ),
        pytest.param(
            {"config_map": config({"enable": False})},
            "= sum         3000m  colocation is off for this node (enable: cluster), so no more is offered",
            id="off",
        ),
        pytest.param(
            {"config_map": None}, "slo-controller-config does not exist: colocation is off", id="no-config-map"
        ),
        pytest.param(
            {"config_map": config("{")}, "ColocationConfigInvalid: configmap koordinator-system/", id="broken"
        ),
        pytest.param(
            {"nodes": [node(labels={"node.koordinator.sh/cpu-reclaim-ratio": "0.8"})]},
            "3200m  80 % may be used (cpuReclaimThresholdPercent: label node.koordinator.sh/cpu-reclaim-ratio)",
            id="ratio-of-a-label",
        ),
        pytest.param(
            {
                "nodes": [
                    node(annotations={"node.koordinator.sh/colocation-strategy": '{"cpuReclaimThresholdPercent": 75}'})
                ]
            },
            "cpuReclaimThresholdPercent 75 (annotation node.koordinator.sh/colocation-strategy)",
            id="ratio-of-an-annotation",
        ),
        pytest.param(
            {"nodes": [node(annotations={"node.koordinator.sh/reservation": '{"resources": {"cpu": "2"}}'})]},
            "2000m  reserved: 2000m by annotation node.koordinator.sh/reservation; what runs outside of pods uses 500m",
            id="more-reserved-than-the-system-uses",
        ),
        pytest.param(
            {"metrics": [], "gaps": ["nodemetrics.slo.koordinator.sh"]},
            "uses      unknown: NodeMetrics cannot be read",
            id="no-right",
        ),
        pytest.param(
            {"metrics": [metric(updated=at(minutes=-5))]},
            "which is to come: the clock of the node is ahead",
            id="clock-ahead",
        ),
    ],
)
def test_why_another_amount_is_offered(explain, parts, line):
    assert line in explain(**parts)


def test_a_node_without_colocation_has_no_such_line(explain):
    assert explain(nodes=[node(batch=None)], metrics=None, config_map=None, pods=[]) == (
        "node n1: Ready; 0 devices of its own, 0 held\n"
    )


def test_as_data_each_term_is_a_number(explain):
    found = json.loads(explain("node n1 -o json"))["colocation"]
    assert found["strategy"]["cpuReclaimThresholdPercent"] == {"value": "65", "from": "cluster"}
    assert {
        key: found["sum"]["cpu"][key] for key in ("capacity", "margin", "system", "used", "requested", "computed")
    } == {
        "capacity": 16000,
        "margin": 5600,
        "system": 500,
        "used": 4000,
        "requested": 1000,
        "computed": 4900,
    }
    assert found["use"]["cpu"]["held"] == 3000


def test_a_batch_pod_that_waits_is_led_to_the_node(explain):
    waiting = pod("late", on="", phase="Pending", batch_cpu=7000)
    text = explain("pod late -n ml", exit_code=1, pods=[*busy()["pods"], waiting])
    assert "kubernetes.io/batch-cpu: 7000 requested, 5000 of 8000 free" in text
    assert "  next      kubectl dra explain node n1\n" in text


def test_a_batch_pod_that_a_kubelet_refused_is_told_what_to_do(explain):
    refused = pod("late", phase="Failed", batch_cpu=900)
    refused["status"] |= {
        "reason": "OutOfkubernetes.io/batch-cpu",
        "message": "requested: 900, used: 1000, capacity: 1500",
    }
    text = explain("pod late -n ml", exit_code=1, pods=[refused])
    assert "was refused by the kubelet of node n1 (requested: 900, used: 1000, capacity: 1500)" in text
    assert "create the pod again: it has no controller" in text


def test_a_bundle_keeps_what_strategies_and_sums_are_made_of_and_no_other_key(explain, tmp_path):
    explain(config_map=config(other="secret"))
    found = read_bundle(tmp_path / "b.tgz")
    assert list(found.colocation_config.data) == ["colocation-config"]
    assert found.node_metrics[0].status.pods_metric[0].name == "web-0"
