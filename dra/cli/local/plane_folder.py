"""The folder of a local plane, ``./.dra``: who runs there, how to reach it, what it has said.

Whoever holds the lock of the folder is its plane; the system lets go of it when that process ends, however it ends. So
a record that was left behind is told from one that holds, and a pid that meanwhile belongs to somebody else is never
taken for ours.

Sockets want short paths (107 bytes), and the folder may be anywhere: they have a runtime folder of their own, whose
name is made of this one's. So it is found again without any record, by whoever holds the lock.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from localplane import snapshots

DEFAULT_FOLDER: Final = Path(".dra")

RECORD_FILE: Final = "plane.json"
LOCK_FILE: Final = "lock"
LOG_FILE: Final = "plane.log"
CONTROLLER_LOG_FILE: Final = "controller.log"
KUBECONFIG_FILE: Final = "kubeconfig"
SNAPSHOT_FILE: Final = "snapshot"

CONTROLLER_CONFIGURATION_FILE: Final = "controller.json"
"""The configuration of the controller."""

SCRATCH_FOLDER: Final = "tmp"
"""A folder for the files that a controller makes and that it cannot remove when it is killed."""

PLUGINS_FOLDER: Final = "plugins"
"""A folder for the devices and the logs of plugins, by node."""

RUNTIME_PATH_MAX: Final = 24
"""Bytes of the path of a runtime folder, so that sockets in it may have the names that plugins give them."""

EPHEMERAL_FILES: Final = (
    RECORD_FILE,
    CONTROLLER_LOG_FILE,
    KUBECONFIG_FILE,
    CONTROLLER_CONFIGURATION_FILE,
    "server.pem",
)
"""What goes with the plane. Nothing else is ever removed but its lock and its log."""


class PlaneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a plane tells about itself."""

    pid: int
    url: str
    api: str
    kubernetes: str = ""
    """The version of Kubernetes that it behaves as: ``1.37``."""

    nodes: int
    devices: int
    started: str
    ready: bool = False
    """Whether its nodes were ready once."""
    controller: bool = False
    controller_pid: int | None = None
    runtime: str | None = None
    """The folder with a folder for each node, where DRA plugins have their sockets; None: nobody looks for any."""
    plugins: dict[str, int | None] = {}
    """The pids of the plugins that were started beside the plane, by node."""


class PlaneFolderInUseError(RuntimeError):
    """A plane runs in the folder already."""

    def __init__(self, folder: Path, record: PlaneRecord | None) -> None:
        who = f"pid {record.pid}, {record.url}" if record else "it is just starting"
        super().__init__(f"folder {folder}: a plane runs here already ({who})")
        self.record = record


class PlaneFolder:
    """The files of one plane."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def runtime(self) -> Path:
        """Where its sockets are, if it has any: a short path."""
        name = f"dra-{hashlib.blake2b(os.fsencode(self.path), digest_size=4).hexdigest()}"
        place = Path(tempfile.gettempdir()) / name
        return place if len(os.fsencode(place)) <= RUNTIME_PATH_MAX else Path("/tmp") / name  # noqa: S108 - see below

    def make_runtime(self) -> Path:
        """Make the folder for sockets, for who holds the lock; raises OSError if somebody else has one of that name."""
        self.runtime.mkdir(mode=0o700)  # what was left of an earlier plane of ours is gone
        return self.runtime

    @property
    def record(self) -> PlaneRecord | None:
        """What the plane, or the last one, tells about itself."""
        try:
            return msgspec.json.decode((self / RECORD_FILE).read_bytes(), type=PlaneRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, record: PlaneRecord) -> None:
        """Tell about oneself; for who holds the lock."""
        snapshots.write_snapshot(self / RECORD_FILE, msgspec.json.encode(record) + b"\n")

    @property
    def taken(self) -> bool:
        """Whether a plane runs here."""
        try:
            lock = os.open(self / LOCK_FILE, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return not _try_lock(lock)
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
            lock = os.open(self / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
            if not _try_lock(lock):
                os.close(lock)
                raise PlaneFolderInUseError(self.path, self.record)
            if _is_same_file(lock, self / LOCK_FILE):
                return lock
            os.close(lock)  # its last holder has removed it meanwhile

    def _leave(self, lock: int, *, keep_log: bool) -> None:
        self._clear()
        if not keep_log:
            (self / LOG_FILE).unlink(missing_ok=True)
        (self / LOCK_FILE).unlink(missing_ok=True)
        os.close(lock)
        with suppress(OSError):  # not empty: a saved state, or files of somebody else
            self.path.rmdir()

    def _clear(self) -> None:
        for name in EPHEMERAL_FILES:
            (self / name).unlink(missing_ok=True)
        for name in (SCRATCH_FOLDER, PLUGINS_FOLDER):
            shutil.rmtree(self / name, ignore_errors=True)
        if _is_own_folder(self.runtime):
            shutil.rmtree(self.runtime, ignore_errors=True)


def _is_own_folder(path: Path) -> bool:
    """Whether there is a folder that only we can have made: anybody may put something there first."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == stat.S_IRWXU


def _try_lock(lock: int) -> bool:
    """Take a lock; returns whether it is ours now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(lock: int, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.fstat(lock).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
