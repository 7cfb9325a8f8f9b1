"""Reads what pods use from the files of their cgroups, v1 and v2, which stay open between two rounds.

A pod's own cgroup is read, not those of its containers: it keeps what containers have used that ended. All files of a
pod are read in one go, so that amounts that are subtracted from each other are of one moment.
"""

import resource
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from dra.engine.usage.kernel_files import (
    CpuPressure,
    MalformedKernelFileError,
    parse_amount,
    parse_cpu_stat_nanos,
    parse_inactive_file_bytes,
    parse_pressure,
    working_set_bytes,
)
from dra.engine.usage.samples import PodReading
from kubeletplugin.cgroups.cgroup_files import OpenFile, read_file
from kubeletplugin.cgroups.cgroup_names import CgroupPath
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.pod_cgroups import Controller, PodHierarchies

PRESSURE: Final = "cpu.pressure"
_POPULATED: Final = b"populated 1"
_FILES_PER_POD: Final = 4


class PodFiles:
    """The files of one pod's cgroup."""

    __slots__ = ("_cpu", "_is_v2", "_memory", "_pressure", "_stat", "memory_bytes")

    def __init__(self, hierarchies: PodHierarchies, path: CgroupPath) -> None:
        """Open the files; raises OSError, and FileNotFoundError for files that every pod of this machine must have."""
        self._is_v2 = hierarchies.version is CgroupVersion.V2
        cpu, memory = hierarchies.folder(Controller.CPUACCT, path), hierarchies.folder(Controller.MEMORY, path)
        self._cpu = _open(cpu, "cpu.stat" if self._is_v2 else "cpuacct.usage")
        self._memory = _open(memory, "memory.current" if self._is_v2 else "memory.usage_in_bytes")
        self._stat = _open(memory, "memory.stat")
        self._pressure = _open_pressure(hierarchies, path)
        self.memory_bytes = 0

    def read(self, *, memory: bool, renewed: bool, clock: Callable[[], float]) -> PodReading | None:
        """Return what the pod has used; None if its cgroup was removed.

        Without `memory`, the amount of the last reading is given. Raises OSError and MalformedKernelFileError.
        """
        content, at = self._cpu.read(), clock()
        if content is None:
            return None
        if memory:
            usage, stat = self._memory.read(), self._stat.read()
            if usage is None or stat is None:
                return None
            inactive = parse_inactive_file_bytes(stat, unified=self._is_v2)
            self.memory_bytes = working_set_bytes(parse_amount(usage), inactive)
        return PodReading(
            at=at,
            cpu_nanos=parse_cpu_stat_nanos(content) if self._is_v2 else parse_amount(content),
            memory_bytes=self.memory_bytes,
            pressure=self._read_pressure(),
            renewed=renewed,
        )

    def _read_pressure(self) -> CpuPressure | None:
        """Return the pressure, which may be switched off for one cgroup at any time: that is no failure."""
        try:
            content = None if self._pressure is None else self._pressure.read()
            return None if content is None else parse_pressure(content)
        except (OSError, MalformedKernelFileError):
            return None

    def close(self) -> None:
        """Close all files of the pod."""
        for file in (self._cpu, self._memory, self._stat, self._pressure):
            if file is not None:
                file.close()


class PodFileReader:
    """Reads the pods of a node; keeps the files of each pod open until the pod is gone."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, kept_max: int | None = None) -> None:
        """Create a reader that keeps files of at most `kept_max` pods open, by default as the process may open."""
        self._clock = clock
        self._kept_max = _kept_max() if kept_max is None else kept_max
        self._files: dict[CgroupPath, PodFiles] = {}
        self._hierarchies: PodHierarchies | None = None
        self.unreadable: dict[CgroupPath, str] = {}
        """Why pods were not read in the last round, by their cgroups."""

    def read_kubepods(self, hierarchies: PodHierarchies) -> int | None:
        """Return the CPU time in nanoseconds of all pods, ended ones included; None if it cannot be read."""
        folder, is_v2 = hierarchies.folder(Controller.CPUACCT), hierarchies.version is CgroupVersion.V2
        if folder is None:
            return None
        try:
            content = read_file(folder / ("cpu.stat" if is_v2 else "cpuacct.usage"))
            if content is None:
                return None
            return parse_cpu_stat_nanos(content) if is_v2 else parse_amount(content)
        except (OSError, MalformedKernelFileError):
            return None

    def read(
        self, hierarchies: PodHierarchies, paths: Collection[CgroupPath], *, memory: bool = True
    ) -> Iterator[tuple[CgroupPath, PodReading]]:
        """Yield what each pod has used, except for pods that are gone or unreadable; close the files of all others."""
        if hierarchies is not self._hierarchies and hierarchies != self._hierarchies:
            self.close()
            self._hierarchies = hierarchies
        for path in self._files.keys() - set(paths):
            self._files.pop(path).close()
        self.unreadable = {}
        for path in paths:
            try:
                reading = self._read(hierarchies, path, memory=memory)
            except FileNotFoundError as error:
                if _exists(hierarchies, path):
                    self.unreadable[path] = str(error)
            except (OSError, MalformedKernelFileError) as error:
                self.unreadable[path] = str(error)
            else:
                if reading is not None:
                    yield path, reading

    def close(self) -> None:
        """Close the files of all pods."""
        for files in self._files.values():
            files.close()
        self._files.clear()

    def _read(self, hierarchies: PodHierarchies, path: CgroupPath, *, memory: bool) -> PodReading | None:
        files = self._files.get(path)
        if files is not None:
            reading = files.read(memory=memory, renewed=False, clock=self._clock)
            if reading is not None:
                return reading
            self._files.pop(path).close()
        files = PodFiles(hierarchies, path)
        if len(self._files) < self._kept_max:
            # The counter of a cgroup that was made anew under the same name begins anew.
            self._files[path] = files
            return files.read(memory=True, renewed=True, clock=self._clock)
        try:
            return files.read(memory=True, renewed=False, clock=self._clock)
        finally:
            files.close()


def _open(folder: Path | None, name: str) -> OpenFile:
    opened = None if folder is None else OpenFile.open(folder / name)
    if opened is None:
        raise FileNotFoundError(f"cgroup {folder}: has no {name}")
    return opened


def _open_pressure(hierarchies: PodHierarchies, path: CgroupPath) -> OpenFile | None:
    """Return the pressure file of a pod's own cgroup; None where processes of the pod are not accounted there.

    Beside v1, systemd makes cgroups of the same names in the v2 tree; their pressure is that of no process.
    """
    folder = hierarchies.unified_folder(path)
    if folder is None:
        return None
    try:
        if hierarchies.version is CgroupVersion.V1 and _POPULATED not in (read_file(folder / "cgroup.events") or b""):
            return None
        return OpenFile.open(folder / PRESSURE)
    except OSError:  # EOPNOTSUPP: the kernel was told not to measure pressure
        return None


def _exists(hierarchies: PodHierarchies, path: CgroupPath) -> bool:
    folders = (hierarchies.folder(controller, path) for controller in Controller)
    return any(folder is not None and folder.is_dir() for folder in folders)


def _kept_max() -> int:
    """Return the number of pods whose files may stay open: a half of what the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(soft // 2 // _FILES_PER_POD, 1024)
