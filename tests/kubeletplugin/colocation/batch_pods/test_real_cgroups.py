"""Batch pods on the kernel's own cgroups v1: every order of writes that the kernel refuses would show here.

Needs root; makes cgroups that are gone afterwards.
"""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from kubeletplugin.cgroups.cgroup_tree import LEVELS_MAX, child_names
from kubeletplugin.colocation.batch_pods.cgroup_values import ClassCgroups
from tests.kubeletplugin.colocation.batch_pods.machine import OFF, ON, BatchNode

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
MI = 2**20

HOLD_MEMORY = "input(); held = bytearray(24 << 20); print('held', flush=True); input()"
"""Memory counts where the process is when it takes the memory, so the process waits until it is in its cgroup."""


class KilledError(Exception):
    """The plugin ends here."""


class KernelNode(BatchNode):
    """A node whose cgroups are the kernel's."""

    def __init__(self, folder):
        self.top = f"dra-test-{uuid.uuid4().hex[:8]}"
        super().__init__(folder, make=lambda _: ROOT, top=f"{self.top}/")

    def _make_cgroups(self, path):
        for controller in CONTROLLERS:
            (ROOT / controller / path / self._container).mkdir(parents=True)

    def close(self):
        for controller in CONTROLLERS:
            folders = [str(ROOT / controller / self.top)]
            for folder in folders:  # which grows meanwhile; os.walk recurses
                folders += (f"{folder}/{name}" for name in child_names(folder))
            for folder in reversed(folders):
                deadline = time.monotonic() + 60
                while True:
                    try:
                        Path(folder).rmdir()
                        break
                    except OSError:
                        assert time.monotonic() < deadline, folder


@pytest.fixture
def node(tmp_path):
    if os.geteuid() or any(not os.access(ROOT / each / "cgroup.procs", os.W_OK) for each in CONTROLLERS):
        pytest.skip("needs root, and cgroups v1 with the controllers cpu, cpuacct, cpuset and memory")
    made = KernelNode(tmp_path)
    yield made
    made.close()


def quotas(node, *pods):
    return [
        node.quota,
        *(node.values("cpu.cfs_quota_us", pod=pod, container=inner)[0] for pod in pods for inner in (0, 1)),
    ]


async def test_the_kernel_takes_the_limits_and_every_step_of_holding_back(node):
    wide, small = node.add("wide", cpu="2k", request="570", memory="1073741823"), node.add("small", cpu="400")
    node.strategy = OFF
    await node.step()
    assert node.values("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes", pod=wide) == [
        "583",
        "200000",
        "1073737728",
    ]
    node.strategy = ON
    seen = []
    for others in (700, 1400, 0, 0, 0, 0, 0, 0):
        node.use("other", others)
        await node.step()
        seen.append(quotas(node, wide, small))
    assert [each[0] for each in seen] == ["45000", "2000", *map(str, range(22000, 122000, 20000)), "115000"]
    for of_class, *of_pods in seen:
        assert of_pods == [*[str(min(int(of_class), 200000))] * 2, *[str(min(int(of_class), 40000))] * 2]
    node.strategy = OFF
    await node.step()
    assert quotas(node, wide, small) == ["-1", "200000", "200000", "40000", "40000"]
    assert node.metric("batch_writes_refused_total", value="quota") == 0
    await node.step(10)
    assert node.metric("batch_values_reset_by_others_total", value="memory") == 0, "the kernel's rounding is no reset"


async def test_a_burst_from_before_there_was_a_quota_keeps_nothing_from_being_held_back(node):
    job = node.add("job", cpu="100")
    for pod in (None, job):
        node.file("cpu.cfs_burst_us", pod).write_text("150000\n")
    await node.step()
    assert quotas(node, job) == ["45000", "10000", "10000"]
    assert node.metric("batch_writes_refused_total", value="quota") == 0


@pytest.mark.parametrize("direction", ["held-back", "lifted"])
async def test_killed_at_any_write_the_next_start_completes_the_plan(node, monkeypatch, direction):
    wide, small = node.add("wide", cpu="2k"), node.add("small", cpu="400")
    node.use("other", 1100)
    before, after = (OFF, ON) if direction == "held-back" else (ON, OFF)
    wanted = {OFF: ["-1", "200000", "200000", "40000", "40000"], ON: ["5000"] * 5}
    write, kills = ClassCgroups.write, 0
    while True:
        monkeypatch.setattr(ClassCgroups, "write", write)
        node.start()
        node.strategy = before
        await node.step(12)
        assert quotas(node, wide, small) == wanted[before]
        left = [kills]

        def killed(self, planned, *, left=left):
            if not left[0]:
                raise KilledError
            left[0] -= 1
            return write(self, planned)

        monkeypatch.setattr(ClassCgroups, "write", killed)
        node.strategy = after
        try:
            await node.step()
        except KilledError:
            kills += 1
        else:
            break
        monkeypatch.setattr(ClassCgroups, "write", write)
        node.start()
        await node.step(12)
        assert quotas(node, wide, small) == wanted[after]
    assert kills == 5 if direction == "held-back" else kills >= 5


