import msgspec
import pytest
from msgspec.structs import replace

from dra.engine.colocation.watched import WatchedNodeMetric, trim_metric
from dra.engine.scheduling.node_loads import LoadPolicy, NodeLoads, filter_nodes, prioritize_nodes
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.scheduling import SchedulerNode, SchedulerPod
from tests.dra.engine.migration.examples import NOW, at

POLICY = LoadPolicy(
    thresholds={"cpu": 65.0, "memory": 95.0},
    weights={"cpu": 1, "memory": 1},
    scaling={"cpu": 50.0, "memory": 100.0},
    expiration=180.0,
)
GIB = 2**30


def pod(name, *, node="", cpu="1", memory="1Gi", owner="ReplicaSet", requests=None):
    asked = {"cpu": cpu, "memory": memory} if requests is None else requests
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}]
    content = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": owners},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": asked}}]},
        "status": {"phase": "Running" if node else "Pending"},
    }
    return msgspec.convert(content, SchedulerPod)


def report(node, *, cpu="0", memory="0", pods=(), age=0.0, **status):
    """Return the NodeMetric of a node: what its system uses, and (pod, CPUs, bytes) of its pods."""
    reported = [
        {"namespace": "ns", "name": name, "uid": uid, "podUsage": {"resources": {"cpu": milli, "memory": used}}}
        for name, uid, milli, used in pods
    ]
    content = {
        "updateTime": at(-age),
        "nodeMetric": {"systemUsage": {"resources": {"cpu": cpu, "memory": memory}}},
        "podsMetric": reported,
        **status,
    }
    metric = msgspec.convert({"metadata": {"name": node}, "status": content}, WatchedNodeMetric)
    trim_metric(metric)
    return metric


@pytest.fixture
def cache():
    filled = SchedulerCache()
    for name in ("a", "b", "c"):
        content = {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
        filled.observe_node(msgspec.convert(content, SchedulerNode))
    return filled


def loads_of(cache, *reports, **policy):
    loads = NodeLoads(cache, replace(POLICY, **policy))
    for metric in reports:
        loads.observe(metric)
    return loads


def passing(loads, asked=None, names=("a", "b", "c")):
    return filter_nodes(loads, asked or pod("new"), names, now=NOW).node_names


@pytest.mark.parametrize(
    ("metric", "passes"),
    [
        pytest.param(report("a", cpu="2600m"), True, id="at-the-threshold"),
        pytest.param(report("a", cpu="2601m"), False, id="above-the-threshold-of-cpu"),
        pytest.param(report("a", memory=str(8 * GIB)), False, id="above-the-threshold-of-memory"),
        pytest.param(report("a", cpu="4", age=180), True, id="expired"),
        pytest.param(report("a", cpu="4", age=179), False, id="not-yet-expired"),
        pytest.param(report("a", cpu="4", age=-61), True, id="from-the-future"),
        pytest.param(report("a", cpu="4", nodeMetric=None), True, id="without-the-use-of-the-system"),
        pytest.param(report("a", cpu="4", updateTime=None), True, id="before-the-first-report"),
        pytest.param(report("other", cpu="4"), True, id="of-another-node"),
    ],
)
def test_a_node_is_refused_only_where_its_load_is_known_to_be_high(cache, metric, passes):
    assert ("a" in passing(loads_of(cache, metric))) == passes
    assert {"b", "c"} <= set(passing(loads_of(cache, metric)))


def test_the_answer_says_why_a_node_is_refused_and_preemption_may_help(cache):
    result = filter_nodes(loads_of(cache, report("a", cpu="3")), pod("new"), ["a", "b"], now=NOW)
    assert result.failed_nodes == {"a": "node(s) cpu usage exceed threshold (75% > 65%)"}
    assert result.failed_and_unresolvable_nodes == {}


def test_pods_of_daemon_sets_are_refused_nowhere(cache):
    assert passing(loads_of(cache, report("a", cpu="4")), pod("new", owner="DaemonSet")) == ["a", "b", "c"]


def test_pods_placed_since_the_report_count_by_a_part_of_their_requests(cache):
    loads = loads_of(cache, report("a", cpu="2"))
    assert "a" in passing(loads)
    cache.observe_pod(pod("since", node="a", cpu="2"))
    assert "a" not in passing(loads), "2 CPUs of the report and half of 2 are 75 %"
    loads.observe(report("a", cpu="2", pods=[("since", "uid-since", "100m", "0")]))
    assert "a" in passing(loads), "the report names the pod by now"


def test_a_binding_that_is_decided_counts_before_it_is_seen(cache):
    loads = loads_of(cache, report("a", cpu="2"))
    assert "a" in passing(loads)
    cache.accounting.assume_pod(cache.pod_info(pod("binding", cpu="2")), "a")
    assert "a" not in passing(loads)


def test_what_has_left_the_node_since_the_report_does_not_count(cache):
    metric = report("a", cpu="1", pods=[("gone", "uid-gone", "3", "0")])
    assert "a" in passing(loads_of(cache, metric))


def test_a_report_without_uids_names_pods_by_namespace_and_name(cache):
    cache.observe_pod(pod("old", node="a", cpu="4"))
    assert "a" in passing(loads_of(cache, report("a", cpu="2", pods=[("old", "", "100m", "0")])))
    other = [("old", "uid-of-another", "100m", "0")]
    assert "a" not in passing(loads_of(cache, report("a", cpu="2", pods=other)))


def test_a_pod_without_requests_counts_a_little(cache):
    loads = loads_of(cache, report("a", cpu="2500m"))
    cache.observe_pod(pod("none", node="a", requests={}))
    assert "a" not in passing(loads)


def test_nodes_with_more_headroom_score_more_and_unknown_ones_nothing(cache):
    metrics = [report("a", cpu="1", memory=str(2 * GIB)), report("b", cpu="3", memory=str(6 * GIB))]
    scores = prioritize_nodes(loads_of(cache, *metrics), pod("new", cpu="2"), ["a", "b", "c"], now=NOW)
    assert [(score.host, score.score) for score in scores] == [("a", 5)]
    scores = prioritize_nodes(loads_of(cache, *metrics, weights={"cpu": 0, "memory": 0}), pod("n"), ["a"], now=NOW)
    assert scores == []


def test_a_forgotten_report_counts_no_longer(cache):
    metric = report("a", cpu="4")
    loads = loads_of(cache, metric)
    assert "a" not in passing(loads)
    loads.forget(metric)
    assert "a" in passing(loads)
