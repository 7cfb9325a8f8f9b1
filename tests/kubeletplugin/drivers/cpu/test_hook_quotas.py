"""The hook lifts CPU quotas, on folders that look like cgroups; `test_real_cgroups` does so on the kernel's."""

import json
import subprocess

import pytest

from kubeletplugin.drivers.cpu.cpuset_store import CpusetStore
from kubeletplugin.drivers.cpu.device_modes import UNTHROTTLED

POD = "/kubepods/burstable/pod1"
AT = f"{POD}/mine"

V1 = {
    "proc": f"4:cpuset:{AT}\n3:cpu,cpuacct:{AT}\n0::/\n",
    "cpusets": "cpuset",
    "effective": "cpuset.effective_cpus",
    "quotas": "cpu,cpuacct",
    "file": "cpu.cfs_quota_us",
    "limit": "200000",
    "none": "-1",
}
V1_LINKS = V1 | {"proc": f"4:cpuset:{AT}\n3:cpuacct,cpu:{AT}\n", "quotas": "cpu"}
V2 = {
    "proc": f"0::{AT}\n",
    "cpusets": ".",
    "effective": "cpuset.cpus.effective",
    "quotas": ".",
    "file": "cpu.max",
    "limit": "200000 100000",
    "none": "max",
}
VERSIONS = pytest.mark.parametrize(
    "kind", [pytest.param(V1, id="v1"), pytest.param(V1_LINKS, id="v1-linked"), pytest.param(V2, id="v2")]
)


class Machine:
    """Cgroups of a container with a limit, and the hook."""

    def __init__(self, folder, kind):
        self.kind = kind
        self.root, self.proc = folder / "cgroup", folder / "proc"
        for at in (POD.rpartition("/")[0], POD, AT):
            self.make(kind["cpusets"], at, {"cpuset.cpus": "2-3", kind["effective"]: "2-3"})
            self.make(kind["quotas"], at, {kind["file"]: kind["limit"]})
        if kind is V2:
            (self.root / "cgroup.controllers").write_text("cpu cpuset\n")
        (self.proc / "42").mkdir(parents=True)
        (self.proc / "42/cgroup").write_text(kind["proc"])
        self.store = CpusetStore(folder / "driver")
        self.store.install()

    def make(self, controller, at, files):
        folder = self.root / controller / at.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")

    def hook(self, *more):
        return subprocess.run(
            ["/bin/sh", str(self.store.hook), "uid-1", "cpus", "2-3", *more],
            input=json.dumps({"pid": 42}),
            env={"DRA_RESERVE_CGROUPS": str(self.root), "DRA_RESERVE_PROC": str(self.proc)},
            text=True,
            capture_output=True,
            timeout=20,
            check=False,
        )

    def file(self, at):
        return self.root / self.kind["quotas"] / at.strip("/") / self.kind["file"]

    def quotas(self):
        return [self.file(at).read_text().strip() for at in (AT, POD, POD.rpartition("/")[0])]


@pytest.fixture
def machine(tmp_path, kind):
    return Machine(tmp_path, kind)


@VERSIONS
def test_the_container_and_its_pod_have_no_quota_and_the_class_keeps_its_own(machine):
    assert machine.hook(UNTHROTTLED).returncode == 0
    none, limit = machine.kind["none"], machine.kind["limit"]
    assert machine.quotas() == [none, none, limit]
    assert machine.store.failures() == []


@VERSIONS
def test_other_claims_keep_the_limits_of_their_containers(machine):
    assert machine.hook().returncode == 0
    assert set(machine.quotas()) == {machine.kind["limit"]}


@VERSIONS
def test_a_machine_without_quotas_is_no_obstacle(machine):
    for at in (AT, POD):
        machine.file(at).unlink()
    assert machine.hook(UNTHROTTLED).returncode == 0
    assert machine.store.failures() == []


@VERSIONS
def test_a_quota_that_cannot_be_lifted_is_told_and_the_container_starts(machine):
    machine.file(POD).unlink()
    machine.file(POD).mkdir()
    assert machine.hook(UNTHROTTLED).returncode == 0
    (told,) = machine.store.failures()
    assert told.startswith("claim uid uid-1: container mine runs with its CPU quota: ")
    assert machine.file(AT).read_text() == machine.kind["none"]
