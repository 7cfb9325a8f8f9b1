"""GPUs as the kernel shows them."""

import asyncio

import pytest

from kubeletplugin.inventory.gpus import Gpu
from kubeletplugin.inventory.sysfs_gpus import SysfsGpuInventory

INFORMATION = """\
Model: \t\t NVIDIA L4
IRQ:   \t\t 90
GPU UUID: \t {uuid}
Video BIOS: \t 95.04.65.00.21
Bus Type: \t PCIe
Bus Location: \t 0000:31:00.0
Device Minor: \t {minor}
GPU Excluded:\t No
"""
VERSION = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)
GCC version:  gcc version 11.4.0
"""


def pci_device(root_folder, at, *, root="pci0000:30", **files):
    """Make a device of the PCI bus, below a bridge as usual."""
    folder = root_folder / "sys" / "devices" / root / "0000:30:01.0" / at
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    bus = root_folder / "sys" / "bus" / "pci" / "devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / at).symlink_to(folder)


def gpu(root_folder, at, *, minor=None, uuid="GPU-0", kind="0x030200", **fields):
    pci_device(root_folder, at, vendor="0x10de", **{"class": kind, "numa_node": "0"} | fields)
    if minor is not None:
        folder = root_folder / "proc" / "driver" / "nvidia" / "gpus" / at
        folder.mkdir(parents=True)
        (folder / "information").write_text(INFORMATION.format(minor=minor, uuid=uuid))


@pytest.fixture
def node(tmp_path):
    version = tmp_path / "sys" / "module" / "nvidia" / "version"
    version.parent.mkdir(parents=True)
    version.write_text("550.54.15\n")
    return tmp_path


def inventory(node):
    return SysfsGpuInventory(sysfs=node / "sys", proc=node / "proc", every=0.001)


def test_a_gpu_is_what_the_kernel_tells_of_it(node):
    gpu(node, "0000:31:00.0", minor=0)
    assert inventory(node).read() == (
        Gpu(
            minor=0,
            index=0,
            uuid="GPU-0",
            product="NVIDIA L4",
            vendor="nvidia",
            list_command="nvidia-smi -L",
            driver_version="550.54.15",
            pci_bus_id="0000:31:00.0",
            pcie_root="pci0000:30",
            numa_node=0,
            nodes=("/dev/nvidia0",),
            monitored=False,
        ),
    )


def test_minors_name_gpus_not_their_order_on_the_bus(node):
    gpu(node, "0000:31:00.0", minor=1)
    gpu(node, "0000:32:00.0", minor=0)
    assert [(each.name, each.index) for each in inventory(node).read()] == [("gpu-0", 1), ("gpu-1", 0)]


def test_what_is_no_gpu_of_nvidia_is_not_looked_at(node):
    gpu(node, "0000:31:00.1", minor=0, kind="0x040300")
    pci_device(node, "0000:32:00.0", vendor="0x1002", **{"class": "0x030000"})
    pci_device(node, "0000:33:00.0")
    assert inventory(node).read() == ()


def test_a_gpu_that_the_driver_does_not_have_is_left_out_and_told_once(node, caplog):
    gpu(node, "0000:31:00.0")
    gpu(node, "0000:32:00.0", minor=0)
    gpus = inventory(node)
    assert [each.pci_bus_id for each in gpus.read()] == [each.pci_bus_id for each in gpus.read()] == ["0000:32:00.0"]
    assert [record.message for record in caplog.records] == [
        "GPU at 0000:31:00.0 is omitted: NVIDIA's kernel driver does not manage it"
    ]


def test_a_uuid_that_the_driver_does_not_know_yet_is_none(node):
    gpu(node, "0000:31:00.0", minor=0, uuid="GPU-????????-????-????-????-????????????")
    assert inventory(node).read()[0].uuid == ""


@pytest.mark.parametrize(
    ("online", "numa_node"),
    [
        pytest.param(None, None, id="unknown"),
        pytest.param("0-1", None, id="one-of-two"),
        pytest.param("0", 0, id="the-only-one"),
    ],
)
def test_without_affinity_a_gpu_is_on_the_numa_node_that_is_the_only_one(node, online, numa_node):
    gpu(node, "0000:31:00.0", minor=0, numa_node="-1")
    if online is not None:
        file = node / "sys" / "devices" / "system" / "node" / "online"
        file.parent.mkdir(parents=True)
        file.write_text(f"{online}\n")
    assert inventory(node).read()[0].numa_node == numa_node


def test_the_version_is_found_in_proc_too(tmp_path):
    gpu(tmp_path, "0000:31:00.0", minor=0)
    (tmp_path / "proc" / "driver" / "nvidia" / "version").write_text(VERSION)
    assert inventory(tmp_path).read()[0].driver_version == "550.54.15"


def test_a_machine_without_anything_has_no_gpus(tmp_path):
    assert inventory(tmp_path).read() == ()


async def test_a_gpu_that_comes_is_told(node):
    gpu(node, "0000:31:00.0", minor=0)
    gpus = inventory(node)
    changes = gpus.changes(gpus.read())
    gpu(node, "0000:32:00.0", minor=1)
    await asyncio.wait_for(anext(changes), 10)
    assert len(gpus.read()) == 2
