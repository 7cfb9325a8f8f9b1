"""The class BestEffort limited to fewer CPUs while it is held back: written by the CPU driver, as all cpusets are."""

import json

import pytest

from dra.engine.cpus.cpusets import NO_CPUS, parse
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.drivers.cpu.cpuset_store import CpusetDemand, CpusetStore
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.kubeletplugin.drivers.cpu.test_cpu_pools import BOTH, CONTAINERS, LSR, MACHINE, Node, Source


@BOTH
async def test_only_the_class_best_effort_is_limited_and_gets_all_cpus_back(tmp_path, version):
    node = Node(tmp_path, version)
    node.driver.limit_best_effort(parse("4-5"))
    await node.driver.enforce([])
    assert node.seen(*CONTAINERS) == ["0-15", "0-15", "4-5"]
    node.driver.limit_best_effort(NO_CPUS)
    await node.driver.enforce([])
    assert node.seen(*CONTAINERS, "besteffort") == ["0-15"] * 4
    await node.driver.close()


@BOTH
async def test_claims_come_before_the_limit(tmp_path, version):
    node = Node(tmp_path, version, kept="0-1")
    node.driver.limit_best_effort(parse("2-5"))
    await node.start("lsr", 2, LSR)
    assert node.seen(CONTAINERS[0]) == ["4-15"]
    assert node.seen(CONTAINERS[2]) == ["2-5"], "the LSR pod shares its CPUs with the class"
    candidates = node.driver.best_effort_candidates()
    assert (str(candidates.shared), str(candidates.lsr)) == ("4-15", "2-3")
    await node.driver.close()


async def test_a_restart_keeps_the_limit_until_it_is_lifted(tmp_path):
    node = Node(tmp_path, CgroupVersion.V1)
    node.driver.limit_best_effort(parse("4-5"))
    await node.driver.enforce([])
    await node.driver.close()
    again = CpuDriver(
        Source(MACHINE),
        node="n1",
        folder=tmp_path / "driver",
        kubelet=tmp_path,
        mode=CpuDeviceMode.NODE,
        reserved=parse("15"),
        find_cgroups=lambda: find_hierarchy(tmp_path / "cgroup"),
    )
    assert str(again.best_effort_limit) == "4-5"
    await again.enforce([])
    assert node.seen("besteffort") == ["4-5"]
    again.limit_best_effort(NO_CPUS)
    assert await anext(again.changes()) is None, "enforced at once"
    await again.enforce([])
    assert node.seen("besteffort") == ["0-15"]
    await again.close()


async def test_beside_a_kubelet_that_writes_cpusets_there_are_no_candidates(tmp_path):
    node = Node(tmp_path, CgroupVersion.V1)
    assert node.driver.best_effort_candidates() is not None
    (tmp_path / "cpu_manager_state").write_text('{"policyName": "static", "defaultCpuSet": "0-15"}')
    assert node.driver.best_effort_candidates() is None
    await node.driver.close()


@pytest.mark.parametrize(
    ("limit", "pool"),
    [
        pytest.param("", "0-3,6-7", id="no-limit"),
        pytest.param("2-3", "2-3", id="within-the-pool"),
        pytest.param("3-5", "3", id="a-part-has-become-a-claims"),
        pytest.param("4-5", "0-3,6-7", id="all-has-become-a-claims-so-the-class-has-its-pool"),
    ],
)
def test_the_pool_of_the_class_is_never_empty(limit, pool):
    demand = CpusetDemand(requests={"uid.cpus": parse("4-5")}, best_effort_limit=parse(limit))
    assert str(demand.pools(parse("0-7")).best_effort) == pool


def test_the_limit_is_stored_and_earlier_builds_read_the_rest(tmp_path):
    store = CpusetStore(tmp_path)
    demand = CpusetDemand(requests={}, best_effort_limit=parse("2-3"))
    store.put_demand(demand)
    assert CpusetStore(tmp_path).demand() == demand
    content = json.loads((tmp_path / "demand.json").read_text())
    assert content == {"version": 1, "requests": {}, "apart": "", "kept": "", "bestEffortLimit": "2-3"}
    store.put_demand(CpusetDemand(requests={}, kept=parse("0")))
    assert "bestEffortLimit" not in json.loads((tmp_path / "demand.json").read_text())


def test_a_demand_of_an_earlier_build_has_no_limit(tmp_path):
    (tmp_path / "demand.json").write_text('{"version": 1, "requests": {"a.b": "1"}, "apart": "", "kept": "0"}')
    assert CpusetStore(tmp_path).demand().best_effort_limit == NO_CPUS
