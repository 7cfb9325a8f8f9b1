"""The counters of an emulated node, read by the engine that reads real ones."""

import pytest

from dra.engine.usage.history import UsageHistory
from localplane.nodes.usage.contention import NodeUsage
from localplane.nodes.usage.counters import EmulatedCounters
from localplane.nodes.usage.demand import Usage

GI = 2**30
SYSTEM = Usage(cpu=1000, memory=2 * GI)


class Node:
    """A node that is sampled each second, and what the engine makes of its counters."""

    def __init__(self):
        self.counters = EmulatedCounters(memory=64 * GI, at=0.0)
        self.history = UsageHistory(node_seconds=60, pod_seconds=60)
        self.now = 0.0

    def use(self, pods, *, seconds=5):
        for _ in range(seconds):
            self.now += 1.0
            usage = NodeUsage(system=SYSTEM, pods=pods)
            sampled = self.counters.advance(usage, now=self.now)
            self.history.observe_node(sampled.node)
            self.history.observe_round(sampled, known=pods)
        return self.history.sample


@pytest.fixture
def node():
    return Node()


def test_rates_are_those_that_were_used(node):
    sample = node.use({"a": Usage(cpu=1500, memory=GI), "b": Usage(cpu=250, memory=GI)})
    assert {uid: pod.cpu_milli for uid, pod in sample.pods.items()} == {"a": 1500, "b": 250}
    assert (sample.cpu_milli, sample.system_cpu_milli) == (2750, 1000)
    assert (sample.memory_bytes, sample.system_memory_bytes) == (4 * GI, 2 * GI)


@pytest.mark.parametrize(
    "after",
    [pytest.param({}, id="a-pod-ends"), pytest.param({"a": Usage(cpu=4000), "b": Usage(cpu=9000)}, id="a-pod-begins")],
)
def test_pods_that_come_and_go_are_no_load_of_the_system(node, after):
    node.use({"a": Usage(cpu=4000)})
    for _ in range(5):
        assert node.use(after, seconds=1).system_cpu_milli == pytest.approx(1000, abs=10)


def test_steps_that_come_late_do_not_show_in_what_is_used(node):
    for late in (0.003, 0.4, 0.0, 0.07, 0.2):
        node.now = round(node.now) + late
        sample = node.use({"a": Usage(cpu=6000)}, seconds=1)
    assert (sample.cpu_milli, sample.system_cpu_milli) == (7000, 1000)
