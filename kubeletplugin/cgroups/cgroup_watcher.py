"""Being told by the kernel when cgroups are made or their CPUs are written: inotify.

cgroup file systems report what is done through files: a folder that is made, a write into ``cpuset.cpus``, whoever
does it. What the kernel does by itself (a CPU that goes offline) is not reported. inotify watches folders one by one;
so each new one must be added, and what was made in it before can only be seen by reading it after. Python has no
inotify of its own; two calls of the C library are all there is to it.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import Final

_MODIFY: Final = 0x2
_CREATE: Final = 0x100
_ONLYDIR: Final = 0x01000000
_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_ISDIR: Final = 0x40000000
_HEAD: Final = struct.Struct("iIII")
_BUFFER: Final = 65536


class CgroupWatcher:
    """Folders that are watched; its file descriptor becomes readable when something has happened."""

    def __init__(self, file: str) -> None:
        """Heed new folders, and writes into files of that name."""
        self._file = os.fsencode(file)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _os_error("inotify")
        self._folders: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return int(self._descriptor)

    def add(self, folder: str) -> None:
        """Watch one more folder; one that is gone is passed over. Raises OSError when the kernel's limit is reached."""
        if folder in self._numbers:
            return
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _MODIFY | _CREATE | _ONLYDIR)
        if number < 0:
            failure = _os_error(folder)
            if failure.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise failure
        self._folders[number] = folder
        self._numbers[folder] = number

    def changed(self) -> bool:
        """Take what has been reported; return whether it may concern us."""
        concerned = False
        for number, mask, name in self._events():
            if mask & _IGNORED:
                folder = self._folders.pop(number, None)
                if folder is not None and self._numbers.get(folder) == number:
                    del self._numbers[folder]
            made = mask & _CREATE and mask & _ISDIR
            written = mask & _MODIFY and name == self._file
            concerned |= bool(made or written or mask & _OVERFLOW)
        return concerned

    def close(self) -> None:
        """Watch nothing any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _events(self) -> Iterator[tuple[int, int, bytes]]:
        while True:
            try:
                content = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(content):
                number, mask, _, length = _HEAD.unpack_from(content, at)
                at += _HEAD.size
                yield number, mask, content[at : at + length].rstrip(b"\0")
                at += length


def _os_error(what: str) -> OSError:
    number = ctypes.get_errno()
    hint = "; raise the limit with: sysctl fs.inotify.max_user_watches" if number == errno.ENOSPC else ""
    hint = "; raise the limit with: sysctl fs.inotify.max_user_instances" if number == errno.EMFILE else hint
    return OSError(number, f"watching {what}: {os.strerror(number)}{hint}")
