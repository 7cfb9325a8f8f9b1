"""Memory limits of processes, as kubelets set them: a cgroup with a limit, beyond which the kernel ends the process."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"

MANIFESTS: Final = {
    "controller": DEPLOY / "kustomize" / "base" / "deployment.yaml",
    "scheduler-extender": DEPLOY / "reservations" / "extender.yaml",
    "descheduler": DEPLOY / "descheduler" / "descheduler.yaml",
    "page": DEPLOY / "page" / "page.yaml",
    "kubelet-plugin": DEPLOY / "kubelet-plugin" / "daemonset.yaml",
}
"""Process → the manifest with its container."""

_UNITS: Final = {"Mi": 1, "Gi": 1024}

_V1: Final = Path("/sys/fs/cgroup/memory")
_V2: Final = Path("/sys/fs/cgroup")
_LIMIT: Final = {_V1: "memory.limit_in_bytes", _V2: "memory.max"}
_PEAK: Final = {_V1: "memory.max_usage_in_bytes", _V2: "memory.peak"}
_EVENTS: Final = {_V1: "memory.oom_control", _V2: "memory.events"}


class NoCgroupError(Exception):
    """No cgroup can be made here: the tests run without the right to, or on another system."""


def installed(process: str) -> int:
    """Return the mebibytes that a process is installed with."""
    objects = yaml.safe_load_all(MANIFESTS[process].read_text(encoding="utf-8"))
    (workload,) = (obj for obj in objects if obj["kind"] in {"Deployment", "DaemonSet"})
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    limit: str = container["resources"]["limits"]["memory"]
    return int(limit[:-2]) * _UNITS[limit[-2:]]


@dataclass(frozen=True)
class Limited:
    """A cgroup with a memory limit."""

    folder: Path
    root: Path

    def within(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs another one in the cgroup, from its first byte on."""
        return ["sh", "-c", f"echo $$ > {shlex.quote(str(self.folder))}/cgroup.procs; exec {shlex.join(command)}"]

    def take_in(self, pid: int) -> None:
        """Limit a process that runs, and those that it starts; what it has already does not count."""
        (self.folder / "cgroup.procs").write_text(f"{pid}\n")

    @property
    def peak(self) -> int:
        """The most bytes that were in use at a time, page cache included."""
        return int((self.folder / _PEAK[self.root]).read_text())

    @property
    def kills(self) -> int:
        """The processes that the kernel has ended because they needed more."""
        counts = dict(line.split() for line in (self.folder / _EVENTS[self.root]).read_text().splitlines())
        return int(counts.get("oom_kill", 0))


@contextlib.contextmanager
def limited(name: str, *, mebibytes: int) -> Iterator[Limited]:
    """Yield a cgroup; all its processes must have ended at the end. Raises NoCgroupError."""
    root = _V1 if _V1.is_dir() else _V2
    folder = root / f"dra-reserve-{name}-{os.getpid()}"
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
