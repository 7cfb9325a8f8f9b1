"""Notices when somebody else writes the cpusets that we write.

Two writers of one cpuset (the kubelet's static CPU manager, koordlet, an administrator's script) undo each other for
ever, and containers run on each other's CPUs meanwhile. Nothing can be done about it here but to say it.

Only containers count, and only what is written while the demand is the same: that happens once in a container's life.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kubeletplugin.cgroups.naming import Level, Path, level

PERIOD: Final = 60.0
ENOUGH: Final = 20
"""Writes of one container's CPUs within a period."""


class Quarrels:
    """Counts writes by cgroup."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._counts: Counter[Path] = Counter()

    def heed(self, written: Iterable[Path], *, now: float) -> list[Path]:
        """Count writes; return the cgroups that have just had enough of them."""
        if now - self._since > PERIOD:
            self._since = now
            self._counts.clear()
        found = []
        for each in (path for path in written if level(path) is Level.CONTAINER):
            self._counts[each] += 1
            if self._counts[each] == ENOUGH:
                found.append(each)
        return found
