"""CPUs of a claim that go offline: the hook of a container that starts, the claim's next pod, and the plugin's restart.

Folders play cgroups, and the kernel's part with them: what is in effect is what was written and is online.
"""

import json
import subprocess

import pytest
from msgspec.structs import replace

from dra.engine.cpus.cpusets import parse
from dra.engine.cpus.topology import CoreType, CpuTopology
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.model.taints import DeviceTaint
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.contract import PrepareError
from kubeletplugin.drivers.cpu.cpu_places import describe_moved_cpus
from kubeletplugin.drivers.cpu.cpuset_store import CpusetStore
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.cgroups.trees import folders
from tests.kubeletplugin.drivers.cpu.claims import asks, claim, cpu, of_node, part
from tests.kubeletplugin.drivers.cpu.test_driver import Source

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
BOTH = pytest.mark.parametrize("version", [pytest.param(version, id=version.name) for version in CgroupVersion])

MACHINE = uniform_topology(sockets=2, cores=2, threads=2)
AT = "kubepods/burstable/pod1/mine"


def without(cpus, *, machine=MACHINE):
    """Return the machine with these CPUs switched off."""
    gone = parse(cpus)
    return CpuTopology(cpus=tuple(each for each in machine.cpus if each.id not in gone), offline=gone)


# --- the hook


class Machine:
    """A pod's cgroup in which the kernel leaves the CPUs that are online, and the hook."""

    def __init__(self, folder, version, *, online, effective):
        self.version = version
        levels = ["kubepods", "kubepods/burstable", "kubepods/burstable/pod1", AT]
        own = dict.fromkeys(levels, "" if version is V2 else online)
        self.root = folders(folder / "cgroup", own | {"kubepods": online}, version=version, cpus=online)
        self.top = self.root / ("cpuset" if version is V1 else "")
        self.file("cpuset.cpus.effective" if version is V2 else "cpuset.effective_cpus").write_text(f"{effective}\n")
        self.proc = folder / "proc"
        (self.proc / "42").mkdir(parents=True)
        (self.proc / "42/cgroup").write_text(f"4:cpuset:/{AT}\n" if version is V1 else f"0::/{AT}\n")
        self.store = CpusetStore(folder / "driver")
        self.store.install()

    def file(self, name="cpuset.cpus"):
        return self.top / AT / name

    def hook(self, cpus):
        return subprocess.run(
            ["/bin/sh", str(self.store.hook), "uid-a", "cpus", cpus],
            input=json.dumps({"id": "by-hand", "pid": 42}),
            env={"DRA_RESERVE_CGROUPS": str(self.root), "DRA_RESERVE_PROC": str(self.proc)},
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )


@BOTH
@pytest.mark.parametrize(
    ("cpus", "online", "left"),
    [
        pytest.param("2-3", "0-2,4-7", "2", id="one-of-two"),
        pytest.param("2-5,7", "0,2,4-7", "2,4-5,7", id="several"),
        pytest.param("2-3,8-11", "0-3,9-10", "2-3,9-10", id="two-digits"),
    ],
)
def test_a_container_that_starts_again_goes_on_with_the_cpus_that_are_online(tmp_path, version, cpus, online, left):
    machine = Machine(tmp_path, version, online=online, effective=left)
    if version is V1:  # refuses a cpuset with offline CPUs: the file is replaced only by what the hook writes next
        machine.file("cpuset.effective_cpus").write_text(f"{left}\n")
    result = machine.hook(cpus)
    assert result.returncode == 0, result.stderr
    assert parse(machine.file().read_text()) >= parse(left)
    (told,) = machine.store.failures()
    assert told == f"claim uid uid-a: container mine runs on CPUs {left} of {cpus}: the others are offline"


@BOTH
def test_a_container_none_of_whose_cpus_is_online_is_refused_at_once_with_the_way_out(tmp_path, version):
    machine = Machine(tmp_path, version, online="0-1,4-7", effective="0-1,4-7")
    result = machine.hook("2-3")
    assert result.returncode == 1
    assert result.stderr.strip() == (
        "claim uid uid-a: container mine does not get CPUs 2-3: none of them is online (pods have 0-1,4-7): "
        "delete the pod, so that the claim is allocated again, or switch one of them on"
    )


