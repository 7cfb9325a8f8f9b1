"""Ends what a test run started, when the run itself could not: it was killed, or it forgot.

    python keeper.py FOLDER < a pipe whose other end only the run holds

The pipe closes when the run ends, whichever way. Then every process whose environment names the folder is killed, and
the folder is removed. The environment is looked at and not a list of pids: it is there from a process's first
instruction on, nobody has to write it down in time, and a pid that somebody else has by now is never taken for ours.

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
    kill_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
