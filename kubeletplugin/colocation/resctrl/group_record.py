"""The record of the control groups that are ours: a file with their names.

It is written before a group is made or changed, and removed once all of them are restored. So a plugin that is started
after a crash knows what to restore, and never touches groups of these names that another agent made. The directory is
that of CDI specs, which is empty after a reboot, as resctrl is; container runtimes ignore names that begin with a dot.

Whoever divides touches the record in each round. A plugin without ``--colocation`` leaves a record alone as long as
that goes on, as it leaves the mark of suppression (`kubeletplugin.colocation.batch_pods.suppression_mark`).
"""

import contextlib
import os
import time
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from dra.engine.resctrl.groups import ResctrlGroup
from kubeletplugin.atomic_files import fsync_directory, write_atomically

RECORD_FILE: Final = ".colocation.resctrl"
ABANDONED_SECONDS: Final = 30.0
"""Age of a record that nobody touches any more: three rounds."""

_MODE: Final = 0o600


class GroupRecord:
    """The record in a directory, which is created with the first group if it is absent."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / RECORD_FILE
        self._durable = False
        """Whether a loss of power keeps the record as it is."""

    def read(self) -> frozenset[ResctrlGroup]:
        """Return the recorded groups, none if there is no record; raises OSError. Names that are none are left out."""
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            names = self._path.read_text(errors="replace").split()
        if not self._durable:  # what a crash or a failed write has left is not written again
            with contextlib.suppress(FileNotFoundError):
                fsync_directory(self._path.parent)
            self._durable = True
        return frozenset(group for group in ResctrlGroup if group in names)

    def touch(self) -> None:
        """Show that the groups are in use, if there is a record; raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._path)

    def is_abandoned(self) -> bool:
        """Report whether there is a record that nobody has touched for a while; raises OSError."""
        try:
            return time.time() - self._path.stat().st_mtime >= ABANDONED_SECONDS
        except FileNotFoundError:
            return False

    def write(self, groups: AbstractSet[ResctrlGroup]) -> None:
        """Record these groups and no others, durably; raises OSError."""
        self._durable = False
        if groups:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            body = "".join(f"{group}\n" for group in ResctrlGroup if group in groups)
            write_atomically(self._path, body.encode(), mode=_MODE, sync=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
                fsync_directory(self._path.parent)
        self._durable = True