@pytest.mark.parametrize("version", [V1])
def test_in_v1_only_cpus_that_are_online_are_written(tmp_path, version):
    machine = Machine(tmp_path, version, online="0-2,4-7", effective="0-1")
    assert machine.hook("2-3").returncode == 1  # the kernel of this test reverts each write
    assert machine.file().read_text().strip() == "2"


@pytest.mark.parametrize("version", [V2])
def test_in_v2_a_cpu_that_is_offline_stays_written_for_its_return(tmp_path, version):
    machine = Machine(tmp_path, version, online="0-2,4-7", effective="2")
    assert machine.hook("2-3").returncode == 0
    assert machine.file().read_text().strip() == "2-3"


@BOTH
def test_other_cpus_in_effect_than_those_that_are_online_are_refused(tmp_path, version):
    machine = Machine(tmp_path, version, online="0-2,4-7", effective="2,4")
    result = machine.hook("2-3")
    assert result.returncode == 1
    assert "the kernel refuses or reverts the write" in result.stderr


# --- the driver


class ReplacedCpus(Source):
    """CPUs that may be others under the same numbers."""

    def mark(self):
        return repr(self.topology.cpus)


@pytest.fixture
def source():
    return ReplacedCpus(MACHINE)


@pytest.fixture
async def make(tmp_path, source):
    root = folders(tmp_path / "cgroup", {"kubepods": "0-7"}, version=V1)
    made = []

    def make(**fields):
        made.append(
            CpuDriver(
                source,
                node="n1",
                folder=tmp_path / "driver",
                kubelet=tmp_path,
                find_cgroups=lambda: find_hierarchy(root),
                **fields,
            )
        )
        return made[-1]

    yield make
    for each in made:
        await each.close()


def hook_of(held):
    """Run the hook of a prepared claim, as the runtime does when a container starts."""
    (hook,) = held.devices[0].edits.hooks
    return subprocess.run(hook.args, input="{}", text=True, capture_output=True, timeout=20, check=False)


def unhealthy(driver):
    return {each.device: each.message for each in driver.health() if not each.healthy}


def published(driver):
    return {device.name: device for pool in driver.pools() for device in pool.devices}


MODES = pytest.mark.parametrize(
    ("mode", "results"),
    [
        pytest.param(CpuDeviceMode.INDIVIDUAL, (cpu(2), cpu(3)), id="individual"),
        pytest.param(CpuDeviceMode.GROUPED, (part(0, "2"),), id="grouped"),
        pytest.param(CpuDeviceMode.NODE, (of_node(2),), id="node"),
    ],
)


@MODES
async def test_a_claim_that_has_lost_a_cpu_serves_its_next_pod_and_is_told_also_after_a_restart(
    make, source, mode, results
):
    driver = make(mode=mode)
    held = driver.prepare(asks("a", *results), [])
    (gone,) = str(max(parse(held.state["holdings"][-1]["cpus"])))
    rest = parse("2-3") - parse(gone)
    source.topology = without(gone)
    driver.recheck(held)
    for each in (driver, make(mode=mode)):
        await each.enforce([held])
        (text,) = each.claim_impairments()
        assert text == (
            f"{claim('a')}: CPUs {gone} of its CPUs 2-3 are offline; its containers run on {rest}, "
            "and on all of them once these CPUs are online again"
        )
    source.topology = MACHINE
    driver.recheck(held)
    assert driver.claim_impairments() == ()


