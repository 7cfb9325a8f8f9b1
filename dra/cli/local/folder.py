"""The folder of a local plane, ``./.dra``: who runs there, how to reach it, what it has said.

Whoever holds the lock of the folder is its plane; the system lets go of it when that process ends, however it ends. So
a record that was left behind is told from one that holds, and a pid that meanwhile belongs to somebody else is never
taken for ours.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from dra.local import snapshots

DEFAULT: Final = Path(".dra")

RECORD: Final = "plane.json"
LOCK: Final = "lock"
LOG: Final = "plane.log"
CONTROLLER_LOG: Final = "controller.log"
KUBECONFIG: Final = "kubeconfig"
SNAPSHOT: Final = "snapshot"

CONTROLLER: Final = "controller.json"
"""The configuration of the controller."""

SCRATCH: Final = "tmp"
"""A folder for the files that a controller makes and that it cannot remove when it is killed."""

EPHEMERAL: Final = (RECORD, CONTROLLER_LOG, KUBECONFIG, CONTROLLER, "server.pem")
"""What goes with the plane. Nothing else is ever removed but its lock and its log."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a plane tells about itself."""

    pid: int
    url: str
    api: str
    nodes: int
    devices: int
    started: str
    ready: bool = False
    """Whether its nodes were ready once."""
    controller: bool = False
    controller_pid: int | None = None


class TakenError(RuntimeError):
    """A plane runs in the folder already."""

    def __init__(self, folder: Path, record: Record | None) -> None:
        who = f"pid {record.pid}, {record.url}" if record else "it is just starting"
        super().__init__(f"folder {folder}: a plane runs here already ({who})")
        self.record = record


class Folder:
    """The files of one plane."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def record(self) -> Record | None:
        """What the plane, or the last one, tells about itself."""
        try:
            return msgspec.json.decode((self / RECORD).read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, record: Record) -> None:
        """Tell about oneself; for who holds the lock."""
        snapshots.write(self / RECORD, msgspec.json.encode(record) + b"\n")

    @property
    def taken(self) -> bool:
        """Whether a plane runs here."""
        try:
            lock = os.open(self / LOCK, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return not _locked(lock)
        finally:
            os.close(lock)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the plane of this folder; raises TakenError. What is left of an earlier one is removed, before and after.

        A saved state stays, and the log of a plane that fails.
        """
        lock = self._take()
        failed = False
        try:
            self._clear()
            yield
        except Exception:
            failed = True
            raise
        finally:
            self._leave(lock, keep_log=failed)

    def tidy(self) -> None:
        """Remove what is left of a plane that ended without doing so; raises TakenError while one runs."""
        if self.path.is_dir():
            lock = self._take()
            self._leave(lock, keep_log=False)

    def _take(self) -> int:
        """Return the lock, taken."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            lock = os.open(self / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            if not _locked(lock):
                os.close(lock)
                raise TakenError(self.path, self.record)
            if _still(lock, self / LOCK):
                return lock
            os.close(lock)  # its last holder has removed it meanwhile

    def _leave(self, lock: int, *, keep_log: bool) -> None:
        self._clear()
        if not keep_log:
            (self / LOG).unlink(missing_ok=True)
        (self / LOCK).unlink(missing_ok=True)
        os.close(lock)
        with suppress(OSError):  # not empty: a saved state, or files of somebody else
            self.path.rmdir()

    def _clear(self) -> None:
        for name in EPHEMERAL:
            (self / name).unlink(missing_ok=True)
        shutil.rmtree(self / SCRATCH, ignore_errors=True)


def _locked(lock: int) -> bool:
    """Take a lock; returns whether it is ours now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still(lock: int, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.fstat(lock).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
