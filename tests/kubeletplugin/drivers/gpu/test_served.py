"""Simulated GPUs over real sockets: published, prepared, failing while the node runs."""

import asyncio
import json

import pytest

from dra.wire.devicehealth import HealthStatus
from kubeletplugin.drivers.gpu.container_edits import SimulatedContainerEdits
from kubeletplugin.drivers.gpu.driver import GpuDriver
from kubeletplugin.drivers.gpu.time_slices import SimulatedTimeSlicingManager
from kubeletplugin.inventory.simulated import SimulatedGpuInventory
from tests.kubeletplugin.inventory.test_simulated import document, group, write
from tests.kubeletplugin.node import NODE, temporary, until_async

NAME = "gpu.reserve.dra"


@pytest.fixture
async def node():
    async with temporary() as found:
        yield found


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "node.yaml"
    write(path, document(group(count=2)))
    return path


def driver(file):
    inventory = SimulatedGpuInventory(file, node=NODE, every=0.01)
    return GpuDriver(inventory, node=NODE, edits=SimulatedContainerEdits(), time_slicing=SimulatedTimeSlicingManager())


async def taints(node):
    (found,) = await node.published()
    return {each["name"]: [t["key"] for t in each.get("taints", ())] for each in found["spec"]["devices"]}


async def test_a_gpu_gets_into_a_container_and_out_again(node, file):
    gpus = driver(file)
    async with node.registered(gpus) as kubelet:
        assert await taints(node) == {"gpu-0": [], "gpu-1": []}
        claim = await node.claim("train", {"driver": NAME, "device": "gpu-1"})
        await kubelet.prepare(claim)
        (name,) = node.cdi_files()
        (device,) = json.loads((node.cdi / name).read_text())["devices"]
        assert device["containerEdits"]["deviceNodes"] == [
            {"path": "/dev/simgpu1", "hostPath": "/dev/null", "permissions": "rw"}
        ]
        await kubelet.unprepare(claim)
        assert node.cdi_files() == []


async def test_a_gpu_that_is_gone_is_refused_to_the_pod(node, file):
    async with node.registered(driver(file)) as kubelet:
        claim = await node.claim("train", {"driver": NAME, "device": "gpu-7"})
        (said,) = (await kubelet.prepare(claim)).values()
    assert "claim default/train: request r: device gpu-7 is not on node n1 (present: gpu-0, gpu-1)" in str(said)


async def test_a_gpu_that_falls_ill_is_tainted_and_told(node, file):
    async with node.registered(driver(file)) as kubelet:
        stream = kubelet.health()
        first = await asyncio.wait_for(stream.read(), 5)
        assert {each.health for each in first.devices} == {HealthStatus.HEALTHY}
        await node.published()
        write(file, document(group(count=2), unhealthy=[{"minor": 1, "reason": "xid", "value": "79"}]))
        second = await asyncio.wait_for(stream.read(), 5)
        ill = [
            (each.device.device_name, each.message) for each in second.devices if each.health != HealthStatus.HEALTHY
        ]
        assert ill == [("gpu-1", "xid 79")]

        async def tainted():
            return await taints(node) == {"gpu-0": [], "gpu-1": ["gpu.reserve.dra/xid"]}

        await until_async(tainted)
