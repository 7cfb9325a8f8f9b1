import asyncio
import json

import pytest

from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.cpus.cpusets import CpuSet, parse
from dra.engine.cpus.topology import CpuTopology
from dra.model.quantities import NANOS_PER_UNIT
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.contract import ContainerEdits, PrepareError
from kubeletplugin.drivers.cpu import driver as module
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.cgroups.trees import folders
from tests.kubeletplugin.drivers.cpu.claims import asks, cpu, part

MACHINE = uniform_topology(cores=4, threads=2)


class Source:
    """CPUs that come and go."""

    def __init__(self, topology=MACHINE):
        self.topology = topology

    def read(self):
        return self.topology

    def mark(self):
        return str(self.topology.online)


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def kubelet(tmp_path):
    folder = tmp_path / "kubelet"
    folder.mkdir()
    return folder


@pytest.fixture
async def make(tmp_path, source, kubelet):
    root = folders(tmp_path / "cgroup", {"kubepods": "0-7", "kubepods/pod1": "0-7"}, version=CgroupVersion.V1)
    made = []

    def make(**fields):
        fields = {"find_cgroups": lambda: find_hierarchy(root)} | fields
        made.append(CpuDriver(source, node="n1", folder=tmp_path / "driver", kubelet=kubelet, **fields))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def names(driver):
    ((pool,),) = (driver.pools(),)
    return [device.name for device in pool.devices]


def static(kubelet):
    policy(kubelet, "static")


def policy(kubelet, name):
    (kubelet / "cpu_manager_state").write_text(json.dumps({"policyName": name}))


def test_a_core_is_reserved_unless_somebody_says_otherwise(make):
    assert names(make()) == [f"cpu-{n}" for n in range(2, 8)]
    assert names(make(reserved=parse("7"))) == [f"cpu-{n}" for n in range(7)]
    assert names(make(mode=CpuDeviceMode.GROUPED)) == ["numa-0"]


@pytest.mark.parametrize("reserved", [CpuSet(), parse("64-65")])
def test_at_least_one_cpu_that_is_online_must_be_reserved(make, reserved):
    with pytest.raises(ValueError, match="node n1: reserved CPUs"):
        make(reserved=reserved)


def keeps(driver, **content):
    driver.apply_node_reservation(json.dumps(content) if content else None, allocatable={"cpu": 8 * NANOS_PER_UNIT})


@pytest.mark.parametrize(
    ("content", "left"),
    [
        pytest.param({"reservedCPUs": "4-7"}, "2-3", id="named"),
        pytest.param({"reservedCPUs": "1-2"}, "3-7", id="named-beside-the-core-of-the-system"),
        pytest.param({"resources": {"cpu": "4"}}, "6-7", id="an-amount-is-whole-cores-and-one-is-left-to-containers"),
        pytest.param({"reservedCPUs": "0-1"}, "4-7", id="the-core-of-the-system-so-another-is-left-to-containers"),
        pytest.param({"reservedCPUs": "0-6"}, "", id="the-last-one-is-left-to-containers"),
        pytest.param({"resources": {"cpu": "1"}, "reservedCPUs": "4-5"}, "2-3,6-7", id="names-win"),
        pytest.param({"reservedCPUs": "6-7", "applyPolicy": "ReservedCPUsOnly"}, "2-5", id="only-cpus"),
        pytest.param({"resources": {"memory": "1Gi"}, "applyPolicy": "ReservedCPUsOnly"}, "2-7", id="no-cpus"),
        pytest.param({"reservedCPUs": "0-7"}, "", id="all-of-them"),
        pytest.param({}, "2-7", id="nothing"),
    ],
)
def test_what_the_node_keeps_is_not_given_away(make, content, left):
    driver = make()
    keeps(driver, **content)
    assert names(driver) == [f"cpu-{n}" for n in parse(left)]


@pytest.mark.parametrize(
    ("content", "left"),
    [
        pytest.param({}, {"numa-0": "2", "numa-1": "4"}, id="total-without-the-systems"),
        pytest.param({"reservedCPUs": "2,4-6"}, {"numa-0": "1", "numa-1": "1"}, id="each-by-its-share"),
        pytest.param({"reservedCPUs": "4-7"}, {"numa-0": "2"}, id="a-whole-one"),
    ],
)
def test_each_numa_node_has_less_by_its_share_of_what_the_node_keeps(make, source, content, left):
    source.topology = uniform_topology(sockets=2, cores=2, threads=2)
    driver = make(mode=CpuDeviceMode.GROUPED)
    keeps(driver, **content)
    ((pool,),) = (driver.pools(),)
    assert {each.name: each.capacity["dra.cpu/cpu"]["value"] for each in pool.devices} == left


