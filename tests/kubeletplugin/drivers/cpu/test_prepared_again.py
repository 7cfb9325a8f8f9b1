"""Prepared claims for CPUs in the plugin: rechecked at each prepare, at the start and at each reconciliation."""

import json

import pytest

from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.contract import PreparedClaim, PrepareError
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.kubeletplugin.cgroups.trees import folders
from tests.kubeletplugin.drivers.cpu.claims import asks
from tests.kubeletplugin.drivers.cpu.test_offline_cpus import MACHINE, MODES, ReplacedCpus, changed, without
from tests.kubeletplugin.fakes import FakeNode


@pytest.fixture
def source():
    return ReplacedCpus(MACHINE)


@pytest.fixture
async def start(tmp_path, source):
    root = folders(tmp_path / "cgroup", {"kubepods": "0-7"}, version=CgroupVersion.V1)
    node, made = FakeNode(tmp_path), []

    def start(mode=CpuDeviceMode.INDIVIDUAL):
        """Return the node, and a plugin on it that has just been started."""
        made.append(
            CpuDriver(
                source,
                node="n1",
                folder=tmp_path / "driver",
                kubelet=tmp_path,
                mode=mode,
                find_cgroups=lambda: find_hierarchy(root),
            )
        )
        return node, node.instance(driver=made[-1])

    yield start
    for each in made:
        await each.close()


def specs(node):
    return {path.name: json.loads(path.read_text()) for path in node.cdi.folder.glob("*.json")}


@MODES
async def test_a_prepared_claim_is_the_same_for_its_next_pod_and_after_a_restart(start, mode, results):
    node, plugin = start(mode)
    request = asks("a", *results)
    claim = request.claim
    node.claims.requests[claim.uid] = request
    first = (await plugin.prepare([claim]))[claim.uid]
    assert isinstance(first, PreparedClaim), first
    spec = specs(node)
    assert len(spec) == 1
    for instance in (plugin, start(mode)[1]):
        await instance.recover()
        assert specs(node) == spec
        await instance.reconcile()
        assert specs(node) == spec
        assert (await instance.prepare([claim]))[claim.uid] == first
    assert await plugin.unprepare([claim]) == {claim.uid: None}
    assert (specs(node), node.remembered) == ({}, {})


@MODES
@pytest.mark.parametrize(
    "now", [pytest.param(without("2-3"), id="offline"), pytest.param(changed(socket=5), id="in-another-socket")]
)
async def test_a_claim_that_cannot_be_used_has_no_spec_until_it_can_and_is_unprepared_all_the_same(
    start, source, mode, results, now
):
    node, plugin = start(mode)
    request = asks("a", *results)
    claim = request.claim
    node.claims.requests[claim.uid] = request
    await plugin.prepare([claim])
    spec = specs(node)
    source.topology = now
    await plugin.reconcile()
    assert specs(node) == {}
    assert isinstance((await plugin.prepare([claim]))[claim.uid], PrepareError)
    assert set(node.remembered) == {claim.uid}
    source.topology = MACHINE
    await plugin.reconcile()
    assert specs(node) == spec
    source.topology = now
    await plugin.reconcile()
    assert await plugin.unprepare([claim]) == {claim.uid: None}
    assert node.remembered == {}
