"""Reads and writes single files of cgroups; every other module of the plugin does so through this one.

The kernel refuses a value at the write itself: EINVAL for one that is out of range, EBUSY and EACCES for one that does
not fit the cgroups above or below. So a value is written with one ``os.write`` to an unbuffered descriptor. A buffered
file writes when it is closed, and one that is closed by the garbage collector loses the error: the file is unchanged,
and nobody knows.

A cgroup may be removed at any time. An open of its files then fails with ENOENT, and a file that was opened before
answers ENODEV to a read, and to a seek as well, so `OpenFile` reads with ``pread``. Both mean that the cgroup is gone,
or that the file is: kernels lack files of features that they were built without.
"""

import errno
import os
from pathlib import Path
from typing import Final, Self

GONE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})
"""Error numbers of files whose cgroup was removed, or that the kernel does not have."""

READ_SIZE: Final = 65536
"""Bytes that one read returns at most: more than any file of a cgroup has, apart from lists of processes."""


def read_file(path: Path | str) -> bytes | None:
    """Return the content of a cgroup's file, at most `READ_SIZE` bytes; None if file or cgroup does not exist.

    Raises OSError for any other failure; EOPNOTSUPP, for example, for a file of a controller that is switched off.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, READ_SIZE)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise _named(error, path) from error


def write_file(path: Path | str, value: str) -> bool:
    """Write a value to a cgroup's file; return False if file or cgroup does not exist.

    Raises OSError with the kernel's errno and the file's name if the kernel refuses the value.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)  # truncating is for files of tests
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in GONE:
            return False
        raise _named(error, path) from error
    return True


class OpenFile:
    """A file of a cgroup that is kept open: reading it again costs a sixth of opening it again."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path | str) -> Self | None:
        """Open a file for reading; None if file or cgroup does not exist. Raises OSError for any other failure."""
        try:
            return cls(str(path), os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in GONE:
                return None
            raise

    def read(self) -> bytes | None:
        """Return the present content, at most `READ_SIZE` bytes; None if the cgroup was removed.

        Raises OSError for any other failure.
        """
        try:
            return os.pread(self._descriptor, READ_SIZE, 0)
        except OSError as error:
            if error.errno in GONE:
                return None
            raise _named(error, self.path) from error

    def close(self) -> None:
        """Close the file; closing it twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def _named(error: OSError, path: Path | str) -> OSError:
    """Return the error with the name of the file, which errors of reads and writes lack."""
    return OSError(error.errno, os.strerror(error.errno or 0), str(path))
