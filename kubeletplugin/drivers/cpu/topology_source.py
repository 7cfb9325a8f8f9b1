"""Where the driver learns which CPUs there are."""

from pathlib import Path
from typing import Protocol

from dra.engine.cpus.topology import CpuTopology
from kubeletplugin.inventory import sysfs_cpus


class CpuTopologySource(Protocol):
    """A machine's CPUs, read when asked."""

    def read(self) -> CpuTopology:
        """Return the topology as it is now."""
        ...

    def mark(self) -> str:
        """Return something that changes when the topology may have, and costs next to nothing."""
        ...


class SysfsTopologySource:
    """The CPUs of this machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self) -> CpuTopology:
        """Return the topology. Raises UnreadableTopologyError."""
        return sysfs_cpus.read_topology(self._root).topology

    def mark(self) -> str:
        """Return which CPUs are online."""
        try:
            return (self._root / sysfs_cpus.SYSFS_CPU / "online").read_text()
        except OSError:
            return ""
