"""The folder of a local plane, ``./.dra``: its lock, its record, its kubeconfig and its logs.

The process that holds the lock of the folder is its plane; the operating system releases the lock when that process
ends, in whatever way. So a stale record is distinguished from a valid one, and a pid that now belongs to another
process is never mistaken for the plane.

Sockets need short paths (107 bytes), and the folder may be anywhere: sockets are in a runtime folder of their own,
whose name is derived from the path of this folder. So the holder of the lock finds it without any record.
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

from localplane.private_files import write_private_file

DEFAULT_FOLDER: Final = Path(".dra")

RECORD_FILE: Final = "plane.json"
LOCK_FILE: Final = "lock"
LOG_FILE: Final = "plane.log"
CONTROLLER_LOG_FILE: Final = "controller.log"
KUBECONFIG_FILE: Final = "kubeconfig"
SNAPSHOT_FILE: Final = "snapshot"

CONTROLLER_CONFIGURATION_FILE: Final = "controller.json"
"""File with the configuration of the controller."""

SCRATCH_FOLDER: Final = "tmp"
"""Folder for the temporary files of child processes, which cannot remove them when they are killed."""

PLUGINS_FOLDER: Final = "plugins"
"""Folder for the devices and the logs of plugins, by node."""

RUNTIME_PATH_MAX: Final = 24
"""Maximum number of bytes in the path of a runtime folder, so that plugins can give their sockets the usual names."""

EPHEMERAL_FILES: Final = (
    RECORD_FILE,
    CONTROLLER_LOG_FILE,
    KUBECONFIG_FILE,
    CONTROLLER_CONFIGURATION_FILE,
    "server.pem",
)
"""Files that are removed with the plane; besides them, only its lock, its log and its own folders are removed."""


class PlaneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record that a plane writes about itself."""

    pid: int
    url: str
    api: str
    kubernetes: str = ""
    """Version of Kubernetes that the plane emulates: ``1.37``."""

    nodes: int
    devices: int
    classes: tuple[str, ...] = ()
    """DeviceClasses that the plane was started with; none where it goes on from a saved state."""

    started: str
    ready: bool = False
    """Whether all nodes have been ready once."""
    controller: bool = False
    mode: str = "replace"
    """Mode of the controller."""

    controller_pid: int | None = None
    runtime: str | None = None
    """Folder with a folder for each node, where DRA plugins have their sockets; None: the nodes look for no plugins."""
    plugins: dict[str, int | None] = {}
    """Pids of the plugins that were started beside the plane, by node."""


class PlaneFolderInUseError(RuntimeError):
    """A plane runs in the folder already."""

    def __init__(self, folder: Path, record: PlaneRecord | None) -> None:
        who = f"pid {record.pid}, {record.url}" if record else "it is starting"
        super().__init__(f"folder {folder}: a plane runs here already ({who})")
        self.record = record


class PlaneFolder:
    """The files of a local plane, and its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def runtime(self) -> Path:
        """The short path of the folder for sockets, which exists only if plugins are used."""
        name = f"dra-{hashlib.blake2b(os.fsencode(self.path), digest_size=4).hexdigest()}"
        path = Path(tempfile.gettempdir()) / name
        return path if len(os.fsencode(path)) <= RUNTIME_PATH_MAX else Path("/tmp") / name  # noqa: S108 - see below

    def create_runtime(self) -> Path:
        """Create the folder for sockets as the holder of the lock; raise OSError if another user has taken the name."""
        self.runtime.mkdir(mode=0o700)  # the folder of an earlier plane has been removed
        return self.runtime

    @property
    def record(self) -> PlaneRecord | None:
        """The record of the plane, or of the last plane; None without a readable record."""
        try:
            return msgspec.json.decode((self / RECORD_FILE).read_bytes(), type=PlaneRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, record: PlaneRecord) -> None:
        """Write the plane's record; only the holder of the lock may."""
        write_private_file(self / RECORD_FILE, msgspec.json.encode(record) + b"\n")

    @property
    def is_in_use(self) -> bool:
        """Whether a plane runs in this folder."""
        try:
            lock = os.open(self / LOCK_FILE, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return not _try_lock(lock)
        finally:
            os.close(lock)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock as the plane of this folder; raise PlaneFolderInUseError.

        Remains of an earlier plane are removed before, those of this plane after. A saved state stays, and so does the
        log of a plane that fails.
        """
        lock = self._acquire_lock()
        failed = False
        try:
            self._remove_files()
            yield
        except Exception:
            failed = True
            raise
        finally:
            self._release_lock(lock, keep_log=failed)

    def remove_leftovers(self) -> None:
        """Remove the remains of a plane that was killed; raise PlaneFolderInUseError while a plane runs."""
        if self.path.is_dir():
            lock = self._acquire_lock()
            self._release_lock(lock, keep_log=False)

    def _acquire_lock(self) -> int:
        """Take the lock and return its file descriptor; raise PlaneFolderInUseError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            lock = os.open(self / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
            if not _try_lock(lock):
                os.close(lock)
                raise PlaneFolderInUseError(self.path, self.record)
            if _is_same_file(lock, self / LOCK_FILE):
                return lock
            os.close(lock)  # the former holder has removed the file meanwhile

    def _release_lock(self, lock: int, *, keep_log: bool) -> None:
        self._remove_files()
        if not keep_log:
            (self / LOG_FILE).unlink(missing_ok=True)
        (self / LOCK_FILE).unlink(missing_ok=True)
        os.close(lock)
        with suppress(OSError):  # not empty: a saved state, or files of the user
            self.path.rmdir()

    def _remove_files(self) -> None:
        for name in EPHEMERAL_FILES:
            (self / name).unlink(missing_ok=True)
        for name in (SCRATCH_FOLDER, PLUGINS_FOLDER):
            shutil.rmtree(self / name, ignore_errors=True)
        if _is_own_folder(self.runtime):
            shutil.rmtree(self.runtime, ignore_errors=True)


def _is_own_folder(path: Path) -> bool:
    """Report whether a path is a folder that only this user can have made: any user may create the path first."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) == stat.S_IRWXU
    )


def _try_lock(lock: int) -> bool:
    """Try to take a lock; return whether this process now holds the lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(lock: int, path: Path) -> bool:
    """Report whether an open file is the one at a path."""
    try:
        return os.fstat(lock).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
