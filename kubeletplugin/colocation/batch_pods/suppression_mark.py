"""A mark on the node while a quota of ours holds the class BestEffort back, and the way back without colocation.

A quota outlives the plugin. So a mark is made before the first one is written, in the directory of CDI specs, which is
empty after a reboot as cgroups are. A plugin that starts without ``--colocation`` and finds the mark lifts the quotas
of the class and of all cgroups in it: the kubelet gives pods of the class none. Shares and memory limits stay: they are
what the pods asked for. Without the mark nothing is written, since a quota may be somebody else's.
"""

import logging
from pathlib import Path
from typing import Final

from dra.engine.suppression.writes import CgroupTarget, plan_writes
from kubeletplugin.cgroups.hierarchy import CGROUP_ROOT, CgroupsNotFoundError
from kubeletplugin.cgroups.pod_cgroups import find_pod_hierarchies
from kubeletplugin.colocation.batch_pods.cgroup_values import ClassCgroups, Extent

MARK_NAME: Final = ".colocation.suppressed"

_log: Final = logging.getLogger(__name__)


class SuppressionMark:
    """The mark, a file without content."""

    def __init__(self, folder: Path) -> None:
        """Look whether there is a mark in the directory of CDI specs."""
        self._file = folder / MARK_NAME
        self.is_set = self._file.exists()

    def set(self) -> None:
        """Make the mark; raises OSError."""
        if not self.is_set:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch(mode=0o600)
            self.is_set = True

    def remove(self) -> None:
        """Remove the mark; raises OSError."""
        if self.is_set:
            self._file.unlink(missing_ok=True)
            self.is_set = False


def lift_quotas(mark: SuppressionMark, *, cgroup_root: Path = CGROUP_ROOT, kubepods: str = "") -> None:
    """Lift all quotas in the class BestEffort if there is a mark; a failure is logged, and the mark stays."""
    if not mark.is_set:
        return
    try:
        cgroups = ClassCgroups.find(find_pod_hierarchies(cgroup_root, pods=kubepods))
        if cgroups is not None:
            states = cgroups.read(Extent.QUOTAS)
            planned = plan_writes(
                states,
                {state.path: CgroupTarget(owns_memory=False) for state in states},
                class_path=cgroups.path,
                class_quota=None,
                unified=cgroups.is_v2,
            )
            for write in planned.writes:
                cgroups.write(write)
        mark.remove()
    except (OSError, ValueError, CgroupsNotFoundError) as error:
        _log.error("pods of the class BestEffort may stay held back: %s; the next start tries again", error)
        return
    _log.info("pods of the class BestEffort are not held back any more: started without --colocation")
