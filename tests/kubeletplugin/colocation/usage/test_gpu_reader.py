import logging

import pytest

from dra.engine.usage.samples import GpuProcessUse
from kubeletplugin.colocation.usage.gpu_reader import HOST_PID_NAMESPACE, GpuUseReader
from kubeletplugin.inventory.gpu_use import GpuProcess, GpuUse

GIB = 2**30
UIDS = {"uid-web": "web", "hash-of-static": "static"}


class Source:
    def __init__(self, *processes):
        self.processes = processes

    def read_use(self):
        return (
            GpuUse(
                uuid="GPU-0",
                minor=0,
                memory_used_bytes=3 * GIB,
                memory_total_bytes=16 * GIB,
                utilization_percent=70.0,
                processes=self.processes,
            ),
        )


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to(HOST_PID_NAMESPACE)
    return tmp_path


def process(proc, pid, cgroup):
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(f"0::{cgroup}\n")


def test_processes_count_for_the_pod_of_their_cgroup(proc):
    process(proc, 10, "/kubepods/burstable/poduid-web/c1")
    process(proc, 11, "/kubepods/burstable/poduid-web/c2")
    process(proc, 12, "/kubepods/podhash-of-static/c")
    process(proc, 13, "/system.slice/x.service")
    process(proc, 14, "/kubepods/podunknown/c")
    source = Source(
        GpuProcess(pid=10, memory_bytes=GIB, utilization_percent=30.0),
        GpuProcess(pid=11, memory_bytes=GIB, utilization_percent=None),
        GpuProcess(pid=12, memory_bytes=5),
        GpuProcess(pid=13, memory_bytes=7),
        GpuProcess(pid=14, memory_bytes=7),
        GpuProcess(pid=15, memory_bytes=7),
    )
    (reading,) = GpuUseReader([source], proc=proc).read(UIDS)
    assert reading.pods == {
        "web": GpuProcessUse(utilization_percent=30.0, memory_bytes=2 * GIB),
        "static": GpuProcessUse(utilization_percent=None, memory_bytes=5),
    }
    assert (reading.uuid, reading.utilization_percent, reading.memory_used_bytes) == ("GPU-0", 70.0, 3 * GIB)


def test_in_another_pid_namespace_no_process_is_looked_up_and_that_is_told_once(proc, caplog):
    """There, the id that NVML tells is that of another process, perhaps of the plugin itself."""
    (proc / "self/ns/pid").unlink()
    (proc / "self/ns/pid").symlink_to("pid:[4026532000]")
    process(proc, 10, "/kubepods/burstable/poduid-web/c1")
    reader = GpuUseReader([Source(GpuProcess(pid=10, memory_bytes=GIB))], proc=proc)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            (reading,) = reader.read(UIDS)
    assert reading.pods == {}
    assert reading.memory_used_bytes == 3 * GIB
    assert [each.message.partition(":")[0] for each in caplog.records] == ["GPUs"]


def test_several_processes_never_use_more_than_the_whole_gpu(proc):
    for pid in (10, 11):
        process(proc, pid, "/kubepods/burstable/poduid-web/c1")
    source = Source(*(GpuProcess(pid=pid, memory_bytes=1, utilization_percent=80.0) for pid in (10, 11)))
    (reading,) = GpuUseReader([source], proc=proc).read(UIDS)
    assert reading.pods["web"].utilization_percent == 100
