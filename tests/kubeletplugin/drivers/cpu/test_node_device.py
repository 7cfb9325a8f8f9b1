"""The device of mode *node*: what is published of the CPUs of a whole node."""

import pytest

from dra.engine.cpus.cpusets import parse
from dra.engine.cpus.node_policies import NO_NODE_POLICIES, NodeCpuBindPolicy, NodeCpuPolicies
from dra.model.slices import Device
from kubeletplugin.contract import Pool
from kubeletplugin.drivers.cpu.node_device import HeldCpus, build_node_device
from kubeletplugin.slices.desired_slices import slices_for_pools
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

SMT = uniform_topology(sockets=2, cores=4, threads=2)
"""CPUs 0-7 | 8-15, siblings next to each other."""
NO_SMT = uniform_topology(cores=2)
FULL_ONLY = NodeCpuPolicies(bind_policy=NodeCpuBindPolicy.FULL_PCPUS_ONLY)


def published(*, topology=SMT, allocatable="2-15", policies=NO_NODE_POLICIES, held=None):
    found = build_node_device(topology, allocatable=parse(allocatable), policies=policies, held=held or HeldCpus())
    slices_for_pools([Pool(name="n1", devices=found)], driver="cpu.reserve.dra")  # an API server accepts it
    return found


def holds(cpus, *, consumed=None, whole=0):
    held = parse(cpus)
    return HeldCpus(cpus=held, consumed=len(held) if consumed is None else consumed, whole_core_consumed=whole)


def amounts(found):
    ((device),) = found
    cores = device.attributes["freeCores"]["int"]
    return device.capacity["dra.cpu/cpu"]["value"], device.capacity["wholeCoreCPUs"]["value"], cores


def test_one_device_has_all_cpus_of_the_node():
    assert published() == (
        Device(
            name="cpus",
            attributes={
                "dra.cpu/smtEnabled": {"bool": True},
                "dra.cpu/numCPUs": {"int": 14},
                "isolatedCPUs": {"int": 0},
                "threadsPerCore": {"int": 2},
                "bindPolicy": {"string": "None"},
                "numaStrategy": {"string": "MostAllocated"},
                "numNUMANodes": {"int": 2},
                "freeCores": {"int": 7},
                "numaTopologyPolicy": {"string": "None"},
                "numaNodeCPUs": {"int": 8},
                "freeNUMANodeCPUs": {"int": 8},
            },
            capacity={
                "dra.cpu/cpu": {
                    "value": "14",
                    "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}},
                },
                "wholeCoreCPUs": {"value": "14", "requestPolicy": {"default": "0", "validRange": {"min": "0"}}},
                "distinctCoreCPUs": {"value": "7", "requestPolicy": {"default": "0", "validRange": {"min": "0"}}},
            },
            allow_multiple_allocations=True,
        ),
    )


def test_a_node_of_whole_cores_takes_multiples_of_the_threads_of_a_core():
    (device,) = published(policies=FULL_ONLY)
    assert device.attributes["bindPolicy"] == {"string": "FullPCPUsOnly"}
    assert device.capacity["dra.cpu/cpu"]["requestPolicy"] == {
        "default": "2",
        "validRange": {"min": "2", "step": "2"},
    }


@pytest.mark.parametrize(
    ("topology", "allocatable", "policies", "expected"),
    [
        pytest.param(NO_SMT, "1", NO_NODE_POLICIES, {"default": "1", "validValues": ["1"]}, id="one-cpu"),
        pytest.param(SMT, "2-3", FULL_ONLY, {"default": "2", "validValues": ["2"]}, id="one-core"),
    ],
)
def test_where_there_is_no_room_for_two_steps_it_is_all_or_nothing(topology, allocatable, policies, expected):
    (device,) = published(topology=topology, allocatable=allocatable, policies=policies)
    assert device.capacity["dra.cpu/cpu"]["requestPolicy"] == expected


@pytest.mark.parametrize(
    ("allocatable", "policies"),
    [
        pytest.param("", NO_NODE_POLICIES, id="all-cpus-are-kept"),
        pytest.param("2,4,6", FULL_ONLY, id="no-core-is-whole"),
    ],
)
def test_a_node_without_cpus_for_claims_has_no_device(allocatable, policies):
    assert published(allocatable=allocatable, policies=policies) == ()


@for_each_case(
    [
        pytest.param(NO_NODE_POLICIES, holds("2-3", whole=2), ("14", "14", 6), id="required-whole-cores"),
        pytest.param(NO_NODE_POLICIES, holds("2-3"), ("14", "12", 6), id="a-core-of-a-claim-without-a-requirement"),
        pytest.param(NO_NODE_POLICIES, holds("2,4,6"), ("14", "8", 7), id="fragments"),
        pytest.param(NO_NODE_POLICIES, holds("2,4,6,8,10,12,14"), ("14", "0", 7), id="no-core-is-free"),
        pytest.param(NO_NODE_POLICIES, holds("2-15"), ("14", "0", 0), id="nothing-is-free"),
        pytest.param(NO_NODE_POLICIES, holds("2-3", consumed=0), ("12", "12", 6), id="held-by-another-device"),
        pytest.param(NO_NODE_POLICIES, holds("0-1"), ("16", "14", 7), id="held-before-the-node-kept-it"),
        pytest.param(FULL_ONLY, holds("2-5"), ("14", "10", 5), id="whole-cores-only"),
        pytest.param(FULL_ONLY, holds("2,4"), ("12", "10", 7), id="fragments-from-before-the-label"),
    ]
)
def test_what_remains_for_the_scheduler_is_what_is_free_now(policies, held, expected):
    found = published(policies=policies, held=held)
    assert amounts(found) == expected
    free = parse("2-15") - held.cpus
    whole = SMT.whole_cores(free)
    assert int(expected[0]) - held.consumed == len(whole if policies is FULL_ONLY else free)
    assert int(expected[1]) - held.whole_core_consumed == len(whole)


def test_the_value_is_constant_where_every_cpu_is_a_core():
    values = {amounts(published(topology=NO_SMT, allocatable="1", held=held))[0] for held in (None, holds("1"))}
    assert values == {"1"}
