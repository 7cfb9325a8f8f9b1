import pytest

from dra.engine.descheduling.plugins.low_node_utilization import LowNodeUtilization
from tests.dra.engine.descheduling import clusters
from tests.dra.engine.descheduling.clusters import at, reservation
from tests.dra.engine.descheduling.loads import evicted, metric, moved_to, node, pods, run

CPU_20_50 = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
GPU = "example.com/gpu"


def balance(nodes, there, args=None, **more):
    return run(LowNodeUtilization(), args or CPU_20_50, nodes, there, **more)


@pytest.mark.parametrize(
    ("on_first", "on_second", "count"),
    [
        pytest.param(5, 0, 0, id="16-a-node-at-its-target-gives-nothing"),
        pytest.param(8, 2, 3, id="17-a-node-at-its-threshold-receives-until-the-source-is-at-its-target"),
        pytest.param(8, 3, 0, id="18-a-node-above-its-threshold-receives-nothing"),
        pytest.param(10, 2, 3, id="19-the-headroom-of-the-receivers-ends-it"),
        pytest.param(6, 5, 0, id="no-node-is-below-the-thresholds"),
        pytest.param(1, 1, 0, id="all-nodes-are-below-the-thresholds"),
    ],
)
def test_pods_leave_a_node_above_its_target(on_first, on_second, count):
    result = balance([node("n1"), node("n2")], pods(on_first, "n1") + pods(on_second, "n2"))
    assert len(evicted(result)) == count
    assert moved_to(result) <= {"n2"}


def test_pods_that_terminate_since_an_earlier_round_are_no_excess_of_the_next_one():
    """Without jobs nothing is in flight: a round each five seconds would empty the node within a grace period."""
    nodes, there, memory = [node("n1"), node("n2")], pods(8, "n1"), {}
    first = evicted(balance(nodes, there, memory=memory))
    assert len(first) == 3
    there = [
        clusters.pod(name, "n1", cpu="100m", metadata={"deletionTimestamp": at(30)}) if name in first else pod
        for pod in pods(8, "n1")
        for name in [pod.metadata.name]
    ]
    assert evicted(balance(nodes, there, memory=memory)) == []


@pytest.mark.parametrize(
    ("more", "count"),
    [
        pytest.param({"numberOfNodes": 1}, 0, id="20-as-many-nodes-are-below-as-numberOfNodes-says"),
        pytest.param({"evictionLimits": {"node": 0}}, 0, id="21-a-limit-of-0-is-no-eviction"),
        pytest.param({"evictionLimits": {"node": 2}}, 2, id="21-two-for-each-node"),
        pytest.param({"evictableNamespaces": {"exclude": ["ns"]}}, 0, id="excluded-namespaces-count-and-stay"),
    ],
)
def test_arguments_restrict_what_leaves(more, count):
    result = balance([node("n1"), node("n2")], pods(8, "n1") + pods(2, "n2"), CPU_20_50 | more)
    assert len(evicted(result)) == count


def test_22_deviations_from_the_mean():
    nodes = [node(name, cpu="8", memory="100Mi") for name in ("a", "b", "c", "d")]
    there = [
        pod
        for name, count in {"a": 10, "b": 20, "c": 30, "d": 20}.items()
        for pod in pods(count, name, cpu="1m", memory="1Mi")
    ]
    args = {"thresholds": {"memory": 5}, "targetThresholds": {"memory": 5}, "useDeviationThresholds": True}
    result = balance(nodes, there, args)
    assert len(evicted(result)) == 5
    assert moved_to(result) == {"a"}


