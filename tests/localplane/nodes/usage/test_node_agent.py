"""Suppression of an emulated node: what its best-effort pods use falls and rises with what others use."""

from itertools import pairwise

import msgspec
import pytest

from dra.api.colocation.strategies import SuppressPolicy, ThresholdStrategy
from dra.engine.suppression.decide import SuppressionLevel
from dra.engine.usage.report import CollectPolicy
from dra.model.node_pods import AgentNode, NodePod
from localplane.nodes.usage.demand import USAGE
from localplane.nodes.usage.node_agent import EmulatedAgent

NODE = msgspec.convert(
    {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "64", "memory": "256Gi"}}}, AgentNode
)
QUOTA = ThresholdStrategy(enable=True, cpu_suppress_policy=SuppressPolicy.CFS_QUOTA)
CPUSET = ThresholdStrategy(enable=True, cpu_suppress_policy=SuppressPolicy.CPUSET)
POLICY = CollectPolicy(aggregate_seconds=10.0, report_seconds=2.0, percentile_seconds=())


def pod(uid, cpus, *, qos="Burstable"):
    metadata = {"name": uid, "namespace": "default", "uid": uid, "annotations": {USAGE: f"cpu={cpus}"}}
    metadata["resourceVersion"] = str(cpus)  # each version has another annotation
    return msgspec.convert({"metadata": metadata, "status": {"phase": "Running", "qosClass": qos}}, NodePod)


def batch(uid, cpus):
    return pod(uid, cpus, qos="BestEffort")


class Node:
    """A node whose agent takes a step each second."""

    def __init__(self, strategy):
        self.strategy = strategy
        self.agent = EmulatedAgent(NODE, now=0.0)
        self.now = 0.0

    def step(self, *pods, seconds=1):
        for _ in range(seconds):
            self.now += 1.0
            self.agent.observe(NODE, pods, POLICY, now=self.now)
            self.agent.hold_back(NODE, pods, self.strategy, now=self.now)

    def used(self, uid):
        return round(self.agent.sample.pods[uid].cpu_milli)


@pytest.mark.parametrize("strategy", [QUOTA, CPUSET], ids=["quota", "cpuset"])
def test_batch_pods_are_not_held_back_while_there_is_enough(strategy):
    node = Node(strategy)
    node.step(pod("web", 10), batch("a", 14), batch("b", 14), seconds=10)
    assert [node.used(uid) for uid in ("web", "a", "b")] == [10000, 14000, 14000]


@pytest.mark.parametrize(
    ("strategy", "left"), [pytest.param(QUOTA, 4300, id="quota"), pytest.param(CPUSET, 4500, id="cpuset")]
)
def test_batch_pods_use_less_within_three_seconds_when_others_use_more(strategy, left):
    """64 CPUs · 65 % = 41.6, less 32 of the service and 1 of the system: 8.6 CPUs for two batch pods."""
    node = Node(strategy)
    node.step(pod("web", 10), batch("a", 14), batch("b", 14), seconds=10)
    node.step(pod("web", 32), batch("a", 14), batch("b", 14), seconds=3)
    assert [node.used(uid) for uid in ("web", "a", "b")] == [32000, left, left]


@pytest.mark.parametrize("strategy", [QUOTA, CPUSET], ids=["quota", "cpuset"])
def test_batch_pods_get_back_a_tenth_of_the_node_in_each_second(strategy):
    node = Node(strategy)
    node.step(pod("web", 32), batch("a", 14), batch("b", 14), seconds=10)
    used = []
    for _ in range(6):
        node.step(pod("web", 10), batch("a", 14), batch("b", 14))
        used.append(node.used("a") + node.used("b"))
    assert used[0] < 10000
    assert all(after - before <= 7000 for before, after in pairwise(used))
    assert used[-1] == 28000


def test_a_minimum_stays_for_batch_pods_when_others_use_all():
    node = Node(
        ThresholdStrategy(enable=True, cpu_suppress_policy=SuppressPolicy.CFS_QUOTA, cpu_suppress_min_percent=10)
    )
    node.step(pod("web", 50), batch("a", 14), seconds=10)
    assert node.used("a") == 6400


def test_without_the_feature_nothing_is_held_back_and_what_was_is_released():
    node = Node(QUOTA)
    node.step(pod("web", 40), batch("a", 14), seconds=10)
    assert node.used("a") < 1000
    node.strategy = ThresholdStrategy()
    node.step(pod("web", 40), batch("a", 14), seconds=3)
    assert node.used("a") == 14000
    assert node.agent.suppression.level is SuppressionLevel.OFF
