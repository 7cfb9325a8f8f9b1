"""Reports whose pods stay bytes: the same sum, the same bundle, and no more memory than the bytes."""

import msgspec

from dra.engine.diagnosis import colocation
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.node_reports import NodeReport, with_pods
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.node_metrics import NodeMetric
from tests.dra.engine.diagnosis.colocated import NOW, busy, snapshot

RAW = msgspec.json.encode(busy()["metrics"][0])


def test_with_its_pods_a_report_is_the_node_metric():
    assert with_pods(msgspec.json.decode(RAW, type=NodeReport)) == msgspec.json.decode(RAW, type=NodeMetric)


def test_a_node_is_explained_by_its_report():
    report = msgspec.json.decode(RAW, type=NodeReport)
    whole = snapshot(**busy())
    found = ClusterState(msgspec.structs.replace(whole, node_metrics=(report,)))
    expected = ClusterState(whole)
    assert colocation.explain_node(found, found.nodes["n1"], now=NOW) == colocation.explain_node(
        expected, expected.nodes["n1"], now=NOW
    )


def test_a_bundle_has_the_pods_of_a_report():
    report = msgspec.json.decode(RAW, type=NodeReport)
    text = msgspec.json.encode(Snapshot(node_metrics=(report,)))
    assert msgspec.json.decode(text, type=Snapshot).node_metrics == (msgspec.json.decode(RAW, type=NodeMetric),)


def test_a_report_does_not_keep_the_answer_that_it_came_in():
    answer = msgspec.json.encode({"items": [msgspec.Raw(RAW)], "padding": "x" * 10**6})
    (report,) = msgspec.json.decode(answer, type=dict[str, list[NodeReport] | str])["items"]
    assert len(memoryview(report.status.raw_pods).obj) < len(RAW)


def test_a_report_without_pods_and_one_with_broken_pods_raise_nothing():
    empty = msgspec.json.decode(b'{"metadata":{"name":"n1"},"status":{"updateTime":"x"}}', type=NodeReport)
    broken = msgspec.json.decode(
        b'{"metadata":{"name":"n1"},"status":{"updateTime":"x","podsMetric":7}}', type=NodeReport
    )
    assert with_pods(empty).status.pods_metric is None
    assert with_pods(broken).status.node_metric is None
