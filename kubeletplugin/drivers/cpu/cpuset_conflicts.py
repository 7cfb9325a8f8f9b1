"""Detects another writer of the cpusets that the CPU driver writes.

Two writers of one cpuset (the kubelet's static CPU manager, koordlet, an administrator's script) undo each other's
writes forever, and meanwhile containers run on each other's CPUs. The driver can only report the conflict.

Only writes to containers' cgroups count, and only those made while the demand is unchanged: without a conflict, such a
write happens once in a container's life.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kubeletplugin.cgroups.cgroup_names import CgroupLevel, CgroupPath, cgroup_level

CONFLICT_PERIOD: Final = 60.0
CONFLICT_THRESHOLD: Final = 20
"""Number of writes to one container's cpuset within a period that indicates a conflict."""


class CpusetConflicts:
    """Counts writes of cpusets by container, to detect another writer."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._counts: Counter[CgroupPath] = Counter()

    def heed(self, written: Iterable[CgroupPath], *, now: float) -> list[CgroupPath]:
        """Count writes; return the cgroups that have just reached the threshold."""
        if now - self._since > CONFLICT_PERIOD:
            self._since = now
            self._counts.clear()
        found = []
        for each in (path for path in written if cgroup_level(path) is CgroupLevel.CONTAINER):
            self._counts[each] += 1
            if self._counts[each] == CONFLICT_THRESHOLD:
                found.append(each)
        return found
