"""Aligned claims in mode *node*: the devices of NUMA nodes, and the CPUs that the driver chooses (vectors §3.4, 12)."""

import pytest

from dra.engine.cpus.node_policies import LABEL_NUMA_TOPOLOGY_POLICY
from kubeletplugin.contract import DevicesInUseError, PrepareError
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.drivers.cpu.claims import asks, of_node, of_numa_node
from tests.kubeletplugin.drivers.cpu.test_node_mode import FULL_ONLY, LEAST, cpus, holder, node


def numa_devices(driver):
    (pool,) = driver.pools()
    return {each.name: each for each in pool.devices[1:]}


def amounts(device):
    return [device.capacity[name]["value"] for name in ("numaCPUs", "wholeCoreCPUs", "distinctCoreCPUs")]


def near(numa_node, amount):
    """Return what the scheduler allocates for CPUs of a NUMA node: CPUs of the node, and as many of the NUMA node."""
    return of_node(amount), of_numa_node(numa_node, amount, request="numa/near")


def far(amount):
    """Return what the scheduler allocates for CPUs of any NUMA nodes."""
    return of_node(amount), of_numa_node(0, 0, request="numa/far")


def test_each_numa_node_is_a_device_that_other_claims_do_not_match(tmp_path):
    found = numa_devices(node(tmp_path, reserved="0-1"))
    assert {name: amounts(each) for name, each in found.items()} == {
        "numa-0": ["6"] * 2 + ["3"],
        "numa-1": ["8"] * 2 + ["4"],
    }
    for name, each in found.items():
        assert each.attributes["resource.kubernetes.io/numaNode"] == {"int": int(name[-1])}
        assert each.attributes["numaBindPolicy"] == {"string": "None"}
        assert "bindPolicy" not in each.attributes
        assert [(taint.key, taint.effect) for taint in each.taints] == [("cpu.reserve.dra/numa-node", "NoSchedule")]


def test_the_strategy_of_the_node_orders_the_devices(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    assert list(numa_devices(driver)) == ["numa-0", "numa-1"]
    driver.apply_node_labels(LEAST)
    assert list(numa_devices(driver)) == ["numa-1", "numa-0"]


async def test_what_remains_is_published_plus_what_aligned_claims_consume(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    aligned = driver.prepare(asks("a", *near(1, 4)), [])
    other = driver.prepare(asks("b", of_node(3)), [aligned])
    assert (cpus(aligned), cpus(other)) == ("8-11", "12-14")
    await driver.enforce([aligned, other])
    found = numa_devices(driver)
    assert amounts(found["numa-1"])[0] == "5", "one is free, and the scheduler subtracts the aligned claim's four"
    assert amounts(found["numa-0"])[0] == "6"


def test_the_cpus_of_an_aligned_claim_are_on_its_numa_node(tmp_path):
    """The vector of koordinator-rest.md §4.4: free 2-15, a GPU on NUMA node 1, four CPUs: 8-11 in place of 2-5."""
    driver = node(tmp_path, reserved="0-1")
    assert cpus(driver.prepare(asks("a", of_node(4)), [])) == "2-5"
    assert cpus(driver.prepare(asks("a", *near(1, 4)), [])) == "8-11"


@pytest.mark.parametrize(
    ("count", "others", "config", "expected"),
    [
        pytest.param(10, [], None, "0-4,8-12", id="two-halves"),
        pytest.param(10, [holder("b", "3-7")], None, "0-2,8-14", id="all-of-the-smaller"),
        pytest.param(10, [], {"requiredCPUBindPolicy": "FullPCPUs"}, "0-3,8-13", id="whole-cores"),
        pytest.param(4, [], None, "0-3", id="one-numa-node-if-it-is-enough"),
    ],
)
def test_vector_12_cpus_of_several_numa_nodes_are_divided_evenly(tmp_path, count, others, config, expected):
    driver = node(tmp_path, uniform_topology(sockets=3, cores=4, threads=2), reserved="16-23")
    assert cpus(driver.prepare(asks("a", *far(count), config=config), others)) == expected


def test_vector_12_too_few_cpus_are_refused(tmp_path):
    driver = node(tmp_path, uniform_topology(sockets=3, cores=4, threads=2), reserved="16-23")
    with pytest.raises(DevicesInUseError, match="12 CPUs wanted, 11 usable"):
        driver.prepare(asks("a", *far(12)), [holder("b", "3-7")])


def test_containers_of_all_requests_run_on_the_cpus_of_an_aligned_claim(tmp_path):
    chosen, numa = node(tmp_path, reserved="0-1").prepare(asks("a", *near(1, 4)), []).devices
    assert (chosen.requests, numa.requests) == ((), ("numa",))
    (other,) = node(tmp_path, reserved="0-1").prepare(asks("a", of_node(4)), []).devices
    assert other.requests == ("cpus",)


def test_cpus_that_other_claims_took_first_are_waited_for(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    with pytest.raises(DevicesInUseError, match=r"6 CPUs wanted, 4 usable.*allocated: 8-11 by claim ml/b"):
        driver.prepare(asks("a", *near(1, 6)), [holder("b", "8-11")])


@pytest.mark.parametrize(
    ("policy", "count", "expected"),
    [
        pytest.param("SingleNUMANode", 8, "8-15", id="single"),
        pytest.param("Restricted", 8, "8-15", id="restricted"),
        pytest.param("Restricted", 10, "2-6,8-12", id="restricted-and-large"),
        pytest.param("BestEffort", 10, "2-6,8-12", id="best-effort"),
        pytest.param("None", 10, "2-3,8-15", id="none"),
    ],
)
def test_the_label_of_the_node_decides_on_numa_nodes(tmp_path, policy, count, expected):
    driver = node(tmp_path, reserved="0-1")
    assert driver.apply_node_labels({LABEL_NUMA_TOPOLOGY_POLICY: policy}) == ()
    assert cpus(driver.prepare(asks("a", of_node(count)), [])) == expected
    attributes = driver.pools()[0].devices[0].attributes
    assert attributes["numaTopologyPolicy"] == {"string": policy}
    assert (attributes["freeNUMANodeCPUs"], attributes["numaNodeCPUs"]) == ({"int": 8}, {"int": 8})


def test_a_label_that_one_numa_node_cannot_satisfy_refuses_the_claim(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    driver.apply_node_labels({LABEL_NUMA_TOPOLOGY_POLICY: "SingleNUMANode"})
    with pytest.raises(DevicesInUseError, match="Insufficient NUMA cpu: 7 CPUs wanted by SingleNUMANode"):
        driver.prepare(asks("a", of_node(7)), [holder("b", "8-9")])
    with pytest.raises(PrepareError, match="Insufficient NUMA cpu: 9 CPUs"):
        driver.prepare(asks("a", of_node(9)), [])
    (problem,) = driver.apply_node_labels({LABEL_NUMA_TOPOLOGY_POLICY: "Single"})
    assert problem.startswith(f"label {LABEL_NUMA_TOPOLOGY_POLICY}: 'Single' is not valid")


async def test_whole_cores_alone_count_where_the_node_forces_these(tmp_path):
    driver = node(tmp_path, reserved="0-1")
    driver.apply_node_labels(FULL_ONLY)
    await driver.enforce([holder("b", "8")])
    assert amounts(numa_devices(driver)["numa-1"])[0] == "6"
