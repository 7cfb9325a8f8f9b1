"""Memory limits for real processes, as a pod's container has them: a cgroup of version 1 or 2."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A cgroup with a limit of memory; the kernel kills what goes beyond it."""

    path: Path
    usage: str

    def within(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs another one in the cgroup."""
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs; exec {shlex.join(command)}"]

    @property
    def peak(self) -> int:
        """The most bytes that were used at a time."""
        return int((self.path / self.usage).read_text())


@contextlib.contextmanager
def limited(name: str, *, mib: int) -> Iterator[MemoryLimit]:
    """Yield a cgroup with so much memory, and no swap; skip the test where none can be made."""
    first = (ROOT / "memory").is_dir()
    path = (ROOT / "memory" if first else ROOT) / f"dra-reserve-{name}-{os.getpid()}"
    limit, usage = ("memory.limit_in_bytes", "memory.max_usage_in_bytes") if first else ("memory.max", "memory.peak")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    try:
        try:
            (path / limit).write_text(str(mib << 20))
        except OSError as error:
            pytest.skip(f"memory cannot be limited: {error}")
        yield MemoryLimit(path, usage)
    finally:
        path.rmdir()
