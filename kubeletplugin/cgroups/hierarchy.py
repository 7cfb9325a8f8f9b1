"""The kernel's tree of the pods' cgroups, as files: found, read, written.

In v1 cpusets are a hierarchy of their own, in v2 there is one for all controllers; a machine may have both (hybrid: the
cpuset controller is then in v1). Each container may live in a namespace and see only a part of the tree, but the plugin
is given the host's. The kubelet's cgroup of all pods is at the top or, with ``--cgroup-root``, a little below.
"""

import errno
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, MalformedCpuListError, parse
from dra.model.meta import Struct
from kubeletplugin.cgroups.cgroup_names import CgroupPath, is_kubepods
from kubeletplugin.cgroups.cpuset_plan import Cgroup, CgroupVersion

CGROUP_ROOT: Final = FilePath("/sys/fs/cgroup")

CPUSET_CPUS: Final = "cpuset.cpus"
"""The file of a cgroup that is read and written."""

_CPUSET_CPUS_EFFECTIVE: Final = "cpuset.cpus.effective"
_CHILDLESS: Final = 2
"""Links to a folder in which there is none; file systems that do not count them say 1."""

_DEPTH: Final = 3
"""How far below the top the cgroup of all pods is looked for."""

_GONE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})


class CgroupsNotFoundError(Exception):
    """The cgroups of pods cannot be found; the text says where they were looked for."""


class CgroupHierarchy(Struct, frozen=True):
    """The tree of pods."""

    pods: FilePath
    """The kubelet's cgroup of all pods."""
    version: CgroupVersion
    top: FilePath
    """The root of all cpusets."""

    def file(self, path: CgroupPath) -> FilePath:
        """Return the folder of a cgroup."""
        return self.pods.joinpath(*path)

    def read(self, entered: Callable[[str], None] = lambda _: None) -> tuple[Cgroup, ...]:
        """Return all cgroups, parents first; each folder is told before its content is read.

        What goes away meanwhile is left out. Raises OSError for anything else.
        """
        return tuple(self._below((), str(self.pods), entered))

    def own(self, path: CgroupPath) -> CpuSet | None:
        """Return the CPUs of one cgroup; None if it is gone."""
        return self._cpus(str(self.file(path)))

    def write(self, path: CgroupPath, cpus: CpuSet) -> bool:
        """Set the CPUs of a cgroup; return whether it is still there. Raises OSError if the kernel refuses."""
        return _write_cpuset(self.file(path), cpus)

    def online(self) -> CpuSet:
        """Return the CPUs of the root: in v1 all that are online, the kernel sees to that."""
        return self._cpus(str(self.top), effective=self.version is CgroupVersion.V2) or NO_CPUS

    def widen(self, cpus: CpuSet) -> None:
        """Let the cgroup of all pods, and what lies above it, have more CPUs. Raises OSError if the kernel refuses."""
        within = self.pods.relative_to(self.top).parts
        for folder in (self.top.joinpath(*within[:length]) for length in range(1, len(within) + 1)):
            own = self._cpus(str(folder))
            if own is not None and not cpus <= own:
                _write_cpuset(folder, own | cpus)

    def _below(self, path: CgroupPath, folder: str, entered: Callable[[str], None]) -> Iterator[Cgroup]:
        entered(folder)
        cpus = self._cpus(folder, effective=self.version is CgroupVersion.V2 and not path)
        if cpus is None:
            return
        yield Cgroup(path=path, cpus=cpus)
        try:
            if os.stat(folder).st_nlink == _CHILDLESS:  # noqa: PTH116 - hundreds of them, again and again
                return
            with os.scandir(folder) as entries:
                names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError as error:
            if error.errno in _GONE:
                return
            raise
        for name in sorted(names):
            yield from self._below((*path, name), f"{folder}/{name}", entered)

    def _cpus(self, folder: str, *, effective: bool = False) -> CpuSet | None:
        try:
            descriptor = os.open(f"{folder}/{_CPUSET_CPUS_EFFECTIVE if effective else CPUSET_CPUS}", os.O_RDONLY)
            try:
                return _parse_cpuset(os.read(descriptor, 65536).decode())
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        except MalformedCpuListError as error:
            raise CgroupsNotFoundError(f"cgroup {folder}: {error}") from error


def _write_cpuset(folder: FilePath, cpus: CpuSet) -> bool:
    try:
        descriptor = os.open(folder / CPUSET_CPUS, os.O_WRONLY | os.O_TRUNC)  # truncating is for fake trees
    except OSError as error:
        if error.errno in _GONE:
            return False
        raise
    try:
        os.write(descriptor, f"{cpus}\n".encode())
    except OSError as error:
        if error.errno in _GONE:
            return False
        raise
    finally:
        os.close(descriptor)
    return True


_parse_cpuset = lru_cache(maxsize=1024)(parse)
"""Hundreds of cgroups have a handful of values."""


def find_hierarchy(root: FilePath = CGROUP_ROOT, *, pods: str = "") -> CgroupHierarchy:
    """Return the tree of pods below a mount of cgroups; `pods` names the cgroup of all pods if there are several."""
    top, version = _find_cpuset_root(root)
    if pods:
        chosen = top / pods.strip("/")
        if not (chosen / CPUSET_CPUS).exists():
            raise CgroupsNotFoundError(
                f"cgroup {chosen}: has no {CPUSET_CPUS}: is it the kubelet's cgroup of all pods?"
            )
        return CgroupHierarchy(pods=chosen, version=version, top=top)
    found = sorted(_find_kubepods(top, depth=_DEPTH))
    if not found:
        raise CgroupsNotFoundError(
            f"cgroups below {top}: none is named kubepods or kubepods.slice; "
            "has the kubelet started, with cgroupsPerQOS?"
        )
    if len(found) > 1:
        names = ", ".join(str(each.relative_to(top)) for each in found)
        raise CgroupsNotFoundError(
            f"cgroups below {top}: several kubelets' ({names}); say which one with --kubepods-cgroup"
        )
    return CgroupHierarchy(pods=found[0], version=version, top=top)


def _find_cpuset_root(root: FilePath) -> tuple[FilePath, CgroupVersion]:
    """Return where cpusets are."""
    for name in ("cpuset", "cpuset,cpu", "cpu,cpuset"):
        if (root / name / CPUSET_CPUS).exists():
            return root / name, CgroupVersion.V1
    for top in (root, root / "unified"):
        controllers = top / "cgroup.controllers"
        if controllers.exists() and "cpuset" in controllers.read_text().split():
            return top, CgroupVersion.V2
    raise CgroupsNotFoundError(f"cgroups at {root}: no cpuset controller, neither v1 nor v2")


def _find_kubepods(folder: FilePath, *, depth: int) -> Iterator[FilePath]:
    """Yield the cgroups of all pods; none lies within another."""
    for each in folder.iterdir():
        if not each.is_dir():
            continue
        if is_kubepods(each.name):
            if (each / CPUSET_CPUS).exists():
                yield each
        elif depth > 1:
            yield from _find_kubepods(each, depth=depth - 1)
