"""Notices when somebody else writes the cpusets that we write.

Two writers of one cpuset (the kubelet's static CPU manager, koordlet, an administrator's script) undo each other for
ever, and containers run on each other's CPUs meanwhile. Nothing can be done about it here but to say it.

Only containers count, and only what is written while the demand is the same: that happens once in a container's life.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kubeletplugin.cgroups.cgroup_names import CgroupLevel, CgroupPath, cgroup_level

CONFLICT_PERIOD: Final = 60.0
CONFLICT_THRESHOLD: Final = 20
"""Writes of one container's CPUs within a period."""


class CpusetConflicts:
    """Counts writes by cgroup."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._counts: Counter[CgroupPath] = Counter()

    def heed(self, written: Iterable[CgroupPath], *, now: float) -> list[CgroupPath]:
        """Count writes; return the cgroups that have just had enough of them."""
        if now - self._since > CONFLICT_PERIOD:
            self._since = now
            self._counts.clear()
        found = []
        for each in (path for path in written if cgroup_level(path) is CgroupLevel.CONTAINER):
            self._counts[each] += 1
            if self._counts[each] == CONFLICT_THRESHOLD:
                found.append(each)
        return found
