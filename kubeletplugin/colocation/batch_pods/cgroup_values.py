"""Reads and writes the CPU and memory values of the cgroups in the class BestEffort, v1 and v2.

=========  =======================  ==============================
value      v1                       v2
=========  =======================  ==============================
shares     ``cpu.shares``           ``cpu.weight``
quota      ``cpu.cfs_quota_us``     ``cpu.max``, its first number
period     ``cpu.cfs_period_us``    ``cpu.max``, its second number
burst      ``cpu.cfs_burst_us``     ``cpu.max.burst``
memory     ``memory.limit_in_bytes``  ``memory.max``
=========  =======================  ==============================

Periods are read and never written. A file that a kernel lacks reads as a cgroup without the value, and is not written.
"""

import itertools
import os
from enum import Enum, auto
from typing import Final

from dra.engine.suppression.cpu_weights import WeightSample
from dra.engine.suppression.quota import PERIOD_MICROS
from dra.engine.suppression.writes import CgroupFile, CgroupState, CgroupWrite
from kubeletplugin.cgroups.cgroup_files import read_file, write_file
from kubeletplugin.cgroups.cgroup_names import CgroupPath, is_best_effort
from kubeletplugin.cgroups.cgroup_tree import LEVELS_MAX, POD_CGROUPS_MAX, PodWalk, child_names, take_turns
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.pod_cgroups import Controller, PodHierarchies

CGROUPS_MAX: Final = 4000
"""Cgroups in the class that are read at most, a part of each pod's."""

_CONTAINER_LEVELS: Final = 1
"""Levels below a pod that are read in v2, where cgroups that containers make stand in the way of no value."""

_V1_NAMES: Final = {
    CgroupFile.SHARES: "cpu.shares",
    CgroupFile.QUOTA: "cpu.cfs_quota_us",
    CgroupFile.BURST: "cpu.cfs_burst_us",
    CgroupFile.MEMORY: "memory.limit_in_bytes",
}
_V2_NAMES: Final = {
    CgroupFile.SHARES: "cpu.weight",
    CgroupFile.QUOTA: "cpu.max",
    CgroupFile.BURST: "cpu.max.burst",
    CgroupFile.MEMORY: "memory.max",
}
_NO_V1_LIMIT: Final = 2**62
"""Bytes from which on a limit of v1 is none: the kernel shows the greatest number of whole pages."""

_IDLE_SHARES: Final = 3
"""What ``cpu.shares`` reads while ``cpu.idle`` is set; in v2 the weight reads 0."""


class Extent(Enum):
    """The part of the class that is read."""

    CLASS = auto()  # its own quota
    QUOTAS = auto()  # the quotas of all cgroups in it
    VALUES = auto()  # all values of all cgroups in it