@pytest.mark.parametrize(
    ("on_first", "target", "count"),
    [
        pytest.param(30, 29, 2, id="23-29-percent-of-100-pods-are-28"),
        pytest.param(31, 30, 1, id="23-30-percent-of-100-pods-are-30"),
        pytest.param(29, 29, 0, id="29-of-100-pods-are-not-above-29-percent"),
    ],
)
def test_thresholds_are_cut_off_as_upstream_does(on_first, target, count):
    args = {"thresholds": {"pods": 10}, "targetThresholds": {"pods": target}}
    nodes = [node(name, cpu="64", pods=100) for name in ("n1", "n2")]
    assert len(evicted(balance(nodes, pods(on_first, "n1", cpu="1m"), args))) == count


def test_24_an_extended_resource_balances():
    nodes = [node(name, cpu="64", **{GPU: "8"}) for name in ("n1", "n2")]
    there = pods(6, "n1", extra={GPU: "1"}) + pods(2, "n1", prefix="stay", namespace="kube", extra={GPU: "1"})
    args = {"thresholds": {GPU: 30}, "targetThresholds": {GPU: 50}, "evictableNamespaces": {"exclude": ["kube"]}}
    assert len(evicted(balance(nodes, there + pods(1, "n2", extra={GPU: "1"}), args))) == 3


def test_receivers_without_the_extended_resource_have_no_headroom():
    nodes = [node("n1", cpu="64", **{GPU: "8"}), node("n2", cpu="64")]
    args = {"thresholds": {GPU: 30}, "targetThresholds": {GPU: 50}}
    assert evicted(balance(nodes, pods(8, "n1", extra={GPU: "1"}), args)) == []


def test_26_receivers_full_of_memory_have_no_headroom_even_where_only_cpu_is_named():
    nodes = [node("n1"), node("n2", memory="1Gi"), node("n3", memory="1Gi")]
    full = [pod for name in ("n2", "n3") for pod in pods(1, name, cpu="10m", memory="1Gi")]
    args = {"thresholds": {"cpu": 5}, "targetThresholds": {"cpu": 5}, "useDeviationThresholds": True}
    assert evicted(balance(nodes, pods(9, "n1") + full, args)) == []


@pytest.mark.parametrize(
    ("within", "count"),
    [
        pytest.param(True, 0, id="no-receiver-goes-above-its-target-by-the-pod"),
        pytest.param(False, 1, id="as-upstream-which-moves-it-for-ever"),
    ],
)
def test_a_pod_that_makes_any_receiver_hot_stays(within, count):
    args = {"thresholds": {"memory": 25}, "targetThresholds": {"memory": 70}, "receiversWithinTarget": within}
    nodes = [node(name, memory="100Mi") for name in ("n1", "n2")]
    result = balance(nodes, pods(1, "n1", cpu="1m", memory="75Mi"), args)
    assert len(evicted(result)) == count


def test_a_pod_that_fits_only_a_node_in_between_stays():
    selector = {"nodeSelector": {"disk": "ssd"}}
    nodes = [node("hot"), node("middle", labels={"disk": "ssd"}), node("empty")]
    result = balance(nodes, pods(8, "hot", **selector) + pods(3, "middle"))
    assert evicted(result) == []
    assert {decision.verdict.refusal for decision in result.decisions} == {"NoPlace"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "count"),
    [
        pytest.param(
            [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}],
            [{"operator": "Exists"}],
            3,
            id="one-toleration-for-all-taints-is-enough",
        ),
        pytest.param([{"key": "a", "effect": "PreferNoSchedule"}], [], 3, id="PreferNoSchedule-keeps-nobody-away"),
        pytest.param([{"key": "a", "effect": "NoSchedule"}], [], 0, id="NoSchedule-does"),
    ],
)
def test_taints_of_receivers_count_as_for_the_scheduler(taints, tolerations, count):
    nodes = [node("n1"), node("n2", taints=taints)]
    assert len(evicted(balance(nodes, pods(8, "n1", tolerations=tolerations)))) == count


