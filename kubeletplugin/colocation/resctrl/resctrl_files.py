"""The kernel's resctrl filesystem: reads it as a `ResctrlTree`, makes groups, and writes lines and threads.

The kernel refuses a value at the write itself, so each is written with one ``os.write``, and its errno is kept. A file
is not truncated or appended to: the kernel takes each write for itself. What is written is complete in one call, with a
line feed at the end.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from dra.engine.resctrl.groups import SHAREABLE, ResctrlGroup
from dra.engine.resctrl.tree import ControlGroup, ResctrlTree
from kubeletplugin.colocation.resctrl.task_lists import read_task_ids, read_whole

RESCTRL_ROOT: Final = Path("/sys/fs/resctrl")

HOST_PID_NAMESPACE: Final = "pid:[4026531836]"
"""Name of the first PID namespace of a machine; the number is fixed (include/linux/proc_ns.h)."""

_OWN_FOLDERS: Final = frozenset({"info", "mon_data", "mon_groups"})
_HEAD: Final = 4096
"""Bytes of ``/proc/cpuinfo`` in which the vendor stands: the file has kilobytes for each CPU."""

_SIZE: Final = 1024 * 1024
"""Bytes of a file that are read at most; the mount table of a node with many volumes is the longest."""

_TYPE: Final = "resctrl"


class ResctrlFiles:
    """The resctrl filesystem of the machine, or a recorded one at another root."""

    def __init__(self, root: Path = RESCTRL_ROOT, *, proc: Path = Path("/proc")) -> None:
        self._root = root
        self._proc = proc

    def sees_host_pids(self) -> bool:
        """Report whether ids of processes are those of the host; raises OSError."""
        return str((self._proc / "self/ns/pid").readlink()) == HOST_PID_NAMESPACE

    def read_tree(self) -> ResctrlTree:
        """Return all that a decision needs to know; raises OSError."""
        options = self._mount_options()
        if options is None:
            known = _TYPE in self._proc_text("filesystems").split()
            return ResctrlTree(supported=known, vendor=self._vendor())
        names = [name for name in _folders(self._root) if name not in _OWN_FOLDERS]
        ours = {group: self._read_group(group) for group in ResctrlGroup if group in names}
        foreign = tuple(name for name in names if name not in ours)
        return ResctrlTree(
            mounted=True,
            supported=True,
            mount_options=options,
            vendor=self._vendor(),
            info=dict(self._read_info()),
            root_schemata=_text(self._root / "schemata"),
            groups=ours,
            foreign_groups=foreign,
            foreign_tasks=frozenset[int]().union(*(read_task_ids(self._root / name / "tasks") for name in foreign)),
        )

    def make_group(self, group: ResctrlGroup) -> None:
        """Make a control group; raises OSError, with ENOSPC where no closid is left."""
        (self._root / group).mkdir(exist_ok=True)

    def write_line(self, group: ResctrlGroup, line: str) -> None:
        """Write a line of ``schemata``; raises OSError if the kernel refuses it."""
        descriptor = os.open(self._root / group / "schemata", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def move_tasks(self, group: ResctrlGroup, tasks: Iterable[int]) -> int:
        """Move threads to a group, each with a write of its own, and return how many the kernel took.

        A thread that has ended is in order. Raises OSError for the first other refusal, after all were tried.
        """
        moved, refused = 0, None
        descriptor = os.open(self._root / group / "tasks", os.O_WRONLY | os.O_CLOEXEC)
        try:
            for task in tasks:
                try:
                    os.write(descriptor, b"%d\n" % task)
                    moved += 1
                except OSError as error:
                    if error.errno != errno.ESRCH:
                        refused = refused or error
        finally:
            os.close(descriptor)
        if refused is not None:
            raise refused
        return moved

    def last_status(self) -> str:
        """Return why the kernel refused the last write, in its own words; empty if it says nothing."""
        text = " ".join(_text(self._root / "info/last_cmd_status").split())
        return "" if text == "ok" else text[:200]

    def _read_group(self, group: ResctrlGroup) -> ControlGroup:
        folder = self._root / group
        return ControlGroup(
            schemata=_text(folder / "schemata"),
            tasks=read_task_ids(folder / "tasks"),
            mode=_text(folder / "mode").strip() or SHAREABLE,
        )

    def _read_info(self) -> Iterator[tuple[str, dict[str, str]]]:
        info = self._root / "info"
        for name in _folders(info):
            files = [path.name for path in (info / name).iterdir() if path.is_file()]
            yield name, {file: _text(info / name / file).strip() for file in files}

    def _mount_options(self) -> tuple[str, ...] | None:
        """Return the options of the mount at the root; None if there is none."""
        for line in self._proc_text("mounts").splitlines():
            match line.split():
                case [_, point, kind, options, *_] if kind == _TYPE and point == str(self._root):
                    return tuple(options.split(","))
        return None

    def _vendor(self) -> str:
        lines = (line.partition(":") for line in self._proc_text("cpuinfo").splitlines())
        return next((value.strip() for name, _, value in lines if name.strip() == "vendor_id"), "")

    def _proc_text(self, name: str) -> str:
        return _text(self._proc / name, size=_HEAD if name == "cpuinfo" else _SIZE)


def _text(path: Path, *, size: int = _SIZE) -> str:
    return read_whole(path, size=size).decode(errors="replace")


def _folders(path: Path) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
