import logging

import pytest
from prometheus_client import CollectorRegistry

from dra.engine.usage.history import UsageHistory
from kubeletplugin.cgroups.pod_cgroups import find_pod_hierarchies
from kubeletplugin.colocation.metrics import ColocationMetrics
from kubeletplugin.colocation.usage.node_files import NodeFileReader
from kubeletplugin.colocation.usage.pod_files import PodFileReader
from kubeletplugin.colocation.usage.sampler import UsageSampler
from tests.kubeletplugin.cgroups import recorded
from tests.kubeletplugin.cgroups.recorded import JOB, WEB, PodUse, add_pod, set_use, write_proc
from tests.kubeletplugin.colocation.agent import ManualClock

PATH = recorded.cgroupfs("burstable", WEB)
CGROUP = ("burstable", f"pod{WEB}")


class Node:
    def __init__(self, root):
        self.cgroups, self.proc = recorded.v2(root / "cgroup"), write_proc(root / "proc")
        add_pod(self.cgroups, PATH, container="c")
        self.pods = {WEB: CGROUP}
        self.clock = ManualClock()
        self.history = UsageHistory(node_seconds=300.0, pod_seconds=300.0)
        self.hierarchies = find_pod_hierarchies(self.cgroups)
        self.sampler = UsageSampler(
            self.history,
            NodeFileReader(self.proc, clock=self.clock.now),
            PodFileReader(clock=self.clock.now),
            metrics=ColocationMetrics(CollectorRegistry()),
            clock=self.clock,
        )

    async def second(self, *, each_second=False, usage=107_950_080):
        self.clock.seconds += 1.0
        nanos = round((self.clock.seconds - 1000.0) * 1e8)
        write_proc(self.proc, busy_ticks=nanos // 10**7)
        set_use(self.cgroups, PATH, PodUse(cpu_nanos=nanos, usage_bytes=usage))
        self.sampler.sample_node()
        return await self.sampler.sample_pods(self.hierarchies, self.pods, {}, each_second=each_second)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


async def test_the_node_is_sampled_each_second_and_its_pods_each_ten(node):
    recorded_rounds = [await node.second() for _ in range(31)]
    assert [index for index, recorded in enumerate(recorded_rounds) if recorded] == [0, 10, 20, 30]
    assert len(node.history.node.cpu_milli._samples) == 30
    assert node.sampler.sample.pods_at == node.clock.now()


async def test_on_demand_pods_are_read_each_second_and_their_memory_each_ten(node):
    for _ in range(3):
        await node.second(each_second=True)
    await node.second(each_second=True, usage=10**12)
    sample = node.sampler.sample
    assert sample.pods_at == node.clock.now()
    assert sample.pods[WEB].cpu_milli == pytest.approx(100)
    assert sample.pods[WEB].memory_bytes == 24_064_000
    for _ in range(7):
        await node.second(each_second=True, usage=10**12)
    assert node.sampler.sample.pods[WEB].memory_bytes == 10**12 - 83_886_080


async def test_counters_that_cannot_be_read_are_told_once_and_leave_the_samples_as_they_are(node, caplog):
    for _ in range(12):
        await node.second()
    sample = node.sampler.sample
    (node.proc / "stat").write_text("cpu  x\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            node.clock.seconds += 10.0
            node.sampler.sample_node()
            await node.sampler.sample_pods(node.hierarchies, {WEB: CGROUP}, {}, each_second=False)
    assert node.sampler.sample == sample
    assert len(caplog.records) == 1
    assert "what the node uses is not sampled" in caplog.records[0].message


async def test_a_pod_that_cannot_be_read_is_counted_and_its_reason_is_told_once(node, caplog):
    add_pod(node.cgroups, recorded.cgroupfs("", JOB), container="c")
    (node.cgroups / recorded.cgroupfs("", JOB) / "memory.stat").write_text("")
    node.pods[JOB] = (f"pod{JOB}",)
    with caplog.at_level(logging.WARNING):
        for _ in range(21):
            await node.second()
    assert node.sampler.unreadable == 1
    text = f"cgroup pod{JOB}: the pod is not sampled: memory.stat: has no field inactive_file"
    assert [each.message for each in caplog.records] == [text]
    assert node.sampler.sample.pods.keys() == {WEB}