def test_the_node_furthest_above_its_target_gives_first():
    nodes = [node("by-memory", cpu="100", memory="100Gi"), node("by-cpu"), node("empty", cpu="10")]
    there = pods(6, "by-memory", cpu="10", memory="10Gi") + pods(9, "by-cpu")
    result = balance(nodes, there, CPU_20_50 | {"evictionLimits": {"node": 1}})
    assert [name.rpartition("-")[0] for name in evicted(result)] == ["by-cpu"]


def test_low_priority_goes_first_and_best_effort_first_among_equals():
    there = [
        *pods(6, "n1", prefix="important", priority=10),
        *pods(1, "n1", prefix="burstable", status={"qosClass": "Burstable"}),
        *pods(1, "n1", prefix="effort", status={"qosClass": "BestEffort"}),
    ]
    assert evicted(balance([node("n1"), node("n2")], there))[:2] == ["effort-0", "burstable-0"]


def test_what_reservations_and_node_reservations_hold_is_no_headroom():
    kept = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "500m"}}'}
    there = pods(8, "n1")
    assert len(evicted(balance([node("n1"), node("n2")], there))) == 3
    assert len(evicted(balance([node("n1"), node("n2", annotations=kept)], there))) == 2
    held = [reservation("r", "n2", cpu="100m", owners=[{"labelSelector": {"matchLabels": {"app": "other"}}}])]
    nodes = [node("n1"), node("n2", annotations=kept)]
    assert len(evicted(balance(nodes, there, reservations=held))) == 1


def test_only_nodes_of_the_profile_are_compared_and_receive():
    nodes = [node("n1"), node("n2"), node("elsewhere")]
    there = pods(8, "n1") + pods(3, "n2")
    assert len(evicted(balance(nodes, there))) == 3
    result = balance(nodes, there, names={"n1", "n2"})
    assert evicted(result) == []
    assert result.notes == ["profile p: LowNodeUtilization: no schedulable node is below thresholds"]


def test_a_cordoned_node_and_one_that_is_not_ready_receive_nothing():
    there = pods(8, "n1")
    assert evicted(balance([node("n1"), node("n2", unschedulable=True), node("n3")], there, names={"n1", "n2"})) == []
    assert evicted(balance([node("n1"), node("n2", ready=False), node("n3", cpu="200m")], there)) == ["n1-0"]


def test_measured_use_counts_where_it_is_asked_for_and_the_reason_says_which():
    there = pods(8, "n1", cpu="10m") + pods(1, "n2", cpu="10m")
    asked = balance([node("n1"), node("n2")], there)
    assert evicted(asked) == []
    metrics = [
        metric("n1", [(pod, "100m", "1Mi", {}) for pod in there[:8]]),
        metric("n2", [(there[8], "10m", "1Mi", {})]),
    ]
    args = CPU_20_50 | {"metricsUtilization": {"source": "KubernetesMetrics"}}
    result = balance([node("n1"), node("n2")], there, args, node_metrics=metrics)
    assert len(evicted(result)) == 3
    assert result.decisions[0].reason == "node is overutilized, measured cpu(80.00%)>target(50.00%)"
    asked = balance([node("n1"), node("n2")], pods(8, "n1"))
    assert asked.decisions[0].reason == "node is overutilized, requested cpu(80.00%)>target(50.00%)"


@pytest.mark.parametrize(
    ("tolerations", "count"),
    [
        pytest.param([], 0, id="repelled-by-each-receiver"),
        pytest.param([{"key": "a", "operator": "Exists"}], 3, id="tolerates-one-receiver"),
    ],
)
def test_a_pod_that_no_receiver_tolerates_stays_even_where_nobody_looks_for_places(tolerations, count):
    nodes = [node("n1"), node("n2", taints=[{"key": "a", "effect": "NoSchedule"}])]
    result = balance(nodes, pods(8, "n1", tolerations=tolerations), requires_place=False)
    assert len(evicted(result)) == count
    assert all(decision.verdict.message for decision in result.decisions if not decision.verdict.accepted)