class ClassCgroups:
    """The cgroup of the class BestEffort and those below it."""

    def __init__(self, hierarchies: PodHierarchies, path: CgroupPath) -> None:
        """Create a view; nothing is read yet. `path` is that of the class, below the cgroup of all pods."""
        self.path = path
        self.kubepods = hierarchies.kubepods
        self.is_v2 = hierarchies.version is CgroupVersion.V2
        self.partly_read: tuple[CgroupPath, ...] = ()
        """Pods of which `read` left out cgroups the last time, in v1: a quota in one of those may stand in the way."""

        self._names = _V2_NAMES if self.is_v2 else _V1_NAMES
        self._top = str(hierarchies.tops.get(Controller.CPU, ""))
        # As text: thousands of paths are made, and Path takes longer for one than the kernel for its file.
        self._cpu, self._memory = (
            str(hierarchies.folder(controller) or "") for controller in (Controller.CPU, Controller.MEMORY)
        )

    @classmethod
    def find(cls, hierarchies: PodHierarchies) -> "ClassCgroups | None":
        """Return the cgroups of the class; None if the kubelet has none, or the kernel no controller of CPUs."""
        folder = hierarchies.folder(Controller.CPU)
        if folder is None:
            return None
        path = next(((name,) for name in child_names(str(folder)) if is_best_effort((name,))), None)
        return None if path is None else cls(hierarchies, path)

    def read(self, extent: Extent) -> tuple[CgroupState, ...]:
        """Return the present values, the class first; cgroups that vanish meanwhile are left out. Raises OSError.

        In v1 the last one stands for what is above the class, with the path of the cgroup of all pods, if a quota there
        bounds all pods.
        """
        states: list[CgroupState] = []
        walks = [] if extent is Extent.CLASS else self._pods()
        for path in itertools.chain((self.path,), take_turns(walks, most=CGROUPS_MAX)):
            state = self._state(path, values=extent is Extent.VALUES)
            if state is not None:
                states.append(state)
        self.partly_read = () if self.is_v2 else tuple(walk.path for walk in walks if not walk.is_whole)
        above = None if self.is_v2 or not states else self._state_above()
        return tuple(states) if above is None else (*states, above)

    def containers(self, pod: CgroupPath) -> tuple[str, ...]:
        """Return the names of the cgroups in a pod's cgroup. Raises OSError."""
        return tuple(child_names(_folder(self._cpu, pod), most=POD_CGROUPS_MAX))

    def write(self, write: CgroupWrite) -> bool:
        """Write one value; return False if file or cgroup does not exist. Raises OSError if the kernel refuses."""
        top = self._memory if write.file is CgroupFile.MEMORY else self._cpu
        no_limit = "max" if self.is_v2 else "-1"
        value = no_limit if write.value is None else str(write.value)
        return bool(top) and write_file(f"{_folder(top, write.path)}/{self._names[write.file]}", value)

    def weight(self, path: CgroupPath, shares: int) -> WeightSample | None:
        """Return the weight of a cgroup of the kubelet's with the shares that it meant; None in v1. Raises OSError."""
        weight = _number(f"{_folder(self._cpu, path)}/cpu.weight") if self.is_v2 else None
        return None if weight is None else WeightSample(shares=shares, weight=weight)

    def _state_above(self) -> CgroupState | None:
        """Return the least quota of the cgroup of all pods and those above it; None if none has one."""
        least: CgroupState | None = None
        for length in range(1, len(self.kubepods) + 1):
            bandwidth = self._bandwidth(_folder(self._top, self.kubepods[:length]))
            if bandwidth is None or bandwidth[0] is None:
                continue
            if least is None or least.quota is None or bandwidth[0] * least.period < least.quota * bandwidth[1]:
                least = CgroupState(path=(), quota=bandwidth[0], period=bandwidth[1])
        return least

    def _pods(self) -> list[PodWalk]:
        levels = _CONTAINER_LEVELS if self.is_v2 else LEVELS_MAX
        names = child_names(_folder(self._cpu, self.path))
        return [PodWalk(self._cpu, (*self.path, name), levels=levels) for name in names]

    def _state(self, path: CgroupPath, *, values: bool) -> CgroupState | None:
        cpu = _folder(self._cpu, path)
        bandwidth = self._bandwidth(cpu)
        if bandwidth is None and not os.path.isdir(cpu):  # noqa: PTH112 - hundreds of them, again and again
            return None
        quota, period = bandwidth or (None, PERIOD_MICROS)
        has_quota = bandwidth is not None
        # Also without a quota: the kernel takes any burst then, and refuses a quota below it later.
        burst = _number(f"{cpu}/{self._names[CgroupFile.BURST]}") or 0
        if not values:
            return CgroupState(path=path, has_quota=has_quota, quota=quota, period=period, burst=burst)
        shares = _number(f"{cpu}/{self._names[CgroupFile.SHARES]}")
        memory = _folder(self._memory, path) if self._memory else ""
        limit = _number(f"{memory}/{self._names[CgroupFile.MEMORY]}") if memory else None
        used = "memory.current" if self.is_v2 else "memory.usage_in_bytes"
        return CgroupState(
            path=path,
            has_quota=has_quota,
            quota=quota,
            period=period,
            burst=burst,
            shares=shares,
            is_idle=shares in (0, _IDLE_SHARES) and _number(f"{cpu}/cpu.idle") == 1,
            memory=None if limit is None or limit >= _NO_V1_LIMIT else limit,
            memory_used=_number(f"{memory}/{used}") if memory else None,
        )

    def _bandwidth(self, folder: str) -> tuple[int | None, int] | None:
        """Return quota and period in microseconds; None if the cgroup is gone or the kernel has no quotas."""
        if self.is_v2:
            numbers = (read_file(f"{folder}/cpu.max") or b"").split()
            if not numbers:
                return None
            return _limit(numbers[0]), int(numbers[1]) if numbers[1:] else PERIOD_MICROS
        quota = read_file(f"{folder}/cpu.cfs_quota_us")
        if quota is None:
            return None
        return _limit(quota), _number(f"{folder}/cpu.cfs_period_us") or PERIOD_MICROS


def _folder(top: str, path: CgroupPath) -> str:
    return "/".join((top, *path))


def _number(path: str) -> int | None:
    """Return the number in a file; None without a file, and for ``max``."""
    content = read_file(path)
    return None if content is None else _limit(content)


def _limit(content: bytes) -> int | None:
    text = content.strip()
    return None if text in (b"max", b"-1", b"") else int(text)
