"""The folders a plugin shares with the kubelet: private ones, stale sockets, and whose turn it is.

The two instances of a rolling update share one folder for each driver. They take turns by ``flock`` on the folder
itself: the kernel gives the lock back when its holder dies, however it dies, and there is no lock file to be lost.
Nobody waits for the lock in a thread, where nothing could be cancelled: it is asked for again and again. It is
contended only while two instances overlap, and each holds it for milliseconds.
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
"""Bytes of a unix socket's path (``sun_path`` less the zero at its end)."""

MIN_LOCK_RETRY: Final = 0.001
MAX_LOCK_RETRY: Final = 0.02
"""Seconds between two tries for a lock that somebody else has."""

CONNECT_TIMEOUT: Final = 1.0


class SocketPathError(ValueError):
    """A socket cannot be where it is asked for; the text names path and option."""


def validate_socket_path(path: Path, *, option: str) -> Path:
    """Return the path if a unix socket can have it; raises SocketPathError that names the option to change."""
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
    """Make the folder, for our user alone (0700), if need be; raises NotADirectoryError. Return it."""
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

    Raises SocketPathError if somebody listens there, or if it is no socket: neither is ours to remove.
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
            pass  # its backlog is full: somebody is there
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
    """The lock was not to be had in time; the text says who has it."""


class DirectoryLock:
    """One holder at a time among all processes, and within this one in order of arrival."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = asyncio.Lock()
        self._descriptor: int | None = None

    async def acquire(self, *, within: float) -> None:
        """Wait for the lock; raises BusyError after `within` seconds. May be cancelled."""
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
        """Give it back."""
        if self._descriptor is None:
            raise RuntimeError(f"folder {self.folder}: not locked by us")
        os.close(self._descriptor)
        self._descriptor = None
        self._turn.release()

    def _who(self, seconds: float) -> str:
        if self._descriptor is None:  # nor has it whoever of us was before: that one waits for the kernel, too
            return f"another instance of the plugin keeps {self.folder} locked"
        return (
            f"an earlier call of this plugin is still at work in {self.folder} after {seconds:g} s: "
            "the disk, or what the driver calls, is slow"
        )

    async def _lock_folder(self) -> int:
        # Opened anew each time: the folder may have been made anew.
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
