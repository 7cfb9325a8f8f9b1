"""A node with NVIDIA's GPUs: its sysfs, ``/proc``, ``/dev`` and driver files below a folder, and plugins on it.

Device nodes are plain files here: making real ones takes rights.
"""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from kubeletplugin.checkpoint import Checkpoint
from kubeletplugin.contract import PreparedClaim
from kubeletplugin.drivers.gpu.device_names import DEVICE_NAMES_FILE, DeviceNames
from kubeletplugin.drivers.gpu.driver import GpuDriver
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.nvidia_container_edits import NvidiaContainerEdits
from kubeletplugin.drivers.gpu.time_slices import SimulatedTimeSlicingManager
from kubeletplugin.inventory.nvml import NvmlGpuInventory
from kubeletplugin.inventory.sysfs_gpus import SysfsGpuInventory
from tests.kubeletplugin.fakes import FakeNode
from tests.kubeletplugin.inventory.pynvml import Nvml, device

LIBRARIES = "usr/lib/x86_64-linux-gnu"
UNKNOWN_UUID = "GPU-????????-????-????-????-????????????"


@dataclass
class GpuNode:
    """What may change at a reboot; `boot` makes the files of it."""

    folder: Path
    cards: dict[str, str] = field(default_factory=dict)
    """Uuid by PCI address; the minor is the position."""

    version: str = "570.10.1"
    library_version: str = ""
    """Version of the installed libraries; empty: that of the kernel module."""

    libraries: str = LIBRARIES
    hook: str = "usr/bin/nvidia-cdi-hook"
    nodes: tuple[str, ...] = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
    model: str = "NVIDIA L40S"
    inventory: str = "sysfs"

    def __post_init__(self):
        self.nvml = Nvml()
        self.root = self.folder / "root"
        (self.folder / "state").mkdir(parents=True, exist_ok=True)
        self.node = FakeNode(self.folder / "state")

    def boot(self, **changes):
        """Make the files anew; what lies in memory is gone."""
        shutil.rmtree(self.node.cdi.folder, ignore_errors=True)
        return self.load(**changes)

    def load(self, **changes):
        """Load the kernel driver again, while everything else runs on."""
        for name, value in changes.items():
            setattr(self, name, value)
        for name in ("sys", "proc", "dev", "usr", "run", "var", "home"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        for minor, (at, uuid) in enumerate(self.cards.items()):
            pci = f"sys/bus/pci/devices/{at}"
            self._write(f"{pci}/vendor", "0x10de\n")
            self._write(f"{pci}/class", "0x030200\n")
            self._write(
                f"proc/driver/nvidia/gpus/{at}/information",
                f"Model: \t\t {self.model}\nGPU UUID: \t {uuid}\nBus Location: \t {at}\nDevice Minor: \t {minor}\n",
            )
            self._write(f"dev/nvidia{minor}")
        self._write("sys/module/nvidia/version", f"{self.version}\n")
        self.nvml.driver = self.version
        self.nvml.devices = [
            device(minor, nvmlDeviceGetUUID=uuid, nvmlDeviceGetPciInfo=SimpleNamespace(busId=f"0000{at.upper()}"))
            for minor, (at, uuid) in enumerate(self.cards.items())
        ]
        for name in self.nodes:
            self._write(f"dev/{name}")
        self.install()
        return self

    def install(self):
        """Install libraries and the toolkit's hook."""
        version = self.library_version or self.version
        self._write(f"{self.libraries}/libcuda.so.{version}")
        (self.root / self.libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")
        if self.hook:
            self._write(self.hook).chmod(0o755)

    def add_node(self, name):
        self._write(f"dev/{name}")

    def driver(self, *, names=True):
        roots = {"sysfs": self.root / "sys", "proc": self.root / "proc"}
        nvml = self.inventory == "nvml"
        return GpuDriver(
            NvmlGpuInventory(lambda: self.nvml, **roots) if nvml else SysfsGpuInventory(**roots),
            node="n1",
            edits=NvidiaContainerEdits(DriverRoot(here=self.root)),
            time_slicing=SimulatedTimeSlicingManager(),
            names=DeviceNames(self.node.own / DEVICE_NAMES_FILE) if names else None,
        )

    def instance(self, driver=None, **more):
        """Return a plugin that has just been started."""
        return self.node.instance(driver=driver or self.driver(), **more)

    def forget_identities(self):
        """Write the checkpoint as a build does that does not know identities."""
        checkpoint = Checkpoint(self.node.checkpoint, PreparedClaim, sync=False)
        document = json.loads(self.node.checkpoint.read_text())["content"]
        for claim in document:
            for prepared in claim["devices"]:
                prepared.pop("identity", None)
        checkpoint.write(tuple(document))

    def spec(self, claim):
        """Return the CDI spec of a claim; None if there is none."""
        path = self.node.cdi.path(claim.uid)
        return json.loads(path.read_text()) if path.exists() else None

    def given(self, spec):
        """Return what containers get by a CDI spec, the uuids by their device nodes; raise for what is not there."""
        common = spec["containerEdits"]
        edits = [each["containerEdits"] for each in spec["devices"]]
        nodes = [each["path"] for device in edits for each in device["deviceNodes"]]
        paths = [
            *(each["hostPath"] for each in common["mounts"]),
            *(each["path"] for each in common.get("hooks", ())),
            *(each["path"] for each in common["deviceNodes"]),
            *nodes,
        ]
        assert [path for path in paths if not (self.root / path.lstrip("/")).exists()] == []
        assert f"/{self.libraries}/libcuda.so.{self.version}" in paths
        assert {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= set(paths)
        by_node = {f"/dev/nvidia{minor}": uuid for minor, uuid in enumerate(self.cards.values())}
        uuids = [by_node[node] for node in nodes]
        told = [each.partition("=")[2] for device in edits for each in device["env"][:1]]
        assert told == uuids
        return uuids

    def _write(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


def published(driver):
    """Return the uuids that a driver publishes, by device name."""
    return {
        device.name: device.attributes.get("uuid", {}).get("string", "")
        for pool in driver.pools()
        for device in pool.devices
    }


def taints(driver):
    """Return the keys of taints that a driver publishes, by device name."""
    return {
        device.name: [taint.key.partition("/")[2] for taint in device.taints or ()]
        for pool in driver.pools()
        for device in pool.devices
    }
