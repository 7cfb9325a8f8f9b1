"""Starts a plane in the background, and stops a plane by the pid that the holder of the folder's lock has recorded."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from typing import Final

from dra.cli.local.plane_folder import (
    KUBECONFIG_FILE,
    LOG_FILE,
    SNAPSHOT_FILE,
    PlaneFolder,
    PlaneFolderInUseError,
    PlaneRecord,
)
from localplane.private_files import write_private_file

START_TIMEOUT: Final = 60.0
STOP_TIMEOUT: Final = 15.0
"""Seconds until a plane must have ended after SIGTERM."""

_POLL_INTERVAL: Final = 0.05
_LOG_TAIL_LINES: Final = 15


class PlaneStartError(RuntimeError):
    """A plane did not start in time, or ended at once."""


class PlaneStopError(RuntimeError):
    """A plane cannot be stopped."""


def start_detached(folder: PlaneFolder, arguments: Sequence[str]) -> PlaneRecord:
    """Start ``dra-reserve local up`` with these arguments in the background, and wait until its nodes are ready.

    Raises PlaneFolderInUseError, PlaneStartError.
    """
    if folder.is_in_use:
        raise PlaneFolderInUseError(folder.path, folder.record)
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / LOG_FILE).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "dra.cli.main", "local", "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def runs() -> bool:
        record = folder.record
        return process.poll() is not None or (record is not None and record.pid == process.pid and record.ready)

    if not _wait_until(runs, within=START_TIMEOUT):
        process.kill()
        process.wait()
        raise PlaneStartError(
            f"folder {folder.path}: the plane was not ready within {START_TIMEOUT:.0f} s and was stopped"
        )
    record = folder.record
    if process.poll() is not None or record is None:
        raise PlaneStartError(
            f"folder {folder.path}: the plane ended during its start. The end of its log:\n{_log_tail(folder)}"
        )
    return record


def stop_plane(folder: PlaneFolder, *, save: bool) -> PlaneRecord | None:
    """Stop the plane of a folder; return its record, or None if no plane ran. Raise PlaneStopError, ApiError."""
    if not folder.is_in_use:
        folder.remove_leftovers()
        return None
    record = folder.record
    if record is None:
        raise PlaneStopError("a plane is starting in the folder. Try again when the plane runs")
    if save:
        write_private_file(folder / SNAPSHOT_FILE, asyncio.run(_fetch_snapshot(folder)))
    os.kill(record.pid, signal.SIGTERM)  # the process that holds the lock has written the pid
    if not _wait_until(lambda: not folder.is_in_use, within=STOP_TIMEOUT):
        os.kill(record.pid, signal.SIGKILL)
        if not _wait_until(lambda: not folder.is_in_use, within=STOP_TIMEOUT):
            raise PlaneStopError(f"the plane (pid {record.pid}) does not end after SIGKILL")
        folder.remove_leftovers()
    return record


async def _fetch_snapshot(folder: PlaneFolder) -> bytes:
    from dra.kube import credentials  # noqa: PLC0415 - only who saves talks to the plane
    from dra.kube.errors import raise_for_status  # noqa: PLC0415
    from dra.kube.http import HttpTransport  # noqa: PLC0415
    from dra.kube.transport import Request  # noqa: PLC0415

    transport = HttpTransport(credentials.find(str(folder / KUBECONFIG_FILE)))
    try:
        answer = await transport.send(Request(method="GET", path="/dra/snapshot", timeout=60.0))
        raise_for_status(answer, "/dra/snapshot")
        return answer.body
    finally:
        await transport.close()


def _wait_until(holds: Callable[[], bool], *, within: float) -> bool:
    """Poll a condition on another process until it holds; return whether it did in time."""
    deadline, never = time.monotonic() + within, Event()
    while not holds():
        if time.monotonic() > deadline:
            return False
        never.wait(_POLL_INTERVAL)
    return True


def _log_tail(folder: PlaneFolder) -> str:
    with (folder / LOG_FILE).open(encoding="utf-8", errors="replace") as lines:
        return "".join(deque(lines, maxlen=_LOG_TAIL_LINES)).rstrip()
