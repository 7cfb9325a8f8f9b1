"""What is published of a GPU, and that the API server takes it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.drivers.gpu.devices import GpuPublishOptions, build_gpu_devices, format_quantity, to_semver
from kubeletplugin.inventory.gpus import Gpu, GpuFault
from kubeletplugin.inventory.node_file import NodeInventory
from kubeletplugin.inventory.simulated import simulated_gpus
from tests.kubeletplugin.inventory.test_simulated import nodes
from tests.localplane.kinds.registry_client import RegistryClient, refused

H100 = Gpu(
    minor=3,
    index=2,
    uuid="GPU-4a1d",
    product="NVIDIA H100 80GB HBM3",
    brand="Nvidia",
    architecture="Hopper",
    memory=81559 * 2**20,
    driver_version="535.129.03",
    versions={"cudaDriverVersion": "12.2", "cudaComputeCapability": "9.0"},
    vendor="nvidia",
    pci_bus_id="0000:18:00.0",
    pcie_root="pci0000:17",
    numa_node=0,
    extra={"migCapable": True, "links": 18},
)


def published(gpu, **how):
    (device,) = build_gpu_devices([gpu], GpuPublishOptions(**how))
    return msgspec.to_builtins(device)


def test_a_gpu_is_published_as_nvidias_driver_does():
    assert published(H100) == {
        "name": "gpu-3",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": "GPU-4a1d"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "535.129.3"},
            "cudaDriverVersion": {"version": "12.2.0"},
            "index": {"int": 2},
            "minor": {"int": 3},
            "resource.kubernetes.io/pciBusID": {"string": "0000:18:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:17"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "migCapable": {"bool": True},
            "links": {"int": 18},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def test_what_is_not_known_is_left_out():
    assert published(Gpu(minor=0, index=0)) == {
        "name": "gpu-0",
        "attributes": {"type": {"string": "gpu"}, "index": {"int": 0}, "minor": {"int": 0}},
    }


def test_a_share_is_a_part_of_the_memory_and_all_of_it_by_default():
    device = published(H100, shares=True)
    assert device["allowMultipleAllocations"] is True
    assert device["capacity"]["memory"] == {
        "value": "81559Mi",
        "requestPolicy": {"default": "81559Mi", "validRange": {"min": "1Mi", "step": "1Mi"}},
    }


def test_a_share_is_a_percentage_of_the_compute_and_none_by_default():
    assert published(H100, shares=True)["capacity"]["core"] == {
        "value": "100",
        "requestPolicy": {"default": "0", "validRange": {"min": "0", "step": "1"}},
    }


def test_a_partitioned_gpu_is_not_offered():
    assert build_gpu_devices([msgspec.structs.replace(H100, partitioning="MIG mode")], GpuPublishOptions()) == ()


@pytest.mark.parametrize(
    ("effect", "taints"),
    [
        pytest.param(
            "NoSchedule",
            [
                {"key": "gpu.reserve.dra/ecc", "effect": "NoSchedule"},
                {"key": "gpu.reserve.dra/xid", "value": "79", "effect": "NoSchedule"},
            ],
            id="no-new-pods",
        ),
        pytest.param(
            "NoExecute",
            [
                {"key": "gpu.reserve.dra/ecc", "effect": "NoExecute"},
                {"key": "gpu.reserve.dra/xid", "value": "79", "effect": "NoExecute"},
            ],
            id="pods-end",
        ),
        pytest.param("", None, id="switched-off"),
    ],
)
def test_a_fault_is_a_taint(effect, taints):
    ill = msgspec.structs.replace(H100, faults=(GpuFault(reason="xid", value="79"), GpuFault(reason="ecc")))
    assert published(ill, taint_effect=effect).get("taints") == taints


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("535.129.03", "535.129.3"),
        ("12.8", "12.8.0"),
        ("9", "9.0.0"),
        ("570.86.15.1", "570.86.15"),
        ("", ""),
        ("unknown", ""),
    ],
)
def test_versions_are_semantic(text, version):
    assert to_semver(text) == version


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (1, "1"), (1023, "1023"), (1024, "1Ki"), (81559 * 2**20, "81559Mi"), (80 * 2**30, "80Gi")],
)
def test_quantities_are_whole_with_the_greatest_suffix(number, text):
    assert format_quantity(number) == text


@given(nodes(), st.booleans(), st.sampled_from(["NoSchedule", "NoExecute", ""]))
def test_the_api_server_takes_whatever_a_file_describes(node, shares, effect):
    found = build_gpu_devices(
        simulated_gpus(NodeInventory.model_validate(node), node="n1"),
        GpuPublishOptions(shares=shares, taint_effect=effect),
    )
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    for start in range(0, len(found), 64):
        spec = {"driver": "gpu.reserve.dra", "nodeName": "n1", "pool": pool}
        spec["devices"] = msgspec.to_builtins(found[start : start + 64])
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
        assert refused(RegistryClient().create, body) == []
