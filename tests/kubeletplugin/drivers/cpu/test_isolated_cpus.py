"""CPUs that the kernel isolates (``isolcpus``): claims that prefer them get them, the system never does."""

import dataclasses

import pytest

from dra.engine.cpus.cpusets import parse
from dra.engine.cpus.node_policies import LABEL_NUMA_TOPOLOGY_POLICY
from dra.model.quantities import NANOS_PER_UNIT
from kubeletplugin.drivers.cpu.cpuset_store import CpusetDemand
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode, default_reserved_cpus
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.drivers.cpu.claims import asks, of_node, part
from tests.kubeletplugin.drivers.cpu.test_driver import Source

PREFERS = {"preferIsolatedCPUs": True}
EIGHT = uniform_topology(cores=8)
SMT = uniform_topology(cores=4, threads=2)
TWO_NODES = uniform_topology(nodes=2, cores=8)


def isolating(cpus, topology=EIGHT):
    return dataclasses.replace(topology, isolated=parse(cpus))


@pytest.fixture
def make(tmp_path):
    def driver(topology, mode=CpuDeviceMode.NODE, reserved=None):
        return CpuDriver(
            Source(topology),
            node="n1",
            folder=tmp_path / "driver",
            kubelet=tmp_path,
            mode=mode,
            reserved=None if reserved is None else parse(reserved),
            find_cgroups=None,
        )

    return driver


def cpus_of(driver, result, config=None):
    prepared = driver.prepare(asks("a", result, config=config), [])
    return prepared.state["requests"]["cpus"]


@pytest.mark.parametrize(
    ("topology", "reserved"),
    [
        pytest.param(isolating("4-7"), "0", id="the-last-are-isolated"),
        pytest.param(isolating("0-3"), "4", id="the-first-are-isolated"),
        pytest.param(isolating("1,3,5,7", SMT), "0", id="siblings-are-isolated"),
        pytest.param(isolating("0-7"), "0", id="all-are-isolated"),
    ],
)
def test_the_core_that_is_reserved_by_default_is_not_isolated(topology, reserved):
    assert str(default_reserved_cpus(topology)) == reserved


@pytest.mark.parametrize(
    ("isolated", "count", "config", "expected"),
    [
        pytest.param("4-7", 3, PREFERS, "4-6", id="isolated-first"),
        pytest.param("4-7", 3, None, "1-3", id="without-the-option"),
        pytest.param("4-7", 5, PREFERS, "1,4-7", id="others-where-isolated-ones-are-too-few"),
        pytest.param("", 3, PREFERS, "1-3", id="none-is-isolated"),
    ],
)
@pytest.mark.parametrize("mode", [CpuDeviceMode.NODE, CpuDeviceMode.GROUPED])
def test_claims_prefer_isolated_cpus_by_option(make, mode, isolated, count, config, expected):
    result = of_node(count) if mode is CpuDeviceMode.NODE else part(0, str(count))
    assert cpus_of(make(isolating(isolated), mode), result, config) == expected


@pytest.mark.parametrize(
    ("policy", "count", "expected"),
    [
        pytest.param("SingleNUMANode", 4, "12-15", id="isolated-cpus-of-one-numa-node"),
        pytest.param("SingleNUMANode", 7, "8-10,12-15", id="as-many-as-the-numa-node-has"),
        pytest.param("Restricted", 8, "8-15", id="the-policy-comes-first"),
    ],
)
def test_a_numa_policy_limits_the_preference(make, policy, count, expected):
    driver = make(isolating("6-7,12-15", TWO_NODES), reserved="0-1")
    driver.apply_node_labels({LABEL_NUMA_TOPOLOGY_POLICY: policy})
    assert cpus_of(driver, of_node(count), PREFERS) == expected


def test_the_pool_has_a_cpu_that_is_not_isolated_if_the_reserved_ones_are(make):
    driver = make(isolating("0-1"), reserved="0-1")
    published = driver.pools()[0].devices[0].capacity["dra.cpu/cpu"]["value"]
    held = parse(cpus_of(driver, of_node(int(published))))
    assert CpusetDemand(requests={"a": held}, apart=parse("0-1")).pools(EIGHT.online).shared == parse("2")


def test_cpus_reserved_by_amount_are_not_isolated(make):
    driver = make(isolating("0-3"), reserved="4")
    driver.apply_node_reservation('{"resources": {"cpu": "2"}}', allocatable={"cpu": 8 * NANOS_PER_UNIT})
    held = parse(cpus_of(driver, of_node(5), PREFERS))
    assert held >= parse("0-3")


@pytest.mark.parametrize("mode", [CpuDeviceMode.NODE, CpuDeviceMode.GROUPED])
def test_devices_with_several_cpus_tell_how_many_are_isolated(make, mode):
    (pool,) = make(isolating("0-3"), mode).pools()
    assert pool.devices[0].attributes["isolatedCPUs"] == {"int": 4}
