"""Ends what a test run started, when the run itself could not: it was killed, or it forgot.

    python keeper.py FOLDER < a pipe whose other end only the run holds

The pipe closes when the run ends, whichever way. Then every process whose environment names the folder is killed, and
the folder is removed. The environment is looked at and not a list of pids: it is there from a process's first
instruction on, nobody has to write it down in time, and a pid that somebody else has by now is never taken for ours.

Containers have environments of their own. They are found by their cgroups, all below one that is called like the folder
and ends with it. Mounts are nobody's care: they are in a namespace that ends with its last process (enclosure.py).

Run as a script, in a session of its own, so that Ctrl-C in the terminal does not reach it; imports nothing of ours.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "DRA_RUN_FOLDER"
"""The environment variable that every process of a run carries."""

CGROUPS: Final = Path("/sys/fs/cgroup")

EMPTIED_WITHIN: Final = 10.0
"""Seconds that killed processes get to leave their cgroup."""


def processes_of(folder: Path) -> frozenset[int]:
    """Return the pids of all living processes that carry the folder's mark."""
    mark = f"{MARK}={folder}".encode()
    return frozenset(pid for pid in _all_pids() if mark in _environment(pid).split(b"\0"))


def kill_all(folder: Path) -> None:
    """Kill the processes of `folder` until none is left; one of them may just have started another."""
    while pids := processes_of(folder):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)  # noqa: TID251 a killed process takes a moment to leave /proc, and nothing tells its non-parent


def cgroup_of(folder: Path) -> str:
    """Return the name of the cgroup below which the folder's containers are, in every hierarchy there is."""
    return folder.name


def hierarchies() -> list[Path]:
    """Return where cgroups are made: in one place with cgroup v2, with v1 for each controller in its own."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [each for each in sorted(CGROUPS.glob("*")) if (each / "cgroup.procs").exists() and not each.is_symlink()]


def make_cgroup(folder: Path) -> None:
    """Make the cgroup of the folder, with every controller that the machine has."""
    if hierarchies() == [CGROUPS]:
        _pass_on_controllers()
    for hierarchy in hierarchies():
        (hierarchy / cgroup_of(folder)).mkdir()


def _pass_on_controllers() -> None:
    """Let the cgroups below the top have the controllers that the kubelet needs; with v2 the parent decides on that."""
    there = (CGROUPS / "cgroup.controllers").read_text(encoding="ascii").split()
    passed_on = CGROUPS / "cgroup.subtree_control"
    lacking = {"cpu", "cpuset", "memory", "pids"}.intersection(there).difference(
        passed_on.read_text(encoding="ascii").split()
    )
    if lacking:
        passed_on.write_text(" ".join(f"+{name}" for name in sorted(lacking)), encoding="ascii")


def end_cgroup(folder: Path) -> None:
    """Kill everything in the folder's cgroup and remove it; there may be none."""
    tops = [top for hierarchy in hierarchies() if (top := hierarchy / cgroup_of(folder)).exists()]
    deadline = time.monotonic() + EMPTIED_WITHIN
    while pids := {pid for top in tops for procs in top.rglob("cgroup.procs") for pid in _members(procs)}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"cgroup {cgroup_of(folder)}: processes {sorted(pids)} cannot be killed")
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)  # noqa: TID251 as above
    for top in tops:
        for cgroup, _, _ in os.walk(top, topdown=False):
            Path(cgroup).rmdir()


def clear(folder: Path) -> None:
    """End everything that belongs to the folder, and the folder."""
    kill_all(folder)
    end_cgroup(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _members(procs: Path) -> list[int]:
    try:
        return [int(pid) for pid in procs.read_text(encoding="ascii").split() if int(pid)]
    except OSError:  # removed meanwhile
        return []


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _environment(pid: int) -> bytes:
    """Return the environment as /proc shows it: empty for zombies, the dead and other people's processes."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def main() -> None:
    """Wait for the end of the run, then clean up after it."""
    folder = Path(sys.argv[1])
    sys.stdin.read()
    clear(folder)


if __name__ == "__main__":
    main()
