"""What nodes use, why they offer what they offer, and the problems of colocation."""

import msgspec
import pytest

from dra.engine.diagnosis import colocation, colocation_problems
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.colocation import Sampling
from dra.engine.diagnosis.problem_codes import ProblemCode
from tests.dra.engine.diagnosis.colocated import (
    GIB,
    NOW,
    at,
    busy,
    cluster,
    config,
    metric,
    node,
    pod,
    pod_metric,
    snapshot,
)
from tests.violations import for_each_case

TWO_CONFIGS = {
    "enable": True,
    "nodeConfigs": [
        {"name": "x", "nodeSelector": {"matchLabels": {"x": "1"}}, "cpuReclaimThresholdPercent": 70},
        {"name": "xy", "nodeSelector": {"matchExpressions": [{"key": "y", "operator": "Exists"}]}},
    ],
}


def explained(**parts):
    found = cluster(**parts)
    return colocation.explain_node(found, found.nodes["n1"], now=NOW)


def problems(**parts):
    return [(each.code, each.facts_by_name) for each in audit(cluster(**parts))]


@for_each_case(
    [
        pytest.param([metric(updated=at(minutes=15))], Sampling.FRESH, id="as-old-as-allowed"),
        pytest.param([metric(updated=at(minutes=15, seconds=1))], Sampling.STALE, id="older-than-degradeTimeMinutes"),
        pytest.param([metric(system=None)], Sampling.INCOMPLETE, id="without-the-use-of-the-system-is-not-zero"),
        pytest.param([metric(updated="")], Sampling.NEVER, id="not-reported-yet"),
        pytest.param([metric(updated="yesterday")], Sampling.STALE, id="no-time-at-all"),
        pytest.param([], Sampling.ABSENT, id="no-object"),
        pytest.param(None, Sampling.UNREAD, id="kind-not-served"),
    ]
)
def test_the_state_of_a_report(metrics, state):
    assert explained(**busy(metrics=metrics)).sampled.sampling is state


def test_a_report_of_a_clock_that_runs_ahead_is_told():
    found = explained(**busy(metrics=[metric(updated=at(minutes=-5))])).sampled
    assert (found.sampling, found.is_ahead) == (Sampling.FRESH, True)


def test_use_is_counted_beside_what_is_held():
    cpu, memory = (part := explained(**busy()).use).cpu, part.memory
    assert (cpu.capacity, cpu.used, cpu.requested, cpu.offered, cpu.held, cpu.left) == (
        16000,
        6000,
        7000,
        8000,
        3000,
        5000,
    )
    assert (memory.used, memory.offered, memory.held) == (20 * GIB, 16 * GIB, 3 * GIB)


def test_requests_without_a_report_are_a_line_of_their_own():
    found = explained(**busy()).total
    assert (found.cpu.used, found.cpu.requested, found.without_report_names) == (4000, 1000, ("ml/web-1",))
    assert found.cpu.computed == 16000 - 5600 - 500 - 4000 - 1000


@pytest.mark.parametrize(
    "gap",
    [
        "pods",
        "pods of other namespaces",
        "nodemetrics.slo.koordinator.sh",
        "configmaps koordinator-system/slo-controller-config",
    ],
)
def test_without_a_right_nothing_is_computed_that_needs_it(gap):
    assert explained(**busy(gaps=[gap])).total is None


def test_a_number_that_is_not_known_is_not_zero():
    found = explained(**busy(gaps=["pods of other namespaces"])).use
    assert (found.cpu.requested, found.cpu.held, found.cpu.left, found.batch_pods) == (None, None, None, None)


