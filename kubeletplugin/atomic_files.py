"""Atomic writes of files: a reader sees the old content or the new content, never a part.

A temporary file in the same directory replaces the file by rename. The temporary name is always the same, so a crash
leaves at most one temporary file, which the next writer reuses. So there must be one writer at a time
(`kubeletplugin.directory_lock.DirectoryLock`). The temporary name begins with a dot and does not end in ``.json``:
container runtimes, which watch the CDI spec directory, ignore it.

A file is durable when the file *and* its directory were synced: without a sync of the directory the rename may be lost.
"""

import contextlib
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path


class WriteStep(StrEnum):
    """The step that `write_atomically` has just completed."""

    DRAFTED = "drafted"
    KEPT = "kept"
    REPLACED = "replaced"
    SYNCED = "synced"


def temporary_path(path: Path) -> Path:
    """Return the path of the temporary file that replaces a file."""
    return path.with_name(f".{path.name}.tmp")


def write_atomically(
    path: Path,
    body: bytes,
    *,
    mode: int,
    sync: bool,
    previous: Path | None = None,
    done: Callable[[WriteStep], None] = lambda _: None,
) -> os.stat_result:
    """Replace a file as a whole and return its stat result; raises OSError, and then the old file is unchanged.

    With `previous`, the old file stays under that name; `path` exists at all times. The only error that comes after
    the file was replaced is a failure to sync the directory.
    """
    draft = temporary_path(path)
    try:
        state = _write_temporary(draft, body, mode=mode, sync=sync)
        done(WriteStep.DRAFTED)
        if previous is not None and path.exists():
            _link_previous(path, previous)
            done(WriteStep.KEPT)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    done(WriteStep.REPLACED)
    if sync:
        fsync_directory(path.parent)
        done(WriteStep.SYNCED)
    return state


def fsync_directory(folder: Path) -> None:
    """Sync a directory, so that the names in this directory are durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_temporary(draft: Path, body: bytes, *, mode: int, sync: bool) -> os.stat_result:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(draft, flags, 0o600)
    try:
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fchmod(descriptor, mode)  # whatever the umask
        if sync:
            os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _link_previous(path: Path, previous: Path) -> None:
    """Hard-link the file under the name `previous`, replacing the older file of that name."""
    link = temporary_path(previous)
    link.unlink(missing_ok=True)
    link.hardlink_to(path)
    link.replace(previous)
