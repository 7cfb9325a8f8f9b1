"""Sources of the CPU topology for the CPU driver."""

from pathlib import Path
from typing import Protocol

from dra.engine.cpus.topology import CpuTopology
from kubeletplugin.inventory import sysfs_cpus


class CpuTopologySource(Protocol):
    """A source of a machine's CPU topology, read on demand."""

    def read(self) -> CpuTopology:
        """Return the current topology of the machine."""
        ...

    def mark(self) -> str:
        """Return a fingerprint, cheap to read, that changes when the topology may have changed."""
        ...


class SysfsTopologySource:
    """The CPU topology of this machine, from sysfs."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self) -> CpuTopology:
        """Return the topology from sysfs. Raises UnreadableTopologyError."""
        return sysfs_cpus.read_topology(self._root).topology

    def mark(self) -> str:
        """Return the kernel's list of online CPUs; empty if unreadable."""
        try:
            return (self._root / sysfs_cpus.SYSFS_CPU / "online").read_text()
        except OSError:
            return ""