def test_what_the_node_keeps_is_refused_to_a_claim_that_was_allocated_before(make):
    driver = make()
    keeps(driver, reservedCPUs="4-5")
    with pytest.raises(PrepareError, match=r"CPUs 4 are kept by the node \(4-5\)"):
        driver.prepare(asks("a", cpu(4)), [])


async def test_a_claim_keeps_what_the_node_keeps_since_and_nobody_gets_it_afterwards(make):
    driver = make()
    held = driver.prepare(asks("a", cpu(4)), [])
    keeps(driver, reservedCPUs="4-5")
    await driver.enforce([held])
    with pytest.raises(PrepareError, match="kept by the node"):
        driver.prepare(asks("b", cpu(4)), [held])


@pytest.mark.parametrize(
    "annotation",
    ["{", '{"reservedCPUs": "9-8"}', '{"reservedCPUs": "64"}', '{"reservedCPU": "2"}', '{"resources": {"cpu": "9"}}'],
)
def test_an_annotation_that_cannot_be_read_changes_nothing(make, annotation):
    driver = make()
    keeps(driver, reservedCPUs="4-7")
    with pytest.raises(MalformedAnnotationError, match=r"^annotation node\.koordinator\.sh/reservation: "):
        driver.apply_node_reservation(annotation, allocatable={"cpu": 8 * NANOS_PER_UNIT})
    assert names(driver) == ["cpu-2", "cpu-3"]


def test_what_the_node_keeps_is_remembered_over_a_restart_until_it_says_otherwise(make):
    keeps(make(), reservedCPUs="4-7")
    again = make()
    assert names(again) == ["cpu-2", "cpu-3"]
    keeps(again)
    assert names(again) == names(make()) == [f"cpu-{n}" for n in range(2, 8)]


async def test_what_the_node_keeps_is_published_at_once(make, monkeypatch):
    monkeypatch.setattr(module, "POLL_INTERVAL", 60.0)
    driver = make()
    changes = driver.changes()
    keeps(driver, reservedCPUs="4-7")
    async with asyncio.timeout(60):
        await anext(changes)
    await changes.aclose()


def test_the_first_device_of_each_request_brings_the_cpus_of_the_whole_request(make, tmp_path):
    found = make().prepare(asks("a", cpu(2), cpu(3), cpu(5, request="one")), [])
    hook = tmp_path / "driver/hook.sh"
    first, second, third = found.devices
    assert hook.stat().st_mode & 0o777 == 0o755
    assert first.edits.env == ("DRA_CPUSET_uid_a_cpus=2-3",)
    (only,) = first.edits.hooks
    assert (only.hook_name, only.path) == ("createRuntime", "/bin/sh")
    assert only.args == ("sh", str(hook), "uid-a", "cpus", "2-3")
    assert second.edits == ContainerEdits()
    assert third.edits.hooks[0].args[2:] == ("uid-a", "one", "5")


def test_who_only_looks_gets_no_cpus(make):
    (device,) = make().prepare(asks("a", cpu(2, admin_access=True)), []).devices
    assert device.admin
    assert device.edits == ContainerEdits()


def test_shares_keep_their_ids(make):
    (device,) = make(mode=CpuDeviceMode.GROUPED).prepare(asks("a", part(0, "2", share="s-1")), []).devices
    assert (device.device, device.share, device.edits.hooks[0].args[-1]) == ("numa-0", "s-1", "2-3")


async def test_others_lose_what_a_claim_gets_and_have_it_back(make, tmp_path):
    driver = make()
    file = tmp_path / "cgroup/cpuset/kubepods/pod1/cpuset.cpus"
    await driver.enforce([driver.prepare(asks("a", cpu(2), cpu(3)), [])])
    assert file.read_text() == "0-1,4-7\n"
    await driver.enforce([])
    assert file.read_text() == "0-7\n"


@pytest.mark.parametrize(
    ("content", "claimed", "shared"),
    [
        pytest.param({"reservedCPUs": "4-5"}, (), "0-3,6-7", id="named"),
        pytest.param({"reservedCPUs": "4-5", "applyPolicy": "ReservedCPUsOnly"}, (), "0-3,6-7", id="only-cpus"),
        pytest.param({"resources": {"cpu": "2500m"}}, (), "3-7", id="an-amount"),
        pytest.param({"resources": {"cpu": 0}}, (), "0-7", id="no-cpus"),
        pytest.param({"reservedCPUs": "4-5"}, (2, 3), "0-1,6-7", id="beside-a-claim"),
        pytest.param({"reservedCPUs": "0-7"}, (), "0-7", id="all-of-them-cannot-be-kept-from-everybody"),
    ],
)
async def test_what_the_node_keeps_is_no_cpu_of_containers_without_claims(make, tmp_path, content, claimed, shared):
    driver = make()
    file = tmp_path / "cgroup/cpuset/kubepods/pod1/cpuset.cpus"
    held = [driver.prepare(asks("a", *map(cpu, claimed)), [])] if claimed else []
    keeps(driver, **content)
    await driver.enforce(held)
    assert parse(file.read_text().strip()) == parse(shared)
    keeps(driver)
    await driver.enforce([])
    assert file.read_text() == "0-7\n"


