"""A node's CPUs are foreseen as an empty node publishes them."""

import pytest

from dra.engine.cpus.cpusets import parse
from dra.engine.cpus.node_policies import NodeCpuPolicies
from dra.engine.cpus.unused_device import unused_device
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.drivers.cpu.node_device import HeldCpus, build_node_device
from tests.dra.engine.cpus.uniform import uniform_topology

DRIVER = "cpu.reserve.dra"
TOPOLOGY = uniform_topology(sockets=2, cores=8, threads=2)


def published(held):
    cpus = parse(held)
    (device,) = build_node_device(
        TOPOLOGY,
        allocatable=parse("2-31"),
        policies=NodeCpuPolicies(),
        held=HeldCpus(cpus=cpus, consumed=len(cpus)),
    )
    return device


@pytest.mark.parametrize("held", ["2", "2,4,6,8,10", "2-16", "2-31"])
def test_a_used_node_is_foreseen_as_an_empty_one(held):
    assert unused_device(DRIVER, published(held)) == published("")


@pytest.mark.parametrize(
    ("driver", "name"), [("other.example.com", "cpus"), (DRIVER, "numa-0")], ids=["another-driver", "another-device"]
)
def test_other_devices_keep_what_they_publish_but_their_taints(driver, name):
    used = published("2")
    other = Device(name=name, attributes=used.attributes, capacity=used.capacity, taints=[DeviceTaint(key="xid")])
    assert unused_device(driver, other) == Device(name=name, attributes=used.attributes, capacity=used.capacity)
