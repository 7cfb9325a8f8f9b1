"""The lock of a driver's directory, which the two instances of a rolling update share.

The instances exclude each other by ``flock`` on the directory itself: the kernel releases the lock when its holder
dies, in whatever way, and no lock file can be lost. The lock is polled: a thread that waits for it could not be
cancelled. The lock is contended only while two instances overlap, and each holds it for milliseconds.
"""

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

MIN_LOCK_RETRY: Final = 0.001
MAX_LOCK_RETRY: Final = 0.02
"""Maximum number of seconds between two attempts to get a lock that another process holds."""


class LockError(OSError):
    """The lock cannot be acquired; the text names the directory, and the holder if there is one."""


class DirectoryLock:
    """The lock of a directory, exclusive among all processes; within this process, waiters get it in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = asyncio.Lock()
        self._descriptor: int | None = None

    async def acquire(self, *, within: float) -> None:
        """Wait for the lock; raises LockError, after `within` seconds at the latest. May be cancelled."""
        try:
            async with asyncio.timeout(within):
                await self._turn.acquire()
                try:
                    self._descriptor = await self._lock_directory()
                except BaseException:
                    self._turn.release()
                    raise
        except TimeoutError:
            raise LockError(self._timeout_text(within)) from None
        except OSError as error:
            raise LockError(f"directory {self.folder}: cannot be locked: {error.strerror}") from error

    def release(self) -> None:
        """Release the lock of the directory."""
        if self._descriptor is None:
            raise RuntimeError(f"directory {self.folder}: not locked by this process")
        os.close(self._descriptor)
        self._descriptor = None
        self._turn.release()

    def _timeout_text(self, seconds: float) -> str:
        if self._descriptor is None:  # no call of this process has the lock: an earlier one waits for the kernel, too
            return f"another instance of the plugin holds the lock of directory {self.folder}"
        return (
            f"an earlier call of this plugin still holds the lock of directory {self.folder} after {seconds:g} s: "
            "the disk or the driver is slow"
        )

    async def _lock_directory(self) -> int:
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