async def test_what_the_node_keeps_is_kept_by_a_plugin_that_starts_again(make, tmp_path):
    first = make()
    keeps(first, reservedCPUs="4-5")
    await first.enforce([])
    await first.close()
    await make().enforce([])
    assert (tmp_path / "cgroup/cpuset/kubepods/pod1/cpuset.cpus").read_text() == "0-3,6-7\n"


async def test_isolated_cpus_are_left_to_claims_as_long_as_there_are_claims(make, source, tmp_path):
    source.topology = CpuTopology(cpus=MACHINE.cpus, isolated=parse("6-7"))
    driver = make()
    await driver.enforce([driver.prepare(asks("a", cpu(2)), [])])
    assert (tmp_path / "cgroup/cpuset/kubepods/pod1/cpuset.cpus").read_text() == "0-1,3-5\n"


async def test_beside_the_kubelets_static_manager_it_steps_aside_and_says_so(make, kubelet, tmp_path):
    driver = make()
    claim = driver.prepare(asks("a", cpu(2)), [])
    static(kubelet)
    assert names(driver) == []
    assert "policy static" in driver.disabled_reason
    with pytest.raises(
        PrepareError, match=r"claim ml/b .*no CPUs are allocated on this node: the kubelet allocates CPUs"
    ):
        driver.prepare(asks("b", cpu(3)), [])
    with pytest.raises(PrepareError, match="node: CPUs are not enforced"):
        await driver.enforce([claim])
    await driver.enforce([])
    assert (tmp_path / "cgroup/cpuset/kubepods/pod1/cpuset.cpus").read_text() == "0-7\n"
    assert "no CPUs are allocated on this node: the kubelet allocates CPUs" in driver.degraded_reason
    assert {each.healthy for each in driver.health()} == {False}
    assert "other containers may run on it: the kubelet allocates CPUs" in driver.health()[0].message


@pytest.mark.parametrize("mode", list(CpuDeviceMode))
async def test_a_state_file_that_was_replaced_leaves_claims_their_cpus_and_gives_no_others_away(
    make, kubelet, tmp_path, mode
):
    policy(kubelet, "none")
    driver = make(mode=mode)
    result = cpu(2) if mode is CpuDeviceMode.INDIVIDUAL else part(0, "1")
    claim = driver.prepare(asks("a", result), [])
    file = kubelet / "cpu_manager_state"
    with file.open() as mounted:
        file.unlink()
        file.symlink_to(f"/proc/self/fd/{mounted.fileno()}")  # a file without a name, as in a mount of it
        assert names(driver) == []
        with pytest.raises(PrepareError, match="has been removed or replaced"):
            driver.prepare(asks("b", cpu(3)), [claim])
        await driver.enforce([claim])
        assert (tmp_path / "cgroup/cpuset/kubepods/pod1/cpuset.cpus").read_text() == "0-1,3-7\n"
        assert "delete the plugin's pod on this node" in driver.degraded_reason
        assert all(each.healthy for each in driver.health())


async def test_what_may_change_what_is_published_is_told(make, source, kubelet, monkeypatch):
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.001)
    driver = make()
    changes = driver.changes()
    source.topology = CpuTopology(cpus=MACHINE.cpus[:6], offline=parse("6-7"))
    await anext(changes)
    assert names(driver) == ["cpu-2", "cpu-3", "cpu-4", "cpu-5"]
    static(kubelet)
    await anext(changes)
    assert names(driver) == []
    await changes.aclose()


async def test_a_cpu_that_goes_offline_is_not_well(make, source, monkeypatch):
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.001)
    driver = make()
    assert all(each.healthy for each in driver.health())
    source.topology = CpuTopology(cpus=MACHINE.cpus[:7], offline=parse("7"))
    changes = driver.changes()
    await anext(changes)
    await changes.aclose()
    (sick,) = [each for each in driver.health() if not each.healthy]
    assert (sick.device, sick.message) == ("cpu-7", "CPU 7 is offline")


async def test_where_containers_are_none_cpus_are_only_named(make):
    driver = make(find_cgroups=None)
    found = driver.prepare(asks("a", cpu(2)), [])
    assert found.devices[0].edits == ContainerEdits(env=("DRA_CPUSET_uid_a_cpus=2",))
    await driver.enforce([found])
