"""Unix sockets and directories of the plugin: socket paths, stale sockets, private directories and their lock.

The two instances of a rolling update share one directory for each driver. They exclude each other by ``flock`` on the
directory itself: the kernel releases the lock when its holder dies, in whatever way, and no lock file can be lost. The
lock is polled: a thread that waits for it could not be cancelled. It is contended only while two instances overlap, and
each holds it for milliseconds.
"""

import asyncio
import errno
import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Final

MAX_SOCKET_PATH: Final = 107
"""Maximum length of a unix socket's path in bytes (``sun_path`` without the terminating zero)."""

MIN_LOCK_RETRY: Final = 0.001
MAX_LOCK_RETRY: Final = 0.02
"""Maximum number of seconds between two attempts to get a lock that another process holds."""

CONNECT_TIMEOUT: Final = 1.0


class SocketPathError(ValueError):
    """A socket cannot be at the requested path; the text names path and option."""


def validate_socket_path(path: Path, *, option: str) -> Path:
    """Return the path if it is valid for a unix socket; raises SocketPathError that names the option to change."""
    if not path.is_absolute():
        raise SocketPathError(f"socket {path}: not an absolute path, which the kubelet needs; change {option}")
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH:
        raise SocketPathError(
            f"socket {path}: the path has {length} bytes, unix sockets have {MAX_SOCKET_PATH} at most; "
            f"give a folder with a shorter path to {option}"
        )
    return path


def ensure_private_directory(path: Path) -> Path:
    """Create a directory if necessary, restrict access to this user (0700), and return the path.

    Raises OSError: NotADirectoryError for a symbolic link.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != stat.S_IRWXU:
            os.fchmod(descriptor, stat.S_IRWXU)
    finally:
        os.close(descriptor)
    return path


def remove_stale_socket(path: Path) -> bool:
    """Remove a socket that a dead process left; return whether there was one.

    Raises SocketPathError, and removes nothing, if a process listens there, or if the file is no socket.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(mode):
        raise SocketPathError(f"socket {path}: there is something that is no socket; move it away")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_TIMEOUT)
        try:
            probe.connect(os.fspath(path))
        except TimeoutError:
            pass  # its backlog is full: a process listens
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.ENOENT):
                raise
            path.unlink(missing_ok=True)
            return True
    raise SocketPathError(
        f"socket {path}: another process listens there; stop it, "
        "or tell the instances of a rolling update apart by pod uid"
    )


class LockTimeoutError(TimeoutError):
    """The lock was not released in time; the text names its holder."""


class DirectoryLock:
    """The lock of a directory, exclusive among all processes; within this process, waiters get it in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = asyncio.Lock()
        self._descriptor: int | None = None

    async def acquire(self, *, within: float) -> None:
        """Wait for the lock; raises LockTimeoutError after `within` seconds. May be cancelled."""
        try:
            async with asyncio.timeout(within):
                await self._turn.acquire()
                try:
                    self._descriptor = await self._lock_folder()
                except BaseException:
                    self._turn.release()
                    raise
        except TimeoutError:
            raise LockTimeoutError(self._who(within)) from None

    def release(self) -> None:
        """Release the lock of the directory."""
        if self._descriptor is None:
            raise RuntimeError(f"folder {self.folder}: not locked by us")
        os.close(self._descriptor)
        self._descriptor = None
        self._turn.release()

    def _who(self, seconds: float) -> str:
        if self._descriptor is None:  # no call of this process has the lock: an earlier one waits for the kernel, too
            return f"another instance of the plugin keeps {self.folder} locked"
        return (
            f"an earlier call of this plugin is still at work in {self.folder} after {seconds:g} s: "
            "the disk, or what the driver calls, is slow"
        )

    async def _lock_folder(self) -> int:
        # Opened again each time: the directory may have been removed and created again.
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        pause = MIN_LOCK_RETRY
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, MAX_LOCK_RETRY)
                else:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