@MODES
async def test_a_claim_without_a_cpu_that_is_online_is_refused_to_its_next_pod(make, source, mode, results):
    held = make(mode=mode).prepare(asks("a", *results), [])
    source.topology = without("2-3")
    driver = make(mode=mode, reserved=parse("0"))  # as after a reboot
    await driver.enforce([held])
    with pytest.raises(PrepareError) as refused:
        driver.recheck(held)
    reason = "request cpus: none of its CPUs 2-3 is online (online: 0-1,4-7); delete the claim's pods, so that"
    assert str(refused.value) == f"{claim('a')}: {reason} the claim is allocated again"
    assert refused.value.reason is PrepareRefusalReason.CPUS_UNSUITABLE
    assert driver.claim_impairments() == (str(refused.value),)


async def test_reports_tell_which_cpus_of_a_claim_are_offline(make, source):
    driver = make(mode=CpuDeviceMode.NODE)
    held = driver.prepare(asks("a", of_node(2)), [])
    source.topology = without("3")
    driver.recheck(held)
    await driver.enforce([held])
    assert driver.device_data(held) == {0: {"cpuset": "2-3", "offline": "3"}}
    (pod,) = json.loads(driver.topology_annotations()["node.koordinator.sh/pod-cpu-allocs"])
    assert pod["cpuset"] == "2"


async def test_each_request_needs_a_cpu_that_is_online(make, source):
    driver = make()
    held = driver.prepare(asks("a", cpu(2), cpu(3, request="one")), [])
    source.topology = without("3")
    with pytest.raises(PrepareError, match="request one: none of its CPUs 3 is online"):
        driver.recheck(held)


async def test_siblings_that_are_switched_off_are_told_of_each_claim(make, source):
    driver = make()
    held = [driver.prepare(asks("a", cpu(2), cpu(3)), []), driver.prepare(asks("b", cpu(4), cpu(5)), [])]
    await driver.enforce(held)
    source.topology = without("1,3,5,7")
    for each in held:
        driver.recheck(each)
    assert len(driver.claim_impairments()) == 2


async def test_a_held_cpu_that_is_offline_stays_known_over_a_restart_until_it_returns_or_the_claim_ends(make, source):
    first = make()
    held = first.prepare(asks("a", cpu(2), cpu(3)), [])
    source.topology = without("3")
    for driver in (first, make()):
        driver.recheck(held)
        await driver.enforce([held])
        assert unhealthy(driver) == {"cpu-3": "CPU 3 is offline"}
        assert [str(each) for each in published(driver)["cpu-3"].taints] == [
            str(DeviceTaint(key="cpu.reserve.dra/offline", effect="NoSchedule"))
        ]
        assert published(driver)["cpu-3"].attributes.keys() == published(driver)["cpu-2"].attributes.keys()
        assert published(driver)["cpu-3"].attributes["dra.cpu/socketID"] == {"int": 0}
    await driver.enforce([])
    assert "cpu-3" not in published(driver)
    await driver.enforce([held])
    assert "cpu-3" in published(driver)
    source.topology = MACHINE
    driver.recheck(held)
    assert unhealthy(driver) == {}
    assert not published(driver)["cpu-3"].taints


async def test_what_an_earlier_build_has_prepared_is_known_by_its_numbers(make, source):
    held = make().prepare(asks("a", cpu(2), cpu(3)), [])
    old = replace(held, state={name: value for name, value in held.state.items() if name != "places"})
    source.topology = without("3")
    driver = make()
    await driver.enforce([old])
    driver.recheck(old)
    assert unhealthy(driver) == {"cpu-3": "CPU 3 is offline"}
    assert "cpu-3" not in published(driver)  # nothing is known of its place


@pytest.mark.parametrize(
    "place",
    [pytest.param([2, 1, 0, 0, 1, 0, "standard", "more"], id="more"), pytest.param([2, 1, 0, 0, 1, 0, "x"], id="x")],
)
async def test_what_a_later_build_has_recorded_of_a_place_is_no_obstacle(make, source, place):
    driver = make()
    held = driver.prepare(asks("a", cpu(2), cpu(3)), [])
    later = replace(held, state=held.state | {"places": [place, *held.state["places"][1:]]})
    await driver.enforce([later])
    assert driver.recheck(later) == later
    assert (driver.claim_impairments(), unhealthy(driver)) == ((), {})
    source.topology = uniform_topology(sockets=4, cores=1, threads=2)
    with pytest.raises(PrepareError, match=r"CPU [23] was in socket 0"):
        driver.recheck(later)


