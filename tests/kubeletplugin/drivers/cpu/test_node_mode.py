"""Mode *node*: vectors of Koordinator's CPU orchestration (koordinator-rest.md §3.4) on a simulated node."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra.engine.cpus.cpusets import parse
from dra.engine.cpus.node_policies import LABEL_CPU_BIND_POLICY, LABEL_NUMA_ALLOCATE_STRATEGY
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.model.quantities import NANOS_PER_UNIT
from kubeletplugin.contract import ClaimIdentity, DevicesInUseError, PreparedClaim, PrepareError
from kubeletplugin.drivers.cpu import driver as module
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.drivers.cpu.claims import asks, of_node, part
from tests.kubeletplugin.drivers.cpu.test_driver import Source

SMALL = uniform_topology(sockets=2, cores=4, threads=2)
"""Topology (2,1,4,2): CPUs 0-7 | 8-15."""

LARGE = CpuTopology(
    cpus=tuple(
        Cpu(id=core + 52 * thread, core=core, numa_node=core // 26, socket=core // 26)
        for core in range(52)
        for thread in range(2)
    )
)
"""Topology of the manual: 2 sockets of 26 cores, siblings i and i+52."""

LEAST = {LABEL_NUMA_ALLOCATE_STRATEGY: "LeastAllocated"}
FULL_ONLY = {LABEL_CPU_BIND_POLICY: "FullPCPUsOnly"}
SPREAD = {"preferredCPUBindPolicy": "SpreadByPCPUs"}
REQUIRED_SPREAD = {"requiredCPUBindPolicy": "SpreadByPCPUs"}
REQUIRED_FULL = {"requiredCPUBindPolicy": "FullPCPUs"}


def node(tmp_path, topology=SMALL, *, reserved, kept=""):
    it = CpuDriver(
        Source(topology),
        node="n1",
        folder=tmp_path / "driver",
        kubelet=tmp_path,
        mode=CpuDeviceMode.NODE,
        reserved=parse(reserved),
        find_cgroups=None,
    )
    if kept:
        it.apply_node_reservation(
            f'{{"reservedCPUs": "{kept}"}}', allocatable={"cpu": len(topology.cpus) * NANOS_PER_UNIT}
        )
    return it


def device(driver):
    (pool,) = driver.pools()
    found, *of_numa_nodes = pool.devices
    assert all(each.name.startswith("numa-") for each in of_numa_nodes)
    return found


def cpus(prepared):
    return prepared.state["requests"]["cpus"]


def holder(name, cpus, exclusivity="None"):
    """Return a prepared claim that holds these CPUs of the node's device."""
    held = {"cpus": cpus, "exclusivity": exclusivity, "consumed": len(parse(cpus)), "wholeCoreCPUs": 0}
    held["distinctCoreCPUs"] = 0
    state = {"requests": {"cpus": cpus}, "holdings": [held]}
    identity = ClaimIdentity(key=("ml", name), uid=f"uid-{name}")
    return PreparedClaim(claim=identity, driver="cpu.reserve.dra", devices=(), state=state)


@pytest.mark.parametrize(
    ("labels", "config", "expected"),
    [
        pytest.param({}, None, "2,54", id="vector-1-no-policy"),
        pytest.param({}, SPREAD, "2-3", id="vector-2-spread"),
        pytest.param(LEAST, None, "26,78", id="vector-3-least-allocated"),
        pytest.param(LEAST, SPREAD, "26-27", id="vector-3-least-allocated-spread"),
        pytest.param(LEAST, {"strategy": "MostAllocated"}, "2,54", id="a-strategy-of-the-claim-wins"),
    ],
)
def test_the_pod_of_the_manual(tmp_path, labels, config, expected):
    driver = node(tmp_path, LARGE, reserved="0,52")
    assert driver.apply_node_labels(labels) == ()
    assert cpus(driver.prepare(asks("a", of_node(2), config=config), [holder("b", "1,53")])) == expected


@pytest.mark.parametrize(
    ("labels", "expected"), [pytest.param({}, "4-7", id="most"), pytest.param(LEAST, "8-11", id="least")]
)
def test_vector_4_the_label_decides_between_numa_nodes(tmp_path, labels, expected):
    driver = node(tmp_path, reserved="15", kept="0-1")
    first = driver.prepare(asks("lse", of_node(2)), [])
    assert cpus(first) == "2-3"
    driver.apply_node_labels(labels)
    assert cpus(driver.prepare(asks("lsr", of_node(4)), [first])) == expected


