from dra.engine.cpus.cpusets import CpuSet, parse
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.model.slices import Device
from kubeletplugin.drivers.cpu.devices import (
    build_grouped_devices,
    build_individual_devices,
    default_reserved_cpus,
    device_cpus,
)
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

SMT = uniform_topology(sockets=2, cores=2, threads=2)
"""CPUs 0-1, 2-3 | 4-5, 6-7."""

INTERLEAVED = CpuTopology(
    cpus=(
        Cpu(id=0, core=0, numa_node=0, socket=0),
        Cpu(id=1, core=1, numa_node=0, socket=0),
        Cpu(id=2, core=0, numa_node=0, socket=0),
        Cpu(id=3, core=1, numa_node=0, socket=0),
    ),
    offline=CpuSet([4]),
    isolated=CpuSet([3]),
)
"""Siblings are 0 and 2, 1 and 3."""


def named(found):
    return {each.name: each for each in found}


def test_each_cpu_is_a_device_with_the_names_that_other_drivers_use():
    found = named(build_individual_devices(SMT, allocatable=SMT.online))
    assert found["cpu-5"].attributes == {
        "dra.cpu/cpuID": {"int": 5},
        "dra.cpu/coreID": {"int": 0},
        "dra.cpu/socketID": {"int": 1},
        "dra.cpu/numaNodeID": {"int": 1},
        "dra.cpu/cacheL3ID": {"int": 1},
        "dra.cpu/coreType": {"string": "standard"},
        "dra.cpu/smtEnabled": {"bool": True},
        "dra.net/numaNode": {"int": 1},
        "resource.kubernetes.io/numaNode": {"int": 1},
        "core": {"int": 2},
        "isolated": {"bool": False},
    }
    assert not found["cpu-5"].allow_multiple_allocations


def test_siblings_are_next_to_each_other_since_the_scheduler_takes_the_first():
    found = build_individual_devices(INTERLEAVED, allocatable=INTERLEAVED.online)
    assert [each.name for each in found] == ["cpu-0", "cpu-2", "cpu-1", "cpu-3"]


def test_what_is_not_known_is_not_published():
    found = named(build_individual_devices(INTERLEAVED, allocatable=INTERLEAVED.online))
    assert "dra.cpu/cacheL3ID" not in found["cpu-0"].attributes
    assert found["cpu-3"].attributes["isolated"] == {"bool": True}


def test_reserved_cpus_are_in_no_device():
    left = SMT.online - parse("0-1")
    assert set(named(build_individual_devices(SMT, allocatable=left))) == {f"cpu-{n}" for n in range(2, 8)}
    grouped = named(build_grouped_devices(SMT, allocatable=left))
    assert grouped["numa-0"].attributes["dra.cpu/numCPUs"] == {"int": 2}


def test_a_numa_node_is_a_device_of_which_whole_cpus_are_taken():
    (first, _) = build_grouped_devices(SMT, allocatable=SMT.online)
    assert first == Device(
        name="numa-0",
        attributes={
            "dra.cpu/numaNodeID": {"int": 0},
            "dra.cpu/socketID": {"int": 0},
            "dra.cpu/smtEnabled": {"bool": True},
            "dra.cpu/numCPUs": {"int": 4},
            "isolatedCPUs": {"int": 0},
            "dra.net/numaNode": {"int": 0},
            "resource.kubernetes.io/numaNode": {"int": 0},
        },
        capacity={
            "dra.cpu/cpu": {
                "value": "4",
                "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "4", "step": "1"}},
            }
        },
        allow_multiple_allocations=True,
    )


def test_of_a_numa_node_with_one_cpu_it_is_all_or_nothing():
    (only,) = build_grouped_devices(SMT, allocatable=parse("5"))
    assert only.capacity["dra.cpu/cpu"] == {"value": "1", "requestPolicy": {"default": "1", "validValues": ["1"]}}


def test_a_numa_node_that_is_reserved_as_a_whole_is_no_device():
    found = named(build_grouped_devices(SMT, allocatable=parse("4-7")))
    assert set(found) == {"numa-1"}


def test_by_default_one_core_is_kept_with_all_its_threads():
    assert default_reserved_cpus(INTERLEAVED) == parse("0,2")


@for_each_case(
    [("cpu-5", "5"), ("numa-1", "4-7"), ("cpu-8", ""), ("numa-2", ""), ("cpu-", ""), ("cpu-x", ""), ("gpu-0", "")]
)
def test_the_cpus_of_a_device(device, cpus):
    assert device_cpus(device, SMT) == parse(cpus)
