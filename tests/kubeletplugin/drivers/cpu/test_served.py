"""CPUs over real sockets and folders that look like cgroups: what goes wrong on a node, and what owners keep then."""

import shutil

import pytest

from dra.engine.cpus.cpusets import parse
from kubeletplugin import driver_runner
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.drivers.cpu.driver import DRIVER_NAME, CpuDriver
from tests.kubeletplugin.cgroups.trees import folders, make
from tests.kubeletplugin.drivers.cpu.test_driver import Source
from tests.kubeletplugin.kubelet import until
from tests.kubeletplugin.node import NODE, temporary

PODS = {
    "kubepods": "0-7",
    "kubepods/burstable": "0-7",
    "kubepods/burstable/pod1": "0-7",
    "kubepods/burstable/pod1/owner": "0-7",
    "kubepods/besteffort": "0-7",
    "kubepods/besteffort/pod2": "0-7",
}


class Machine:
    """A node whose cgroups are folders."""

    def __init__(self, node):
        self.node = node
        self.kubelet = node.root / "kubelet"
        self.kubelet.mkdir()
        self.folder = node.plugins / DRIVER_NAME
        self.cgroups = folders(node.root / "cgroup", PODS, version=CgroupVersion.V1)

    def driver(self):
        return CpuDriver(
            Source(),
            node=NODE,
            folder=self.folder,
            kubelet=self.kubelet,
            reserved=parse("0-1"),
            find_cgroups=lambda: find_hierarchy(self.cgroups),
        )

    def file(self, name):
        return self.cgroups / "cpuset" / "kubepods" / name / "cpuset.cpus"

    def cpus(self, name):
        return self.file(name).read_text().strip()

    def born(self, name):
        make(self.file(name).parent, "0-7", version=CgroupVersion.V1, effective="0-7")

    async def owner(self, kubelet):
        """Prepare a claim of CPUs 2 and 3 and do what the hook of its container does."""
        claim = await self.node.claim(
            "a", *({"driver": DRIVER_NAME, "device": f"cpu-{n}", "request": "r"} for n in (2, 3))
        )
        (devices,) = (await kubelet.prepare(claim)).values()
        assert not isinstance(devices, str), devices
        record = self.folder / "containers/owner" / f"{claim['metadata']['uid']}.r"
        record.parent.mkdir()
        record.write_text("2-3\n")
        self.file("burstable/pod1/owner").write_text("2-3")
        return record


@pytest.fixture
async def machine(monkeypatch):
    monkeypatch.setattr(driver_runner, "ENFORCE_INTERVAL", 0.1)
    async with temporary() as node:
        yield Machine(node)


async def test_new_containers_are_kept_off_an_owners_cpus_while_the_checkpoint_cannot_be_read(machine):
    async with machine.node.registered(machine.driver()) as kubelet:
        await machine.owner(kubelet)
    machine.node.checkpoint(DRIVER_NAME).write_bytes(b"{")
    machine.born("burstable/pod3")
    async with machine.node.registered(machine.driver()):
        await until(lambda: machine.cpus("burstable/pod3") == "0-1,4-7")
        machine.born("pod4")
        await until(lambda: machine.cpus("pod4") == "0-1,4-7")
        assert machine.cpus("burstable/pod1/owner") == "2-3"


@pytest.mark.parametrize("removed", [pytest.param("", id="all-of-it"), pytest.param("containers", id="its-records")])
async def test_a_folder_that_is_removed_under_the_plugin_is_written_again_and_the_owner_keeps_its_cpus(
    machine, removed, caplog
):
    async with machine.node.registered(machine.driver()) as kubelet:
        record = await machine.owner(kubelet)
        machine.born("pod3")
        await until(lambda: machine.cpus("pod3") == "0-1,4-7")  # the record has been read
        shutil.rmtree(machine.folder / removed)
        await until(lambda: record.exists() and (machine.folder / "hook.sh").exists())
        machine.born("pod4")
        await until(lambda: machine.cpus("pod4") == "0-1,4-7")
        assert machine.cpus("burstable/pod1/owner") == "2-3"
        await until(lambda: not kubelet.application.not_ready_reasons())
    assert "had been removed; written again from memory" in caplog.text
    async with machine.node.registered(machine.driver()):
        machine.born("pod5")
        await until(lambda: machine.cpus("pod5") == "0-1,4-7")
        assert machine.cpus("burstable/pod1/owner") == "2-3"
