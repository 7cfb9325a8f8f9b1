import pytest

from dra.engine.descheduling.plugins.high_node_utilization import HighNodeUtilization
from tests.dra.engine.descheduling.loads import evicted, moved_to, node, pods, run

GPU = "example.com/gpu"


def compact(nodes, there, args, **more):
    return run(HighNodeUtilization(), args, nodes, there, **more)


def test_pods_of_underutilized_nodes_go_those_of_a_cordoned_one_too():
    nodes = [node(name, cpu="4", memory="3000", pods=10) for name in ("n1", "n2")]
    nodes.append(node("n3", cpu="4", memory="3000", pods=10, unschedulable=True))
    there = pods(1, "n1", cpu="400m") + pods(4, "n2", cpu="400m") + pods(1, "n3", cpu="400m")
    result = compact(nodes, there, {"thresholds": {"cpu": 30, "pods": 30}})
    assert sorted(evicted(result)) == ["n1-0", "n3-0"]
    assert moved_to(result) == {"n2"}


def test_it_ends_when_the_receivers_are_full():
    nodes = [node(name, cpu="2") for name in ("n1", "n2")]
    there = pods(2, "n1", cpu="400m") + pods(4, "n2", cpu="400m")
    assert len(evicted(compact(nodes, there, {"thresholds": {"cpu": 40}}))) == 1


def test_low_priority_goes_first():
    nodes = [node(name, cpu="2") for name in ("n1", "n2")]
    there = pods(1, "n1", cpu="400m", prefix="high", priority=10) + pods(1, "n1", cpu="400m", prefix="low")
    result = compact(nodes, there + pods(4, "n2", cpu="400m"), {"thresholds": {"cpu": 40}})
    assert evicted(result) == ["low-0"]


@pytest.mark.parametrize(
    ("thresholds", "on_second", "count"),
    [
        pytest.param({"cpu": 20, GPU: 40}, {GPU: "1"}, 2, id="27-a-node-under-all-thresholds-is-emptied"),
        pytest.param({"cpu": 40, GPU: 40}, {}, 0, id="27-all-nodes-are-under"),
    ],
)
def test_an_extended_resource(thresholds, on_second, count):
    nodes = [node("n1", cpu="4", **{GPU: "8"}), node("n2", cpu="4", **({GPU: "8"} if on_second else {}))]
    there = pods(2, "n1", extra={GPU: "1"}) + pods(4, "n2", cpu="500m" if on_second else "100m", extra=on_second)
    assert len(evicted(compact(nodes, there, {"thresholds": thresholds}))) == count


def test_28_a_pod_for_which_nobody_has_room_stays():
    nodes = [node("n1", cpu="2"), node("n2", cpu="2")]
    there = pods(1, "n1", cpu="400m") + pods(1, "n2", cpu="1900m")
    assert evicted(compact(nodes, there, {"thresholds": {"cpu": 30}})) == []


def test_29_nothing_goes_while_all_nodes_are_under_and_the_round_says_why():
    nodes = [node("n1", cpu="4"), node("n2", cpu="4")]
    result = compact(nodes, pods(1, "n1") + pods(1, "n2"), {"thresholds": {"cpu": 30}})
    assert evicted(result) == []
    assert "all nodes are below thresholds" in result.notes[0]


def test_a_pod_that_fits_only_another_underutilized_node_stays():
    nodes = [node("n1", labels={"disk": "ssd"}), node("n2", labels={"disk": "ssd"}), node("full")]
    there = [pod for name in ("n1", "n2") for pod in pods(1, name, nodeSelector={"disk": "ssd"})]
    result = compact(nodes, there + pods(8, "full"), {"thresholds": {"cpu": 30}})
    assert evicted(result) == []
    assert {decision.verdict.refusal for decision in result.decisions} == {"NoPlace"}


def test_only_pods_that_request_a_resource_with_a_threshold_go_if_the_mode_says_so():
    nodes = [node("n1", cpu="4"), node("n2", cpu="4")]
    there = pods(1, "n1", prefix="asks") + pods(1, "n1", cpu="", memory="1Mi", prefix="asks-not")
    args = {"thresholds": {"cpu": 30}, "evictionModes": ["OnlyThresholdingResources"]}
    assert evicted(compact(nodes, there + pods(3, "n2", cpu="1"), args)) == ["asks-0"]


def test_the_emptiest_node_is_emptied_first():
    nodes = [node("a", cpu="4"), node("b", cpu="4"), node("full", cpu="4")]
    there = pods(3, "a") + pods(1, "b") + pods(30, "full")
    result = compact(nodes, there, {"thresholds": {"cpu": 30}})
    assert evicted(result) == ["b-0", "a-0", "a-1", "a-2"]
    assert result.decisions[0].reason == "node is underutilized, requested cpu(2.50%)<=threshold(30.00%)"