@pytest.mark.parametrize("amount", ["-1", "1e300", "much"])
def test_an_impossible_amount_of_a_report_is_not_known(amount):
    report = metric()
    report["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = amount
    assert explained(**busy(metrics=[report])).use.cpu.used is None


def test_the_first_of_two_node_configs_counts_and_both_are_told():
    parts = busy(nodes=[node(labels={"x": "1", "y": "1"})], config_map=config(TWO_CONFIGS))
    found = explained(**parts).strategy
    assert found.strategy.cpu_reclaim_threshold_percent == 70
    assert found.sources()["cpuReclaimThresholdPercent"] == "nodeConfig x"
    ((code, facts),) = problems(**parts)
    assert (code, facts["configs"], facts["part"], facts["count"]) == (
        ProblemCode.NODE_CONFIGS_OVERLAP,
        "nodeConfig x, nodeConfig xy",
        "colocation-config",
        1,
    )


def test_node_configs_that_select_different_nodes_are_no_problem():
    parts = busy(
        nodes=[node(labels={"x": "1"}), node("n2", labels={"y": "1"}, batch=None)], config_map=config(TWO_CONFIGS)
    )
    assert [code for code, _ in problems(**parts | {"metrics": [metric(), metric("n2")]})] == []


def test_a_stale_report_is_a_problem_of_a_node_with_colocation_only():
    old = busy(metrics=[metric(updated=at(hours=2))])
    ((code, facts),) = problems(**old)
    assert (code, facts["state"], facts["held"]) == (
        ProblemCode.NOT_SAMPLED,
        "its NodeMetric was last reported at 2026-11-28T10:00:00Z",
        2,
    )
    assert problems(**old | {"config_map": config({"enable": False})}) == []


def test_a_node_that_has_just_come_is_no_problem():
    young = {"creationTimestamp": at(minutes=2)}
    assert problems(**busy(nodes=[node(**young)], metrics=[])) == []
    assert problems(**busy(metrics=[metric(updated="", **young)])) == []


def test_less_offered_than_held_is_a_problem_though_colocation_is_off():
    off = config({"enable": False})
    ((code, facts),) = problems(**busy(nodes=[node(batch=(2000, 16 * GIB))], config_map=off))
    assert (code, facts["amounts"]) == (ProblemCode.BATCH_BELOW_HELD, "batch-cpu 2000 of 3000")


def test_a_pod_that_no_kubelet_has_seen_and_that_asks_for_more_than_is_offered_holds_nothing():
    greedy = pod("greedy", started=False, phase="Pending", batch_cpu=10**9)
    found = explained(**busy(pods=[*busy()["pods"], greedy]))
    assert found.use.cpu.held == 3000
    assert problems(**busy(pods=[*busy()["pods"], greedy])) == []


@pytest.mark.parametrize(
    ("amount", "codes"),
    [
        pytest.param("200m", [ProblemCode.BATCH_FRACTION], id="a-fifth-of-a-milli-cpu"),
        pytest.param("200", [], id="whole-milli-cpus"),
        pytest.param("2k", [], id="thousands"),
    ],
)
def test_fractions_of_batch_cpu_are_told(amount, codes):
    found = problems(**busy(pods=[pod("train", batch_cpu=amount)]))
    assert [code for code, _ in found] == codes
    assert [facts["meant"] for _, facts in found] == ["200"][: len(codes)]


def test_an_error_of_the_config_map_names_key_and_node_config():
    broken = config(
        {
            "enable": True,
            "nodeConfigs": [{"name": "gpu", "nodeSelector": {"matchLabels": {"x": "1"}}, "degradeTimeMinutes": 0}],
        }
    )
    errors = [facts["error"] for _, facts in problems(**busy(config_map=broken))]
    assert errors == [
        "colocation-config: nodeConfig gpu: degradeTimeMinutes: 0 is out of range; write a number that is 1 or more"
    ]


def test_while_the_config_map_is_broken_nobody_knows_the_strategy_in_force():
    found = explained(**busy(config_map=config("{")))
    assert (found.is_broken, found.total) == (True, None)


def test_a_label_that_is_no_ratio_is_a_problem_of_the_node():
    labels = {"node.koordinator.sh/cpu-reclaim-ratio": "NaN"}
    ((code, facts),) = problems(**busy(nodes=[node(labels=labels)]))
    assert code is ProblemCode.COLOCATION_CONFIG_INVALID
    assert facts["error"].startswith("label node.koordinator.sh/cpu-reclaim-ratio: ")


def test_a_refusal_of_the_kubelet_is_told_with_the_controller_of_the_pod():
    refused = pod("train", phase="Failed", batch_cpu=900)
    refused["status"] |= {
        "reason": "OutOfkubernetes.io/batch-cpu",
        "message": "requested: 900, used: 1000, capacity: 1500",
    }
    refused["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": "u", "controller": True}]
    found = cluster(**busy(pods=[refused]))
    (problem,) = colocation_problems.refusal_problems(found.pods["ml", "train"])
    assert (problem.code, problem.facts_by_name["owner"]) == (ProblemCode.BATCH_REFUSED, "job train")
    assert problems(**busy(pods=[refused])) == []


def test_without_colocation_an_audit_says_nothing_about_nodes():
    assert problems(nodes=[node(batch=None)], metrics=None) == []


def test_a_bundle_of_an_older_build_has_no_node_metrics():
    old = msgspec.to_builtins(snapshot(nodes=[node()]))
    del old["nodeMetrics"]
    assert msgspec.convert(old, type(snapshot())).node_metrics is None


def test_pods_of_a_report_that_are_gone_are_a_line_of_their_own():
    parts = busy(metrics=[metric("n1", pod_metric("web-0", "4", "12Gi"), pod_metric("gone-0", "2", "1Gi"))])
    assert explained(**parts).total.cpu.gone == 2000
