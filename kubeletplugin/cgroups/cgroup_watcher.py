"""Watch of cgroups: inotify reports when cgroups are created or their cpusets are written.

cgroup file systems report each action through files (a new directory, a write to ``cpuset.cpus``), whichever process
does it. They do not report what the kernel does by itself (a CPU that goes offline). inotify watches single
directories: each new directory must be added, and must be read after that, to see what was created in it before.
Python's standard library has no inotify; two calls of the C library are enough.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import Final

_MODIFY: Final = 0x2
_MOVED_TO: Final = 0x80
"""cgroup v1 lets cgroups be renamed."""

_CREATE: Final = 0x100
_ONLYDIR: Final = 0x01000000
_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_ISDIR: Final = 0x40000000
_HEAD: Final = struct.Struct("iIII")
_BUFFER: Final = 65536


class CgroupWatcher:
    """A set of watched directories, with a file descriptor that becomes readable after an event."""

    def __init__(self, file: str) -> None:
        """Watch for new directories, and for writes to files of that name; raises OSError."""
        self._file = os.fsencode(file)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _os_error("inotify")
        self._folders: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def fileno(self) -> int:
        """Return the file descriptor to wait on."""
        return int(self._descriptor)

    def add(self, folder: str) -> None:
        """Watch one more directory, unless it is gone. Raises OSError when the kernel's limit is reached."""
        if folder in self._numbers:
            return
        events = _MODIFY | _CREATE | _MOVED_TO | _ONLYDIR
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), events)
        if number < 0:
            failure = _os_error(folder)
            if failure.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise failure
        self._folders[number] = folder
        self._numbers[folder] = number

    def changed(self) -> bool:
        """Read all events; return whether a directory is new, a watched file was written, or events were lost."""
        concerned = False
        for number, mask, name in self._events():
            if mask & _IGNORED:
                folder = self._folders.pop(number, None)
                if folder is not None and self._numbers.get(folder) == number:
                    del self._numbers[folder]
            made = mask & (_CREATE | _MOVED_TO) and mask & _ISDIR
            written = mask & _MODIFY and name == self._file
            concerned |= bool(made or written or mask & _OVERFLOW)
        return concerned

    def close(self) -> None:
        """Close the file descriptor, which ends all watches."""
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
