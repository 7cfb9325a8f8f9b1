"""A mark on the node while a quota of ours holds the class BestEffort back, and the way back without colocation.

A quota outlives the plugin. So a mark is made before the first one is written, in the directory of CDI specs, which is
empty after a reboot as cgroups are. A plugin that runs without ``--colocation`` and finds the mark lifts the quotas of
the class and of all cgroups in it: the kubelet gives pods of the class none. Shares and memory limits stay: they are
what the pods asked for. Without the mark nothing is written, since a quota may be somebody else's.

The mark says which cgroup of all pods is meant, and is touched each second by whoever holds the class back. A plugin
without ``--colocation`` leaves a mark alone as long as that goes on: an instance with it may still run beside it in a
rolling update, or in another DaemonSet with other drivers.
"""

import asyncio
import contextlib
import logging
import os
import time
from pathlib import Path
from typing import Final, NoReturn

from dra.engine.suppression.writes import CgroupTarget, plan_writes
from kubeletplugin.cgroups.cgroup_names import CgroupPath
from kubeletplugin.cgroups.hierarchy import CGROUP_ROOT, CgroupsNotFoundError
from kubeletplugin.cgroups.pod_cgroups import find_pod_hierarchies
from kubeletplugin.colocation.batch_pods.cgroup_values import ClassCgroups, Extent
from kubeletplugin.ticks import until_tick

MARK_NAME: Final = ".colocation.suppressed"

LOOK_INTERVAL: Final = 10.0
"""Seconds between two looks for a mark without colocation."""

ABANDONED_SECONDS: Final = 30.0
"""Age of a mark that nobody touches any more."""

_log: Final = logging.getLogger(__name__)


class SuppressionMark:
    """The mark, a file with the path of the cgroup of all pods."""

    def __init__(self, folder: Path) -> None:
        """Look whether there is a mark in a directory."""
        self._file = folder / MARK_NAME
        self.is_set = self._file.exists()
        self._kubepods: CgroupPath | None = None
        """The path that was written to the mark; None before."""

    def set(self, kubepods: CgroupPath) -> None:
        """Make the mark, also if somebody has removed it or the kubelet has another cgroup now, or touch it.

        Raises OSError.
        """
        if kubepods == self._kubepods:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self._file)
                self.is_set = True
                return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("/".join(kubepods), encoding="utf-8")
        self.is_set, self._kubepods = True, kubepods

    def remove(self) -> None:
        """Remove the mark; raises OSError."""
        if self.is_set:
            self._file.unlink(missing_ok=True)
            self.is_set = False

    def is_abandoned(self) -> bool:
        """Report whether there is a mark that nobody has touched for a while."""
        try:
            return time.time() - self._file.stat().st_mtime >= ABANDONED_SECONDS
        except FileNotFoundError:
            return False

    def kubepods(self) -> str:
        """Return the path in the mark; empty without a mark. Raises OSError for an unreadable one."""
        try:
            return self._file.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""


async def lift_marked_quotas(folder: Path, *, cgroup_root: Path = CGROUP_ROOT) -> NoReturn:
    """Lift the quotas of the class BestEffort whenever there is an abandoned mark, until cancelled."""
    logged_problem = ""
    while True:
        mark = SuppressionMark(folder)
        if mark.is_abandoned():
            problem = await asyncio.to_thread(lift_quotas, mark, cgroup_root=cgroup_root)
            if problem and problem != logged_problem:
                _log.error("pods of the class BestEffort may stay held back, which is tried again: %s", problem)
            logged_problem = problem
        await asyncio.sleep(until_tick(LOOK_INTERVAL))


def lift_quotas(mark: SuppressionMark, *, cgroup_root: Path = CGROUP_ROOT) -> str:
    """Lift all quotas in the class BestEffort and remove the mark; return the reason of a failure, else nothing."""
    try:
        cgroups = ClassCgroups.find(find_pod_hierarchies(cgroup_root, pods=mark.kubepods()))
        if cgroups is not None:
            states = cgroups.read(Extent.QUOTAS)
            planned = plan_writes(
                states,
                {state.path: CgroupTarget(owns_memory=False) for state in states if state.path},
                class_path=cgroups.path,
                class_quota=None,
                unified=cgroups.is_v2,
            )
            for write in planned.writes:
                cgroups.write(write)
        mark.remove()
    except (OSError, ValueError, CgroupsNotFoundError) as error:
        return str(error)
    _log.info("pods of the class BestEffort are not held back any more: the plugin runs without --colocation")
    return ""
