"""Memory limits of processes, as kubelets set them: a cgroup with a limit, beyond which the kernel ends the process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_V1: Final = Path("/sys/fs/cgroup/memory")
_V2: Final = Path("/sys/fs/cgroup")
_LIMIT: Final = {_V1: "memory.limit_in_bytes", _V2: "memory.max"}
_PEAK: Final = {_V1: "memory.max_usage_in_bytes", _V2: "memory.peak"}


class NoCgroupError(Exception):
    """No cgroup can be made here: the tests run without the right to, or on another system."""


@dataclass(frozen=True)
class Limited:
    """A cgroup with a memory limit."""

    folder: Path
    root: Path

    def take_in(self, pid: int) -> None:
        """Limit a process, and those that it starts."""
        (self.folder / "cgroup.procs").write_text(f"{pid}\n")

    @property
    def peak(self) -> int:
        """The most bytes that were in use at a time, page cache included."""
        return int((self.folder / _PEAK[self.root]).read_text())


@contextlib.contextmanager
def limited(*, mebibytes: int) -> Iterator[Limited]:
    """Yield a cgroup; all its processes must have ended at the end. Raises NoCgroupError."""
    root = _V1 if _V1.is_dir() else _V2
    folder = root / f"dra-reserve-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / _LIMIT[root]).write_text(f"{mebibytes << 20}\n")
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise NoCgroupError(str(error)) from error
    try:
        yield Limited(folder, root)
    finally:
        folder.rmdir()
