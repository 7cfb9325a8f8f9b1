"""Lists of threads: the ``tasks`` of a control group, and those of a cgroup and all cgroups below it.

Threads, not processes: a control group takes each thread for itself. A list may be longer than one read returns, and
changes while it is read; what is missed now is seen the next time.
"""

import errno
import os
from pathlib import Path
from typing import Final

from dra.model.meta import Struct
from kubeletplugin.cgroups.cgroup_files import GONE
from kubeletplugin.cgroups.cgroup_names import CgroupPath
from kubeletplugin.cgroups.cgroup_tree import PodWalk
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.pod_cgroups import PodHierarchies

LIST_SIZE: Final = 32 * 1024 * 1024
"""Bytes of a list that are read at most: more than the 2²² ids of a machine have."""

LEVELS_MAX: Final = 64
"""Levels below a pod that are read at most; more than elsewhere, since threads in those left out escape their group."""

_READ_SIZE: Final = 65536
_UNREADABLE: Final = GONE | {errno.EOPNOTSUPP}
_FILES: Final = {CgroupVersion.V1: "tasks", CgroupVersion.V2: "cgroup.threads"}


class PodThreads(Struct, frozen=True):
    """The threads of a pod."""

    ids: frozenset[int]
    is_whole: bool
    """Whether all cgroups of the pod were read."""


def read_pod_threads(hierarchies: PodHierarchies, path: CgroupPath) -> PodThreads:
    """Return the threads in the cgroup of a pod and below it. Raises OSError.

    Containers make cgroups in their own, systemd in a container for example; the threads are the pod's all the same.
    """
    top = next(iter(hierarchies.tops.values())).joinpath(*hierarchies.kubepods)
    walk = PodWalk(str(top), path, levels=LEVELS_MAX)
    name = _FILES[hierarchies.version]
    ids = frozenset[int]().union(*(read_task_ids(top.joinpath(*below, name)) for below in walk))
    return PodThreads(ids=ids, is_whole=walk.is_whole)


def read_task_ids(path: Path) -> frozenset[int]:
    """Return the ids that a file lists, one a line; none if the group is gone. Raises OSError for other failures."""
    return frozenset(map(int, read_whole(path, size=LIST_SIZE).rpartition(b"\n")[0].split()))


def read_whole(path: Path, *, size: int) -> bytes:
    """Return the content of a file up to a size, empty if the file does not exist. Raises OSError for other failures.

    Only an empty read shows the end: the kernel returns a list in pieces.
    """
    parts: list[bytes] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while size > 0 and (part := os.read(descriptor, min(size, _READ_SIZE))):
                parts.append(part)
                size -= len(part)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
    return b"".join(parts)
