"""PCI devices in sysfs: addresses, root complexes and NUMA nodes."""

import re
from pathlib import Path
from typing import Final

_ADDRESS: Final = re.compile(r"(?:0x)?([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2}\.[0-7])")
_NO_AFFINITY: Final = "-1"
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


def normalize_pci_address(text: str) -> str:
    """Return a PCI address in the form of sysfs (NVML: ``00000000:3B:00.0``); empty if the text is no address."""
    match = _ADDRESS.fullmatch(text.strip().lower())
    if match is None:
        return ""
    domain, bus, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{function}"


class PciDevices:
    """The PCI devices below ``/sys/bus/pci/devices``."""

    def __init__(self, sysfs: Path = Path("/sys")) -> None:
        self._folder = sysfs / "bus" / "pci" / "devices"
        self._nodes = sysfs / "devices" / "system" / "node" / "online"

    def addresses(self) -> list[str]:
        """Return the addresses of all PCI devices, sorted."""
        try:
            return sorted(entry.name for entry in self._folder.iterdir() if normalize_pci_address(entry.name))
        except OSError:
            return []

    def attribute(self, at: str, name: str) -> str:
        """Return the content of a device's sysfs file; empty if it cannot be read."""
        try:
            return (self._folder / at / name).read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return ""

    def root(self, at: str) -> str:
        """Return the root complex above a device; devices below the same root communicate without crossing another."""
        if not at:
            return ""
        parts = (self._folder / at).resolve().parts
        return next((part for part in parts if _ROOT.fullmatch(part)), "")

    def numa_node(self, at: str) -> int | None:
        """Return the NUMA node of a device; None if the kernel reports -1, which means no affinity.

        On a machine with a single NUMA node, as many virtual ones have, a device without affinity is on that one.
        """
        text = self.attribute(at, "numa_node") if at else ""
        if text == _NO_AFFINITY:
            text = self._online_nodes()
        return int(text) if text.isdecimal() else None

    def _online_nodes(self) -> str:
        """Return the list of NUMA nodes that are online, a single number for a single one; empty if unreadable."""
        try:
            return self._nodes.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return ""
