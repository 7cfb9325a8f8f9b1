"""Atomic writes of files: a reader sees the old content or the new content, never a part.

A temporary file in the same directory replaces the file by rename. The temporary name is always the same, so a crash
leaves at most one temporary file, which the next writer reuses. So there must be one writer at a time
(`kubeletplugin.directory_lock.DirectoryLock`). The temporary name begins with a dot and does not end in ``.json``:
container runtimes, which watch the CDI spec directory, ignore it.

A file is durable when the file *and* its directory were synced: without a sync of the directory the rename may be lost.
Whoever relies on content that another process, or a failed write, may have left reads it with `read_durably`: content
that is right already is not written again, so the missing sync would never be made up for.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE
from typing import Final, NamedTuple


def temporary_path(path: str) -> str:
    """Return the path of the temporary file that replaces a file."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tmp")  # noqa: PTH118 - see `Replacement`


@dataclass(kw_only=True)
class Replacement:
    """A file that is about to be replaced; paths are strings, since pathlib takes as long as the kernel."""

    path: str
    body: bytes
    mode: int
    sync: bool
    previous: str | None
    draft: str
    """The temporary file."""
    state: os.stat_result | None = None
    """State of the new file, once it is written."""


class ReplacementStep(NamedTuple):
    """A step of a replacement; all steps are undone by the removal of the draft, which is gone once it is renamed."""

    name: str
    do: Callable[[Replacement], None]
    leaves: str
    """What a crash directly behind the step leaves."""


def _write_draft(file: Replacement) -> None:
    file.state = _write_temporary(file.draft, file.body, mode=file.mode, sync=file.sync)


def _keep_previous(file: Replacement) -> None:
    """Hard-link the file under the name `previous`, replacing the older file of that name."""
    if file.previous is None:
        return
    link = temporary_path(file.previous)
    try:
        os.link(file.path, link)
    except FileNotFoundError:  # nothing was written before
        return
    except FileExistsError:  # a crash has left it
        os.unlink(link)  # noqa: PTH108
        os.link(file.path, link)
    os.replace(link, file.previous)  # noqa: PTH105


def _rename_draft(file: Replacement) -> None:
    os.replace(file.draft, file.path)  # noqa: PTH105


def _sync_name(file: Replacement) -> None:
    if file.sync:
        fsync_directory(os.path.dirname(file.path))  # noqa: PTH120


REPLACEMENT: Final = (
    ReplacementStep("drafted", _write_draft, leaves="the old content, and a draft that the next writer overwrites"),
    ReplacementStep("kept", _keep_previous, leaves="the old content under both names, and a draft"),
    ReplacementStep("replaced", _rename_draft, leaves="the new content; after a loss of power perhaps the old one"),
    ReplacementStep("synced", _sync_name, leaves="the new content"),
)
"""The steps of a replacement in order."""


def write_atomically(
    path: str | Path,
    body: bytes,
    *,
    mode: int,
    sync: bool,
    previous: Path | None = None,
    steps: Sequence[ReplacementStep] = REPLACEMENT,
) -> os.stat_result:
    """Replace a file as a whole and return its stat result; raises OSError, and then the old file is unchanged.

    With `previous`, the old file stays under that name; `path` exists at all times. The only error that comes after
    the file was replaced is a failure to sync the directory.
    """
    name = os.fspath(path)
    file = Replacement(
        path=name,
        body=body,
        mode=mode,
        sync=sync,
        previous=None if previous is None else os.fspath(previous),
        draft=temporary_path(name),
    )
    try:
        for step in steps:
            step.do(file)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(file.draft)  # noqa: PTH108
        raise
    if file.state is None:
        raise ValueError(f"file {path}: no step has written it")
    return file.state


def read_durably(path: Path) -> bytes:
    """Return the content of a file once a loss of power cannot bring an older one back; raises OSError."""
    content = path.read_bytes()
    fsync_directory(path.parent)
    return content


def fsync_directory(folder: str | Path) -> None:
    """Sync a directory, so that the names in this directory are durable; an empty name means the working directory."""
    descriptor = os.open(folder or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_temporary(draft: str, body: bytes, *, mode: int, sync: bool) -> os.stat_result:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(draft, flags, mode)
    try:
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if S_IMODE(os.fstat(descriptor).st_mode) != mode:  # of another mask, or of a draft that a crash has left
            os.fchmod(descriptor, mode)
        if sync:
            os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)
