"""Files that are there in one piece or not at all.

A draft beside the file takes its place by rename. Its name is always the same, so that a crash leaves one draft at
most and the next writer takes it over: there must be one writer at a time (`kubeletplugin.sockets.FolderLock`). It
begins with a dot and does not end in ``.json``, so that container runtimes, which watch the CDI folder, overlook it.

A file is durable when it *and* its folder were synced: without the latter the rename may be forgotten.
"""

import contextlib
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path


class WriteStep(StrEnum):
    """What `put` has just done."""

    DRAFTED = "drafted"
    KEPT = "kept"
    REPLACED = "replaced"
    SYNCED = "synced"


def temporary_path(path: Path) -> Path:
    """Return where a file is drafted."""
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
    """Write a file as a whole and return its state; raises OSError, and then the old one is still there.

    With `previous` the old one stays under that name; at no time is there none under `path`. Only a failure to sync
    the folder comes after the file was replaced.
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
    """Make the names in a folder durable."""
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
    """Give the file a second name, in place of the one that had it."""
    link = temporary_path(previous)
    link.unlink(missing_ok=True)
    link.hardlink_to(path)
    link.replace(previous)