def test_vector_8_a_required_spread_takes_one_thread_of_each_core_or_is_refused(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    assert cpus(driver.prepare(asks("a", of_node(5), config=REQUIRED_SPREAD), [])) == "2,4,6,8,10"
    with pytest.raises(PrepareError, match="8 CPUs wanted, 7 usable of 14 free"):
        driver.prepare(asks("a", of_node(8), config=REQUIRED_SPREAD), [])
    assert device(driver).attributes["freeCores"] == {"int": 7}


@pytest.mark.parametrize(
    ("exclusivity", "expected"), [pytest.param("PCPULevel", "4,6", id="core"), pytest.param("None", "1,3", id="none")]
)
def test_vector_9_exclusivity_avoids_the_cores_of_the_same_policy(tmp_path, exclusivity, expected):
    config = SPREAD | {"preferredCPUExclusivePolicy": exclusivity}
    held = holder("b", "0,2", "PCPULevel")
    assert cpus(node(tmp_path, reserved="15").prepare(asks("a", of_node(2), config=config), [held])) == expected


def test_a_claim_may_have_cpus_of_several_numa_nodes(tmp_path):
    assert cpus(node(tmp_path, reserved="0-1").prepare(asks("a", of_node(10)), [])) == "2-3,8-15"


def test_labels_are_followed_while_the_plugin_runs(tmp_path, monkeypatch):
    async def check():
        driver = node(tmp_path, reserved="0-1")
        changes = driver.changes()
        driver.apply_node_labels(FULL_ONLY | LEAST)
        async with asyncio.timeout(60):
            await anext(changes)
        await changes.aclose()
        return driver

    monkeypatch.setattr(module, "POLL_INTERVAL", 60.0)
    driver = asyncio.run(check())
    assert device(driver).attributes["bindPolicy"] == {"string": "FullPCPUsOnly"}
    assert device(driver).attributes["numaStrategy"] == {"string": "LeastAllocated"}
    with pytest.raises(PrepareError, match="conflicts with pod's required cpu bind policy"):
        driver.prepare(asks("a", of_node(2), config=REQUIRED_SPREAD), [])
    with pytest.raises(PrepareError, match="requested cpus not multiple cpus per core"):
        driver.prepare(asks("a", of_node(3)), [])
    driver.apply_node_labels({})
    assert device(driver).attributes["bindPolicy"] == {"string": "None"}


def test_a_wrong_label_is_told_and_counts_as_none(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    (problem,) = driver.apply_node_labels({LABEL_CPU_BIND_POLICY: "Full"})
    assert problem.startswith(f"label {LABEL_CPU_BIND_POLICY}: 'Full' is not valid")
    assert device(driver).attributes["bindPolicy"] == {"string": "None"}


async def test_what_claims_leave_is_published_when_it_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POLL_INTERVAL", 60.0)
    driver = node(tmp_path, reserved="0-1")
    changes = driver.changes()
    spread = driver.prepare(asks("a", of_node(3), config=SPREAD), [])
    full = driver.prepare(asks("b", of_node(4, whole_cores=4), config=REQUIRED_FULL), [spread])
    assert (cpus(spread), cpus(full)) == ("2,4,6", "8-11")
    for held, whole, cores in (([spread, full], "8", 5), ([spread], "8", 7), ([], "14", 7)):
        await driver.enforce(held)
        if (whole, cores) != ("8", 5):
            async with asyncio.timeout(60):
                await anext(changes)
        found = device(driver)
        assert (found.capacity["wholeCoreCPUs"]["value"], found.attributes["freeCores"]) == (whole, {"int": cores})
    await changes.aclose()


async def test_a_claim_that_is_prepared_leaves_the_second_threads_of_its_cores_to_others(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    first = driver.prepare(asks("a", of_node(7, distinct_cores=7), config=REQUIRED_SPREAD), [])
    await driver.enforce([first])
    remaining = int(device(driver).capacity["distinctCoreCPUs"]["value"]) - 7
    assert (cpus(first), remaining) == ("2,4,6,8,10,12,14", 7)
    second = asks("b", of_node(7, distinct_cores=7), config=REQUIRED_SPREAD)
    assert cpus(driver.prepare(second, [first])) == "3,5,7,9,11,13,15"


def test_whole_cores_that_are_not_there_are_refused_until_other_claims_end(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    others = [holder("b", "2,4,6,8,10,12,14")]
    with pytest.raises(DevicesInUseError, match="the pod starts when pods of these claims on this node have ended"):
        driver.prepare(asks("a", of_node(2, whole_cores=2), config=REQUIRED_FULL), others)


def test_claims_of_another_mode_keep_their_cpus_when_the_mode_changes(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    before = driver.prepare(asks("a", part(1, "2")), [])
    assert cpus(before) == "8-9"
    asyncio.run(driver.enforce([before]))
    assert device(driver).capacity["dra.cpu/cpu"]["value"] == "12"
    assert cpus(driver.prepare(asks("b", of_node(12)), [before])) == "2-7,10-15"


@pytest.mark.parametrize(
    ("mode", "result", "more"),
    [
        pytest.param(CpuDeviceMode.NODE, of_node(2), ("unthrottled",), id="node"),
        pytest.param(CpuDeviceMode.GROUPED, part(0, "2"), (), id="grouped"),
    ],
)
def test_only_containers_with_cpus_of_the_node_lose_their_quota(tmp_path, mode, result, more):
    driver = CpuDriver(Source(SMALL), node="n1", folder=tmp_path / "driver", kubelet=tmp_path, mode=mode)
    (found,) = driver.prepare(asks("a", result), []).devices
    (hook,) = found.edits.hooks
    assert hook.args[2:] == ("uid-a", "cpus", "2-3", *more)


def test_the_labels_mean_nothing_in_other_modes(tmp_path):
    driver = CpuDriver(Source(SMALL), node="n1", folder=tmp_path / "driver", kubelet=tmp_path, find_cgroups=None)
    before = driver.pools()
    assert driver.apply_node_labels(FULL_ONLY | {LABEL_NUMA_ALLOCATE_STRATEGY: "x"}) == ()
    assert driver.pools() == before


class Reckoning:
    """The sums that a scheduler makes of what is published and of what allocated claims consume."""

    def __init__(self, driver):
        self.driver = driver
        self.waiting = {}
        self.prepared = {}
        self.consumed = {}

    async def allocate(self, name, count, config):
        """Allocate a claim if every capacity has room for it."""
        amounts = {"dra.cpu/cpu": count}
        amounts |= {"wholeCoreCPUs": count} if config is REQUIRED_FULL else {}
        amounts |= {"distinctCoreCPUs": count} if config is REQUIRED_SPREAD else {}
        for capacity, amount in amounts.items():
            taken = sum(each.get(capacity, 0) for each in self.consumed.values())
            if taken + amount > int(device(self.driver).capacity[capacity]["value"]):
                return
        self.consumed[name] = amounts
        found = of_node(
            count, whole_cores=amounts.get("wholeCoreCPUs", 0), distinct_cores=amounts.get("distinctCoreCPUs", 0)
        )
        self.waiting[name] = asks(name, found, config=config)

    async def prepare(self, name):
        self.prepared[name] = self.driver.prepare(self.waiting.pop(name), self.prepared.values())
        await self.driver.enforce(self.prepared.values())

    async def release(self, name):
        del self.prepared[name]
        await self.driver.enforce(self.prepared.values())
        del self.consumed[name]


batches = st.lists(
    st.tuples(
        st.sampled_from([None, SPREAD, REQUIRED_SPREAD, REQUIRED_FULL]),
        st.lists(st.integers(1, 5), min_size=1, max_size=4),
        st.randoms(use_true_random=False),
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(batches=batches)
def test_claims_of_one_kind_that_fit_the_published_sums_can_all_be_prepared(batches):
    async def play(folder):
        driver = node(Path(folder), reserved="0-1")
        sums = Reckoning(driver)
        for number, (config, counts, random) in enumerate(batches):
            for part_, count in enumerate(counts):  # all before the first is prepared
                even = count + count % 2 if config is REQUIRED_FULL else count
                await sums.allocate(f"c{number}-{part_}", even, config)
            for name in random.sample(sorted(sums.waiting), len(sums.waiting)):
                await sums.prepare(name)
            for name in random.sample(sorted(sums.prepared), len(sums.prepared) // 2):
                await sums.release(name)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(folder))
