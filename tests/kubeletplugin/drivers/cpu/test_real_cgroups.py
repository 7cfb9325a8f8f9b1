"""The enforcement and its hook on the kernel's own cgroups: masks of real processes are read back.

Needs root and two CPUs, and makes cgroups below the one that the test runs in, which are gone afterwards. What is done
here by hand is what the kubelet (pods) and runc (containers) do.
"""

import asyncio
import json
import os
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from dra.engine.cpus.cpusets import CpuSet, parse
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.drivers.cpu.cpuset_enforcer import CpusetEnforcer
from kubeletplugin.drivers.cpu.cpuset_store import CpusetDemand, CpusetStore, cpu_owner_name

ROOT = Path("/sys/fs/cgroup")
MINE = cpu_owner_name("uid-1", "cpus")
WITHIN = 30.0
"""Seconds in which others must have lost CPUs, and have got them back; it takes milliseconds on a free machine."""


def unified():
    """Return where cgroup v2 is mounted; on a hybrid machine beside v1."""
    return ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "unified"


def own_cgroup():
    """Return the folder of the cgroup of cpusets that we run in, if we may make others there."""
    if os.geteuid():
        pytest.skip("real cgroups: not root")
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    v1 = [path for _, controllers, path in lines if "cpuset" in controllers.split(",")]
    v2 = [path for _, controllers, path in lines if not controllers]
    if v1:
        top = ROOT / "cpuset" / v1[0].strip("/")
    elif v2 and "cpuset" in (unified() / v2[0].strip("/") / "cgroup.controllers").read_text().split():
        top = unified() / v2[0].strip("/")
    else:
        pytest.skip("real cgroups: there is no cpuset controller that we may use")
    if not os.access(top / "cgroup.procs", os.W_OK):
        pytest.skip(f"real cgroups: {top} is read-only")
    return top


class Pods:
    """Real cgroups as a kubelet's, and processes in them."""

    def __init__(self, top, folder):
        self.top = top / f"dra-test-{uuid.uuid4().hex[:8]}"
        self.pods = self.top / "kubepods"
        self.records = CpusetStore(folder)
        self.records.install()
        self.processes = []
        self.v2 = (top / "cgroup.controllers").exists()
        for each in (self.top, self.pods, self.pods / "burstable", self.pods / "besteffort"):
            self.make(each)
        self.cpus = parse((self.pods / ("cpuset.cpus.effective" if self.v2 else "cpuset.cpus")).read_text())

    def make(self, cgroup):
        """Make a cgroup as libcontainer does: in v1 with what its parent has."""
        if self.v2:
            (cgroup.parent / "cgroup.subtree_control").write_text("+cpuset")
        cgroup.mkdir()
        if self.v2:
            return
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not (cgroup / name).read_text().strip():
                (cgroup / name).write_text((cgroup.parent / name).read_text())

    def container(self, name):
        """Make a container, and what is above it if necessary, and start a process in it; return the pid."""
        cgroup = self.pods / name
        for each in (*reversed(cgroup.parents), cgroup):
            if not each.exists():
                self.make(each)
        process = subprocess.Popen(["/bin/sleep", "600"])
        self.processes.append(process)
        (cgroup / "cgroup.procs").write_text(str(process.pid))
        return process.pid

    def hook(self, pid, claim, cpus, request="cpus", *, more=()):
        """Run the hook as a runtime does."""
        state = {"ociVersion": "1.0.2", "id": "x", "status": "creating", "pid": pid, "bundle": "/b b"}
        return subprocess.run(
            ["/bin/sh", str(self.records.hook), claim, request, cpus, *more],
            input=json.dumps(state | {"annotations": {"pid": "1", 'x"pid": 1': "y"}}),
            env={},
            text=True,
            capture_output=True,
            timeout=20,
            check=False,
        )

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait(5)
        for folder, _, _ in os.walk(self.top, topdown=False):
            deadline = time.monotonic() + WITHIN
            while True:
                try:
                    Path(folder).rmdir()
                    break
                except OSError:
                    assert time.monotonic() < deadline, folder


