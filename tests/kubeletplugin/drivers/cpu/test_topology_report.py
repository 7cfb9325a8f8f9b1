"""The CPUs of a node in Koordinator's annotations: koordinator-rest.md §3.3 and vector 5 of §3.4."""

import asyncio
import json

from msgspec.structs import replace

from dra.engine.cpus.cpusets import parse
from dra.model.meta import Uid
from dra.model.quantities import NANOS_PER_UNIT
from kubeletplugin.contract import PodIdentity
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.drivers.cpu.claims import asks, of_node
from tests.kubeletplugin.drivers.cpu.test_driver import Source

MACHINE = uniform_topology(sockets=2, cores=4, threads=2)
"""Topology (2,1,4,2): CPUs 0-7 | 8-15."""

LSR = {"sharedWith": "BestEffort"}


def node(folder, mode=CpuDeviceMode.NODE):
    return CpuDriver(
        Source(MACHINE),
        node="n1",
        folder=folder / "driver",
        kubelet=folder,
        mode=mode,
        reserved=parse("15"),
        find_cgroups=None,
    )


def claimed(driver, name, count, *others, config=None, pods=None):
    request = asks(name, of_node(count), config=config)
    named = (PodIdentity(name=f"pod-{name}", uid=Uid(f"uid-pod-{name}")),) if pods is None else pods
    return driver.prepare(replace(request, pods=named), others)


def annotations(driver, *prepared):
    asyncio.run(driver.enforce(prepared))
    return {key.rpartition("/")[2]: json.loads(text) for key, text in driver.topology_annotations().items()}


def test_each_cpu_has_its_place(tmp_path):
    found = annotations(node(tmp_path))
    detail = found["cpu-topology"]["detail"]
    assert len(detail) == 16
    assert detail[9] == {"id": 9, "core": 4, "socket": 1, "node": 1}
    assert found["cpu-manager-policy"] == {"policy": "none"}
    assert found["pod-cpu-allocs"] == []


def test_vector_5_the_pools_are_told_by_socket_and_numa_node(tmp_path):
    driver = node(tmp_path)
    driver.apply_node_reservation('{"reservedCPUs": "0-1"}', allocatable={"cpu": 16 * NANOS_PER_UNIT})
    lse = claimed(driver, "lse", 2)
    lsr = claimed(driver, "lsr", 4, lse, config=LSR)
    found = annotations(driver, lse, lsr)
    assert found["cpu-shared-pools"] == [
        {"socket": 0, "node": 0, "cpuset": ""},
        {"socket": 1, "node": 1, "cpuset": "8-15"},
    ]
    assert found["be-cpu-shared-pools"] == [
        {"socket": 0, "node": 0, "cpuset": "4-7"},
        {"socket": 1, "node": 1, "cpuset": "8-15"},
    ]
    assert found["pod-cpu-allocs"] == [
        {"namespace": "ml", "name": "pod-lse", "uid": "uid-pod-lse", "cpuset": "2-3"},
        {"namespace": "ml", "name": "pod-lsr", "uid": "uid-pod-lsr", "cpuset": "4-7"},
    ]


def test_a_claim_of_a_workload_has_an_entry_of_its_own(tmp_path):
    driver = node(tmp_path)
    (entry,) = annotations(driver, claimed(driver, "train", 2, pods=()))["pod-cpu-allocs"]
    assert entry == {"namespace": "ml", "name": "train", "uid": "uid-train", "cpuset": "8-9"}


def test_beside_the_static_policy_the_kubelets_state_counts(tmp_path):
    entries = {"uid-pod-a": {"main": "4-5", "side": "6"}, "uid-other": {"main": "8"}}
    state = {"policyName": "static", "defaultCpuSet": "0-3,7,9-15", "entries": entries}
    (tmp_path / "cpu_manager_state").write_text(json.dumps(state))
    driver = node(tmp_path)
    found = annotations(driver, claimed(driver, "a", 3), claimed(driver, "b", 2))
    assert found["cpu-manager-policy"] == {"policy": "static", "reservedCPUs": "15"}
    assert found["pod-cpu-allocs"] == [
        {"namespace": "ml", "name": "pod-a", "uid": "uid-pod-a", "cpuset": "4-6", "managedByKubelet": True},
        {"namespace": "", "name": "", "uid": "uid-other", "cpuset": "8", "managedByKubelet": True},
    ]
    assert [each["cpuset"] for each in found["cpu-shared-pools"]] == ["0-3,7", "9-15"]


def test_other_modes_describe_nothing(tmp_path):
    assert node(tmp_path, CpuDeviceMode.GROUPED).topology_annotations() == {}