async def test_a_cpu_that_the_last_poll_has_missed_is_not_allocated(make, source):
    driver = make()
    source.topology = without("3")
    with pytest.raises(PrepareError, match="device cpu-3: none of its CPUs is online"):
        driver.prepare(asks("a", cpu(2), cpu(3)), [])


async def test_cpus_that_cannot_be_read_refuse_the_claim_alone(make, source, monkeypatch):
    driver = make()
    held = driver.prepare(asks("a", cpu(2)), [])
    source.topology = without("3")
    monkeypatch.setattr(source, "read", lambda: 1 / 0)
    with pytest.raises(PrepareError, match=r"claim ml/a .*: the CPUs of the node cannot be read: .*retries"):
        driver.recheck(held)


# --- numbers that stand for other CPUs


def changed(machine=MACHINE, *, of=None, **changes):
    """Return the machine with CPUs that have other places: all, or that of one number."""
    return CpuTopology(
        cpus=tuple(each if of not in (None, each.id) else replace(each, **changes) for each in machine.cpus)
    )


def test_a_claim_of_an_earlier_build_keeps_its_cpus_when_types_of_cores_become_known(make):
    held = make().prepare(asks("a", cpu(2), cpu(3), cpu(4)), [])
    held.state["places"] = [place[:7] for place in held.state["places"]]
    assert describe_moved_cpus(held, changed(core_type=CoreType.EFFICIENCY)) == ""


@pytest.mark.parametrize(
    ("now", "told"),
    [
        pytest.param(MACHINE, "", id="the-same"),
        pytest.param(without("0-1"), "", id="cores-are-counted-anew"),
        pytest.param(without("3"), "", id="one-is-offline"),
        pytest.param(
            uniform_topology(sockets=4, cores=1, threads=2),
            "CPU 2 was in socket 0, NUMA node 0, a core of type standard when the claim was prepared, and is in socket "
            "1, NUMA node 1, a core of type standard now",
            id="another-socket",
        ),
        pytest.param(
            changed(core_type=CoreType.EFFICIENCY),
            "CPU 2 was in socket 0, NUMA node 0, a core of type standard when the claim was prepared, and is in socket "
            "0, NUMA node 0, a core of type e-core now",
            id="another-type-of-core",
        ),
        pytest.param(
            changed(of=3, core=9),
            "CPUs 2 and 3 were of one core when the claim was prepared, and are of two now",
            id="siblings-no-more",
        ),
        pytest.param(
            changed(of=4, core=1, socket=0, numa_node=0, l3=MACHINE.by_id[2].l3),
            "CPU 4 was in socket 1, NUMA node 1, a core of type standard when the claim was prepared, and is in socket "
            "0, NUMA node 0, a core of type standard now",
            id="one-of-them",
        ),
    ],
)
async def test_a_claim_whose_cpus_are_others_by_now_is_refused(make, source, tmp_path, now, told):
    driver = make()
    held = driver.prepare(asks("a", cpu(2), cpu(3), cpu(4)), [])
    source.topology = now
    assert describe_moved_cpus(held, now) == told
    again = make()
    await again.enforce([held])
    if told:
        with pytest.raises(PrepareError) as refused:
            again.recheck(held)
        assert str(refused.value).startswith(f"{claim('a')}: {told}; delete the claim's pods")
        assert unhealthy(again).keys() == {"cpu-2", "cpu-3", "cpu-4"}
        refusal = hook_of(held)
        assert refusal.returncode == 1
        assert f"container unknown does not get CPUs 2-4: {told}; delete the pod, so that" in refusal.stderr
        source.topology = MACHINE
        again.recheck(held)
        await again.enforce([held])
        assert list((tmp_path / "driver/refused").iterdir()) == []
    else:
        again.recheck(held)