def mask(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return parse(next(line.split(":")[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))


async def has(pid, cpus):
    """Wait until a process may run on these CPUs."""
    deadline = time.monotonic() + WITHIN
    while mask(pid) != cpus:
        assert time.monotonic() < deadline, f"{mask(pid)} is not {cpus}"
        await asyncio.sleep(0.002)


@pytest.fixture
def pods(tmp_path):
    it = Pods(own_cgroup(), tmp_path / "a folder")
    try:
        if len(it.cpus) < 2:
            pytest.skip(f"real cgroups: two CPUs are needed, there is {it.cpus}")
        yield it
    finally:
        it.close()


@pytest.fixture
async def enforcement(pods):
    it = CpusetEnforcer(
        pods.records,
        lambda: find_hierarchy(ROOT, pods=str(pods.pods.relative_to(mount(pods)))),
        blocked_reason=lambda: None,
    )
    yield it
    await it.close()


def mount(pods):
    return unified() if pods.v2 else ROOT / "cpuset"


@pytest.fixture
def last(pods):
    """The CPU that a claim gets."""
    return CpuSet([max(pods.cpus)])


async def test_owner_and_others_are_apart_from_the_first_instruction_to_the_release(pods, enforcement, last):
    before = pods.container("besteffort/pod1/other")
    await enforcement.demand(CpusetDemand(requests={MINE: last}))
    assert mask(before) == pods.cpus - last  # at once: before the claim's container is there

    mine = pods.container("burstable/pod2/mine")
    assert pods.hook(mine, "uid-1", str(last)).returncode == 0
    assert mask(mine) == last  # now the runtime would let it run
    sidecar = pods.container("burstable/pod2/sidecar")
    await has(sidecar, pods.cpus - last)
    later = pods.container("besteffort/pod3/new")
    assert mask(later) == pods.cpus - last  # its class holds no owner: it is born there
    guaranteed = pods.container("pod4/new")
    await has(guaranteed, pods.cpus - last)
    assert mask(mine) == last

    await enforcement.demand(CpusetDemand(requests={}))
    for pid in (before, sidecar, later, guaranteed):
        await has(pid, pods.cpus)


async def test_two_containers_whose_processes_are_a_level_deeper_have_their_own_cpus(pods, enforcement, last):
    first = CpuSet([min(pods.cpus)])
    demand = CpusetDemand(requests={MINE: last})
    await enforcement.demand(demand)
    mine = pods.container("burstable/pod1/mine/container")
    assert mask(mine) == pods.cpus - last  # born so, in v1 on both levels
    assert pods.hook(mine, "uid-1", str(last)).returncode == 0
    assert mask(mine) == last
    others = pods.container("burstable/pod2/others/container")
    assert pods.hook(others, "uid-2", str(first)).returncode == 0
    assert (mask(mine), mask(others)) == (last, first)
    within = pods.container("burstable/pod1/mine/container/of-its-own")
    await enforcement.close()
    await enforcement.demand(demand)  # as a plugin that starts again; the second claim has ended
    for pid in (mine, within):
        await has(pid, last)
    await has(others, pods.cpus - last)
    assert {each.name for each in (pods.records.folder / "containers").iterdir()} == {"mine", "others"}


async def test_best_effort_runs_on_cpus_that_are_shared_with_it_and_others_do_not(pods, enforcement, last):
    best_effort, other = pods.container("besteffort/pod1/be"), pods.container("burstable/pod2/other")
    await enforcement.demand(CpusetDemand(requests={MINE: last}, best_effort=last))
    assert (mask(best_effort), mask(other)) == (pods.cpus, pods.cpus - last)
    mine = pods.container("pod3/mine")
    assert pods.hook(mine, "uid-1", str(last)).returncode == 0
    assert mask(mine) == last
    assert mask(pods.container("besteffort/pod4/new")) == pods.cpus  # born so
    assert mask(pods.container("burstable/pod5/new")) == pods.cpus - last
    await enforcement.demand(CpusetDemand(requests={MINE: last}))  # as the claim of an LSE pod
    await has(best_effort, pods.cpus - last)
    await enforcement.demand(CpusetDemand(requests={}))
    for pid in (best_effort, other):
        await has(pid, pods.cpus)


async def test_the_hook_lifts_the_quotas_of_the_container_and_of_its_pod(pods, enforcement, last):
    if pods.v2 or not (ROOT / "cpu/cpu.cfs_quota_us").exists():
        pytest.skip("real cgroups: quotas are tried with cgroup v1")
    await enforcement.demand(CpusetDemand(requests={MINE: last}))
    mine = pods.container("pod1/mine")
    quotas = ROOT / "cpu" / pods.pods.relative_to(mount(pods))
    container = quotas / "pod1/mine"
    container.mkdir(parents=True)
    try:
        for each in (container.parent, container):
            (each / "cpu.cfs_quota_us").write_text("50000")
        (container / "cgroup.procs").write_text(str(mine))
        assert pods.hook(mine, "uid-1", str(last), more=("unthrottled",)).returncode == 0
        assert [int((each / "cpu.cfs_quota_us").read_text()) for each in (container, container.parent)] == [-1, -1]
        assert mask(mine) == last
    finally:
        pods.processes[-1].kill()
        pods.processes[-1].wait(5)
        for each in (container, container.parent, quotas, quotas.parent):
            await gone(each)


async def gone(cgroup):
    """Remove a cgroup whose process has ended."""
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            cgroup.rmdir()
        except OSError:
            assert time.monotonic() < deadline, cgroup
            await asyncio.sleep(0.01)
        else:
            return


async def test_a_container_that_starts_again_has_its_cpus_again_without_the_plugin(pods, enforcement, last):
    other = pods.container("burstable/pod1/other")
    await enforcement.demand(CpusetDemand(requests={MINE: last}))
    await enforcement.close()
    mine = pods.container("burstable/pod1/mine")
    assert pods.hook(mine, "uid-1", str(last)).returncode == 0
    assert mask(mine) == last
    again = pods.container("burstable/pod1/mine-again")
    assert pods.hook(again, "uid-1", str(last)).returncode == 0
    assert mask(again) == last
    assert mask(other) == pods.cpus - last
    assert mask(pods.container("besteffort/pod2/new")) == pods.cpus - last


async def test_a_plugin_that_starts_again_leaves_owners_what_they_have(pods, enforcement, last):
    await enforcement.demand(CpusetDemand(requests={MINE: last}))
    mine = pods.container("burstable/pod1/mine")
    pods.hook(mine, "uid-1", str(last))
    await enforcement.close()
    await enforcement.demand(CpusetDemand(requests={MINE: last}))
    assert mask(mine) == last


def test_two_requests_of_a_container_are_added_up(pods):
    first, second = CpuSet([min(pods.cpus)]), CpuSet([max(pods.cpus)])
    mine = pods.container("burstable/pod1/mine")
    assert pods.hook(mine, "uid-1", str(first)).returncode == 0
    assert pods.hook(mine, "uid-2", str(second), request="other").returncode == 0
    assert mask(mine) == first | second


async def test_a_process_that_was_there_before_its_record_is_not_mistaken_for_long(pods, enforcement, last):
    """The order that is worst for the hook: its cgroup is seen, and narrowed, before it has said whose it is."""
    await enforcement.demand(CpusetDemand(requests={MINE: last}))
    mine = pods.container("burstable/pod1/mine")
    await has(mine, pods.cpus - last)
    assert pods.hook(mine, "uid-1", str(last)).returncode == 0
    assert mask(mine) == last
    file = pods.pods / "burstable/pod1/mine/cpuset.cpus"
    file.write_text(str(pods.cpus - last))  # as a look would, that began before the record
    await has(mine, last)


async def test_hooks_and_looks_at_the_same_time_end_apart(pods, enforcement, last):
    """Many containers of one claim start while another one in their pod comes and goes."""
    await enforcement.demand(CpusetDemand(requests={MINE: last}))
    loop = asyncio.get_running_loop()
    owners = [pods.container(f"burstable/pod1/mine-{number}") for number in range(8)]
    done = [loop.run_in_executor(None, pods.hook, pid, "uid-1", str(last)) for pid in owners]
    others = []
    for number in range(8):
        others.append(pods.container(f"burstable/pod1/other-{number}"))
        await asyncio.sleep(0.002)
    for each in await asyncio.gather(*done):
        assert each.returncode == 0, each.stderr
    for pid in owners:
        await has(pid, last)
    for pid in others:
        await has(pid, pods.cpus - last)


def test_a_hook_that_cannot_says_so_to_the_pod_and_to_the_plugin(pods):
    mine = pods.container("burstable/pod1/mine")
    beyond = str(max(pods.cpus) + 1)
    found = pods.hook(mine, "uid-1", beyond)
    assert found.returncode == 1
    assert f"claim uid uid-1: container mine does not get CPUs {beyond}: " in found.stderr
    assert pods.records.failures() == [found.stderr.strip()]


def test_a_process_outside_of_pods_is_refused(pods):
    assert "is not below the kubelet's kubepods" in pods.hook(os.getpid(), "uid-1", "0").stderr


def test_a_process_that_is_gone_is_refused(pods):
    pid = pods.container("burstable/pod1/mine")
    pods.processes[-1].kill()
    pods.processes[-1].wait()
    assert "cannot be read" in pods.hook(pid, "uid-1", "0").stderr
