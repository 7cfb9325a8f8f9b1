"""The pools of containers without CPUs of their own (koordinator-rest.md §3.4, vectors 5, 11 and 14)."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra.engine.cpus.cpusets import parse
from dra.model.quantities import NANOS_PER_UNIT
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.contract import PrepareError
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.cgroups.trees import folders
from tests.kubeletplugin.drivers.cpu.claims import asks, of_node
from tests.kubeletplugin.drivers.cpu.test_driver import Source

BOTH = pytest.mark.parametrize("version", [pytest.param(version, id=version.name) for version in CgroupVersion])

MACHINE = uniform_topology(sockets=2, cores=4, threads=2)
"""Topology (2,1,4,2): CPUs 0-7 | 8-15."""

LSR = {"sharedWith": "BestEffort"}
LSE = None

PODS = (
    "burstable",
    "burstable/podls",
    "burstable/podls/ls",
    "besteffort",
    "besteffort/podbe",
    "besteffort/podbe/be",
    "podguaranteed",
    "podguaranteed/guaranteed",
    "podbound",
    "podbound/bound",
)
"""Koordinator's LS pod, a BE pod, a Guaranteed pod without a label, and a pod whose container has a claim."""


class Node:
    """A node in mode *node* whose cgroups are folders."""

    def __init__(self, folder, version, *, kept=""):
        empty = "0-15" if version is CgroupVersion.V1 else ""
        cgroups = {"kubepods": "0-15"} | {f"kubepods/{name}": empty for name in PODS}
        root = folders(folder / "cgroup", cgroups, version=version, cpus="0-15")
        self.pods = (root / "cpuset" if version is CgroupVersion.V1 else root) / "kubepods"
        self.folder = folder
        self.driver = CpuDriver(
            Source(MACHINE),
            node="n1",
            folder=folder / "driver",
            kubelet=folder,
            mode=CpuDeviceMode.NODE,
            reserved=parse("15"),
            find_cgroups=lambda: find_hierarchy(root),
        )
        if kept:
            self.driver.apply_node_reservation(
                f'{{"reservedCPUs": "{kept}"}}', allocatable={"cpu": 16 * NANOS_PER_UNIT}
            )
        self.held = {}

    async def start(self, name, count, config):
        self.held[name] = self.driver.prepare(asks(name, of_node(count), config=config), self.held.values())
        await self.driver.enforce(self.held.values())

    async def end(self, name):
        del self.held[name]
        await self.driver.enforce(self.held.values())

    def hook(self, name, container):
        """Do what the hook of a container does first."""
        record = self.folder / "driver/containers" / container
        record.mkdir(exist_ok=True)
        (record / f"uid-{name}.cpus").write_text("whatever\n")

    def cpus(self, name):
        return parse((self.pods / name / "cpuset.cpus").read_text()) or parse("0-15")

    def seen(self, *names):
        return [str(self.cpus(name)) for name in names]

    def all(self):
        return {name: self.cpus(name) for name in PODS}


CONTAINERS = ("burstable/podls/ls", "podguaranteed/guaranteed", "besteffort/podbe/be")


@BOTH
async def test_vector_5_best_effort_runs_beside_lsr_and_nobody_beside_lse(tmp_path, version):
    node = Node(tmp_path, version, kept="0-1")
    await node.start("lse", 2, LSE)
    assert node.seen(*CONTAINERS) == ["4-15", "4-15", "4-15"]
    await node.start("lsr", 4, LSR)
    assert node.seen(*CONTAINERS) == ["8-15", "8-15", "4-15"]
    await node.end("lse")
    assert node.seen(*CONTAINERS) == ["2-3,8-15", "2-3,8-15", "2-15"]
    await node.end("lsr")
    assert node.seen(*CONTAINERS) == ["2-15", "2-15", "2-15"]
    await node.driver.close()


@BOTH
async def test_vector_11_the_kubelets_class_decides_on_the_pool(tmp_path, version):
    node = Node(tmp_path, version)
    await node.start("lsr", 2, LSR)
    assert node.seen(*CONTAINERS) == ["0-7,10-15", "0-7,10-15", "0-15"]
    node.hook("lsr", "bound")
    await node.end("lsr")
    await node.start("lsr", 2, LSR)
    assert node.seen("podbound/bound", "podbound") == ["8-9", "0-15"]
    assert node.seen("burstable", "besteffort") == ["0-7,10-15", "0-15"]
    await node.driver.close()


async def test_vector_11_beside_the_kubelets_static_policy_nothing_is_written(tmp_path):
    (tmp_path / "cpu_manager_state").write_text('{"policyName": "static", "defaultCpuSet": "0-15"}')
    node = Node(tmp_path, CgroupVersion.V1)
    before = node.all()
    await node.driver.enforce([])
    assert node.all() == before
    await node.driver.close()


async def test_the_pools_survive_a_restart_of_the_plugin(tmp_path):
    node = Node(tmp_path, CgroupVersion.V1)
    await node.start("lsr", 2, LSR)
    await node.driver.close()
    (node.pods / "besteffort/podbe/be/cpuset.cpus").write_text("0-7,10-15")
    again = CpuDriver(
        Source(MACHINE),
        node="n1",
        folder=tmp_path / "driver",
        kubelet=tmp_path,
        mode=CpuDeviceMode.NODE,
        reserved=parse("15"),
        find_cgroups=lambda: find_hierarchy(tmp_path / "cgroup"),
    )
    await again.resume_enforcement()
    assert node.seen(*CONTAINERS) == ["0-7,10-15", "0-7,10-15", "0-15"]
    await again.close()


claims = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([LSR, LSE]), st.booleans()), min_size=1, max_size=4
).flatmap(lambda found: st.tuples(st.just(found), st.permutations(range(len(found)))))


@settings(max_examples=20, deadline=None)
@given(
    version=st.sampled_from(CgroupVersion),
    kept=st.sampled_from(["", "0-1", "4,6"]),
    started=claims,
)
def test_vector_14_in_whatever_order_claims_end_the_pools_are_all_but_what_is_kept(version, kept, started):
    async def play(folder):
        node = Node(folder, version, kept=kept)
        await node.driver.enforce([])
        before = node.all()
        found, order = started
        lse = parse("")
        for number, (count, config, runs) in enumerate(found):
            try:
                await node.start(f"c{number}", count, config)
            except PrepareError:
                continue
            own = parse(node.held[f"c{number}"].state["requests"]["cpus"])
            lse |= own if config is LSE else parse("")
            if runs:
                node.hook(f"c{number}", "bound")
            bound = parse(",".join(each.state["requests"]["cpus"] for each in node.held.values()))
            everything = parse("0-15") - parse(kept)
            assert node.cpus(CONTAINERS[0]) == node.cpus(CONTAINERS[1]) == everything - bound
            assert node.cpus(CONTAINERS[2]) == everything - lse
        for number in order:
            if f"c{number}" in node.held:
                await node.end(f"c{number}")
        await node.driver.enforce([])
        assert all(node.cpus(name) == parse("0-15") - parse(kept) for name in CONTAINERS)
        after = node.all()
        assert all(after[name] >= before[name] for name in PODS)
        await node.driver.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))
