"""GPU inventory from the kernel, for nodes where the plugin cannot load NVIDIA's library.

The PCI bus shows the GPUs, NVIDIA's kernel driver (``/proc/driver/nvidia``) their models and minors. Memory,
architecture and CUDA versions are unknown, and faults are not detected. A GPU that NVIDIA's kernel driver does not have
(another driver has it, or none) has no device node for containers, so it is omitted.
"""

import logging
import re
from collections.abc import AsyncIterator, Hashable
from pathlib import Path
from typing import Final

from kubeletplugin.inventory.gpus import Gpu, poll_changes
from kubeletplugin.inventory.nvidia import LIST_COMMAND, NVIDIA, nvidia_driver_mark
from kubeletplugin.inventory.pci import PciDevices

log = logging.getLogger(__name__)

NVIDIA_VENDOR_ID: Final = "0x10de"
DISPLAY_CLASS_PREFIX: Final = "0x03"
"""PCI class of display controllers: VGA (0x0300…) and 3D (0x0302…), not the GPU's sound card."""

POLL_INTERVAL: Final = 10.0

_UNKNOWN: Final = "?"


class SysfsGpuInventory:
    """The inventory of NVIDIA's GPUs on the PCI bus."""

    def __init__(self, *, sysfs: Path = Path("/sys"), proc: Path = Path("/proc"), every: float = POLL_INTERVAL) -> None:
        self._pci = PciDevices(sysfs)
        self._roots = {"sysfs": sysfs, "proc": proc}
        self._module = sysfs / "module" / "nvidia" / "version"
        self._proc = proc / "driver" / "nvidia"
        self._every = every
        self._left_out: frozenset[str] = frozenset()

    def read(self) -> tuple[Gpu, ...]:
        """Return the GPUs that NVIDIA's kernel driver manages."""
        version = self._version()
        gpus, left_out = [], set()
        for index, at in enumerate(self._addresses()):
            gpu = self._gpu(at, index, version)
            if gpu is None:
                left_out.add(at)
            else:
                gpus.append(gpu)
        for at in sorted(left_out - self._left_out):
            log.warning("GPU at %s is omitted: NVIDIA's kernel driver does not manage it", at)
        self._left_out = frozenset(left_out)
        return tuple(sorted(gpus, key=lambda card: card.minor))

    def changes(self, known: tuple[Gpu, ...]) -> AsyncIterator[None]:
        """Yield whenever GPUs appear or disappear."""
        return poll_changes(self.read, known, every=self._every)

    def mark(self) -> Hashable:
        """Return a fingerprint of the kernel driver and of its GPUs."""
        return nvidia_driver_mark(**self._roots)

    def _addresses(self) -> list[str]:
        return [
            at
            for at in self._pci.addresses()
            if self._pci.attribute(at, "vendor") == NVIDIA_VENDOR_ID
            and self._pci.attribute(at, "class").startswith(DISPLAY_CLASS_PREFIX)
        ]

    def _gpu(self, at: str, index: int, version: str) -> Gpu | None:
        said = self._information(at)
        minor = said.get("Device Minor", "")
        if not minor.isdecimal():
            return None
        uuid = said.get("GPU UUID", "")
        return Gpu(
            minor=int(minor),
            index=index,
            uuid="" if _UNKNOWN in uuid else uuid,
            vendor=NVIDIA,
            list_command=LIST_COMMAND,
            product=said.get("Model", ""),
            driver_version=version,
            pci_bus_id=at,
            pcie_root=self._pci.root(at),
            numa_node=self._pci.numa_node(at),
            nodes=(f"/dev/nvidia{minor}",),
            monitored=False,
        )

    def _information(self, at: str) -> dict[str, str]:
        try:
            text = (self._proc / "gpus" / at / "information").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return {}
        pairs = (line.partition(":") for line in text.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _version(self) -> str:
        try:
            return self._module.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            pass
        try:
            text = (self._proc / "version").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        matched = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)", text)
        return matched[1] if matched else ""
