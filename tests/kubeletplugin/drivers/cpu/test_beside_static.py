"""Mode *node* beside a kubelet with the CPU manager policy static: the kubelet binds, the driver counts."""

import asyncio
import json

import pytest

from dra.engine.cpus.cpusets import parse
from dra.engine.cpus.node_policies import LABEL_CPU_BIND_POLICY
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.contract import ContainerEdits, PrepareError
from kubeletplugin.drivers.cpu import driver as module
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.cgroups.trees import folders
from tests.kubeletplugin.drivers.cpu.claims import asks, cpu, of_node, of_numa_node
from tests.kubeletplugin.drivers.cpu.test_driver import Source

MACHINE = uniform_topology(sockets=2, cores=4, threads=2)
"""CPUs 0-7 | 8-15; the plugin, like the kubelet, is told to reserve 0-1."""


class Kubelet:
    """The kubelet's state file, and cgroups that it writes."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folders(
            folder / "cgroup", {"kubepods": "0-15", "kubepods/pod1": "0-15"}, version=CgroupVersion.V1, cpus="0-15"
        )
        self.has()

    def has(self, policy="static", **pods):
        """Write which pods have CPUs."""
        given = parse(",".join(pods.values()))
        entries = {uid: {"main": cpus} for uid, cpus in pods.items()}
        content = {"policyName": policy, "defaultCpuSet": str(MACHINE.online - given), "entries": entries}
        path = self.folder / "cpu_manager_state"
        path.unlink(missing_ok=True)
        path.write_text(json.dumps(content))

    def driver(self, mode=CpuDeviceMode.NODE):
        return CpuDriver(
            Source(MACHINE),
            node="n1",
            folder=self.folder / "driver",
            kubelet=self.folder,
            mode=mode,
            reserved=parse("0-1"),
            find_cgroups=lambda: find_hierarchy(self.root),
        )

    def cgroups(self):
        return {str(path): path.read_text() for path in self.root.rglob("cpuset.cpus")}


@pytest.fixture
def kubelet(tmp_path):
    return Kubelet(tmp_path)


def amount(driver):
    device = driver.pools()[0].devices[0]
    return int(device.capacity["dra.cpu/cpu"]["value"])


async def test_what_the_kubelet_has_left_is_published_and_nothing_is_written(kubelet):
    kubelet.has(other="2-3")
    driver = kubelet.driver()
    before = kubelet.cgroups()
    assert (driver.disabled_reason, driver.degraded_reason, amount(driver)) == (None, "", 12)
    assert all(each.healthy for each in driver.health())

    kubelet.has(other="2-3", mine="4-7")  # at admission, before the claim is prepared
    prepared = driver.prepare(asks("mine", of_node(4, whole_cores=4)), [])
    assert [each.edits for each in prepared.devices] == [ContainerEdits()]
    assert prepared.state["requests"] == {}
    await driver.enforce([prepared])
    assert amount(driver) - 4 == 8  # what the scheduler reckons with
    assert driver.pools()[0].devices[0].capacity["wholeCoreCPUs"]["value"] == "12"
    assert kubelet.cgroups() == before
    await driver.close()


async def test_a_pod_to_which_the_kubelet_gives_cpus_is_seen_within_seconds(kubelet, monkeypatch):
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.01)
    driver = kubelet.driver()
    assert amount(driver) == 14
    changes = driver.changes()
    change = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    kubelet.has(other="8-11")
    await asyncio.wait_for(change, 5)
    assert amount(driver) == 10
    await changes.aclose()


@pytest.mark.parametrize(
    ("labels", "request_", "text"),
    [
        pytest.param({}, asks("a", cpu(2)), "the kubelet allocates CPUs on this node", id="a-device-of-another-mode"),
        pytest.param(
            {LABEL_CPU_BIND_POLICY: "FullPCPUsOnly"}, asks("a", of_node(3)), "not multiple cpus per core", id="odd"
        ),
        pytest.param(
            {LABEL_CPU_BIND_POLICY: "FullPCPUsOnly"},
            asks("a", of_node(2), config={"requiredCPUBindPolicy": "SpreadByPCPUs"}),
            "conflicts with pod's required cpu bind policy",
            id="conflict",
        ),
        pytest.param({}, asks("a", of_node(2), config={"x": 1}), "CpuConfig.x: unknown field", id="parameters"),
    ],
)
def test_claims_that_cannot_be_served_are_refused_as_elsewhere(kubelet, labels, request_, text):
    driver = kubelet.driver()
    driver.apply_node_labels(labels)
    with pytest.raises(PrepareError, match=text):
        driver.prepare(request_, [])


def test_other_modes_publish_nothing_beside_it(kubelet):
    driver = kubelet.driver(CpuDeviceMode.GROUPED)
    assert "policy static" in driver.disabled_reason
    assert driver.pools()[0].devices == ()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"policyName": "static"}, id="no-default-set"),
        pytest.param({"policyName": "static", "defaultCpuSet": "7-0"}, id="no-list"),
        pytest.param({"policyName": "of-the-future", "defaultCpuSet": "0-15"}, id="another-policy"),
    ],
)
def test_a_state_that_is_not_understood_publishes_nothing(kubelet, content):
    (kubelet.folder / "cpu_manager_state").write_text(json.dumps(content))
    driver = kubelet.driver()
    assert driver.disabled_reason
    assert driver.pools()[0].devices == ()


async def test_claims_end_as_they_began_when_the_kubelet_yields(kubelet):
    driver = kubelet.driver()
    counted = driver.prepare(asks("a", of_node(4)), [])
    kubelet.has("none")
    assert driver.disabled_reason is None
    chosen = driver.prepare(asks("b", of_node(2)), [counted])
    await driver.enforce([counted, chosen])
    assert amount(driver) == 4 + 14
    await driver.enforce([chosen])
    assert amount(driver) == 14
    await driver.close()


def test_no_numa_node_is_promised_where_the_kubelet_chooses(kubelet):
    kubelet.has(other="2-3")
    driver = kubelet.driver()
    of_numa_nodes = driver.pools()[0].devices[1:]
    assert [each.capacity["numaCPUs"]["value"] for each in of_numa_nodes] == ["0", "0"]
    far = of_numa_node(0, 0, request="numa/far")
    prepared = driver.prepare(asks("a", of_node(4), far), [])
    assert [each.requests for each in prepared.devices] == [("cpus",), ("numa",)]
