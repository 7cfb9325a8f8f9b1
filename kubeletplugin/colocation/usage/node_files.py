"""Reads what the whole node uses from ``/proc``, whose files stay open."""

import time
from collections.abc import Callable
from pathlib import Path

from dra.engine.usage.kernel_files import parse_meminfo, parse_stat
from dra.engine.usage.samples import NodeReading
from kubeletplugin.cgroups.cgroup_files import OpenFile


class NodeFileReader:
    """Reads the counters of a node."""

    def __init__(self, proc: Path = Path("/proc"), *, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the files; raises OSError, FileNotFoundError included."""
        self._clock = clock
        self._stat = _open(proc / "stat")
        self._meminfo = _open(proc / "meminfo")

    def read(self) -> NodeReading:
        """Return the counters of now; raises OSError and MalformedKernelFileError."""
        stat, at, meminfo = self._stat.read(), self._clock(), self._meminfo.read()
        return NodeReading(at=at, ticks=parse_stat(stat or b""), memory=parse_meminfo(meminfo or b""))


def _open(path: Path) -> OpenFile:
    opened = OpenFile.open(path)
    if opened is None:
        raise FileNotFoundError(f"{path}: does not exist; mount the host's proc file system")
    return opened