async def test_a_container_that_uses_more_than_its_limit_lives_and_the_other_files_are_written(node):
    job = node.add("job", cpu="500", memory="10Mi")
    group = node.file("cgroup.procs", job, container=True)
    memory = ROOT / "memory" / group.relative_to(ROOT / "cgroup")
    with subprocess.Popen(  # noqa: ASYNC220 - as quick as a test can wait for
        [sys.executable, "-c", HOLD_MEMORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        memory.write_text(str(process.pid))
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "held\n"
        await node.step()
        assert process.poll() is None
        assert node.values("cpu.cfs_quota_us", pod=job) == ["45000"]
        assert node.metric("batch_memory_over_limit") == 2
        process.communicate("\n", timeout=20)
    assert process.returncode == 0
    await node.step(10)
    assert node.values("memory.limit_in_bytes", pod=job, container=True) == [str(10 * MI)]
    assert node.metric("batch_memory_over_limit") == 0


async def test_a_quota_in_a_cgroup_that_a_container_made_does_not_stand_in_the_way(node):
    job = node.add("job", cpu="2k")
    nested = node.file("cpu.shares", job, container=True).parent / "nested"
    nested.mkdir()
    (nested / "cpu.cfs_quota_us").write_text("150000")
    await node.step()
    assert node.quota == "45000"
    assert (nested / "cpu.cfs_quota_us").read_text() == "-1\n"


def nest(folder, *, levels):
    for _ in range(levels):
        folder = f"{folder}/n"
        os.mkdir(folder)  # noqa: PTH102 - a thousand
    return Path(folder)


async def test_a_thousand_nested_cgroups_free_nobody_from_being_held_back(node):
    job, other = node.add("job", cpu="2k"), node.add("other-job", cpu="400")
    nest(node.file("cpu.shares", job, container=True).parent, levels=1000)
    await node.step(2)
    assert quotas(node, job, other) == ["45000", "45000", "45000", "40000", "40000"]
    assert node.events.reasons == []


async def test_thousands_of_cgroups_of_one_pod_hide_no_other_pod(node):
    greedy, job = node.add("greedy", cpu="2k"), node.add("job", cpu="2k")
    for number in range(4100):
        (node.file("cpu.shares", greedy, container=True).parent / str(number)).mkdir()
    nested = node.file("cpu.shares", job, container=True).parent / "nested"
    nested.mkdir()
    (nested / "cpu.cfs_quota_us").write_text("150000")
    await node.step(2)
    assert quotas(node, greedy, job) == ["45000"] * 5
    assert (nested / "cpu.cfs_quota_us").read_text() == "-1\n"
    assert node.events.reasons == []


async def test_a_quota_too_deep_to_be_read_is_told_and_other_pods_are_held_back(node):
    greedy, job = node.add("greedy", cpu="2k"), node.add("job", cpu="2k")
    deepest = nest(node.file("cpu.shares", greedy, container=True).parent, levels=LEVELS_MAX)
    (deepest / "cpu.cfs_quota_us").write_text("150000")
    await node.step(2)
    assert quotas(node, greedy, job) == ["-1", "-1", "-1", "45000", "45000"]
    assert "/".join(greedy.cgroup) in node.events.texts["BatchPodCgroupsUnread"]
    assert "Invalid argument" in node.events.texts["BatchPodWritesRefused"]
    (deepest / "cpu.cfs_quota_us").write_text("-1")
    await node.step()
    assert quotas(node, greedy, job) == ["45000"] * 5


async def test_idle_cgroups_keep_their_shares_and_that_is_told(node):
    job = node.add("job", cpu="500")
    for inner in (False, True):
        node.file("cpu.idle", job, container=inner).write_text("1")
    await node.step()
    assert node.values("cpu.shares", "cpu.cfs_quota_us", pod=job) == ["3", "45000"]
    assert "cpu.idle is set" in node.events.texts["BatchPodSharesIdle"]


async def test_a_burst_is_lowered_before_the_quota(node):
    job = node.add("job", cpu="2k")
    node.strategy = OFF
    await node.step()
    node.file("cpu.cfs_burst_us", job).write_text("150000")
    node.strategy = ON
    await node.step()
    assert node.values("cpu.cfs_quota_us", "cpu.cfs_burst_us", pod=job) == ["45000", "45000"]


@pytest.mark.parametrize("level", ["kubepods", ""], ids=["of-all-pods", "above-all-pods"])
async def test_a_quota_above_the_class_bounds_it_and_its_pods(node, level):
    job = node.add("job", cpu="2k")
    (ROOT / "cpu" / node.top / level / "cpu.cfs_quota_us").write_text("60000")
    node.strategy = OFF
    await node.step()
    assert quotas(node, job) == ["-1", "60000", "60000"]
    node.strategy = ON
    node.use("other", 0)
    await node.step()
    assert quotas(node, job) == ["60000"] * 3
    node.use("other", 900)
    await node.step()
    assert quotas(node, job) == ["25000"] * 3
    assert node.metric("batch_writes_refused_total", value="quota") == 0
    (ROOT / "cpu" / node.top / level / "cpu.cfs_quota_us").write_text("-1")
    node.strategy = OFF
    await node.step()
    assert quotas(node, job) == ["-1", "200000", "200000"]
