"""Lists directories of cgroups, and walks those of pods, which containers may make in any number and to any depth.

A container that is privileged, or that a runtime gives a cgroup tree of its own, makes cgroups below its own. What one
pod makes must neither end the reading nor hide other pods. So each pod is walked level by level (its containers come
before what is below them), up to a number of levels and of cgroups, and all pods take turns.
"""

import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from kubeletplugin.cgroups.cgroup_files import GONE
from kubeletplugin.cgroups.cgroup_names import CgroupPath

LEVELS_MAX: Final = 8
"""Levels below a pod that are walked: its containers, and a node of Kubernetes with systemd in one of them."""

POD_CGROUPS_MAX: Final = 1000
"""Cgroups of one pod that are walked, its own included: twice as many as a node of Kubernetes in a container has."""

CGROUPS_MAX: Final = 10_000
"""Cgroups of all pods that are walked: several times as many as the containers of a node."""

_PATH_MAX: Final = 3800
"""Length of a directory's path: with the name of a file it must not exceed the kernel's 4096 (PATH_MAX)."""

_CHILDLESS: Final = 2
"""Number of links to a directory without subdirectories; file systems that do not count links report 1."""


class PodWalk:
    """The cgroups of one pod in one hierarchy: its own first, then level by level, up to bounds.

    The children of a cgroup are listed after it was yielded, when the next one is asked for: so a caller that watches
    each cgroup misses none. The iteration raises OSError; cgroups that are gone have no children.
    """

    def __init__(self, top: str, path: CgroupPath, *, levels: int = LEVELS_MAX, cgroups: int = POD_CGROUPS_MAX) -> None:
        """Create a walk; `path` is that of the pod below the directory `top`."""
        self.path = path
        self.is_whole = True
        """Whether no cgroup was left out for the bounds; known at the end of the walk."""

        self._top = top
        self._levels = levels
        self._cgroups = cgroups

    def __iter__(self) -> Iterator[CgroupPath]:
        waiting, left = deque([self.path]), self._cgroups - 1
        while waiting:
            path = waiting.popleft()
            yield path
            folder = "/".join((self._top, *path))
            if len(path) - len(self.path) >= self._levels:
                self.is_whole = self.is_whole and not has_children(folder)
                continue
            names = child_names(folder, most=left + 1)
            fitting = [name for name in names if len(folder) + 1 + len(name) <= _PATH_MAX][:left]
            self.is_whole = self.is_whole and len(fitting) == len(names)
            waiting += ((*path, name) for name in fitting)
            left -= len(fitting)


def take_turns(walks: Iterable[PodWalk], *, most: int = CGROUPS_MAX) -> Iterator[CgroupPath]:
    """Yield cgroups of pods, one of each pod in turn, up to a number. Raises OSError."""
    turns = deque((walk, iter(walk)) for walk in walks)
    while turns:
        walk, paths = turns.popleft()
        path = next(paths, None)
        if path is None:
            continue
        if most <= 0:
            walk.is_whole = False
            continue
        yield path
        most -= 1
        turns.append((walk, paths))


def has_children(folder: str) -> bool:
    """Report whether a cgroup has children; False if it is gone. Raises OSError for other failures."""
    try:
        links = os.stat(folder).st_nlink  # noqa: PTH116 - hundreds of them, again and again
    except OSError as error:
        if error.errno in GONE:
            return False
        raise
    return links > _CHILDLESS or bool(child_names(folder, most=1))


def child_names(folder: str, *, most: int | None = None) -> list[str]:
    """Return the names of a cgroup's children, sorted; none if the cgroup is gone. Raises OSError for other failures.

    A cgroup has dozens of files beside its children, so one without children is not listed. At most as many children
    as asked for are looked at.
    """
    try:
        if os.stat(folder).st_nlink == _CHILDLESS:  # noqa: PTH116 - hundreds of them, again and again
            return []
        with os.scandir(folder) as entries:
            children = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            return sorted(itertools.islice(children, most))
    except OSError as error:
        if error.errno in GONE:
            return []
        raise
