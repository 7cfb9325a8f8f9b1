"""The kernel's tree of the pods' cgroups: finds, reads and writes the cpuset files.

In v1, cpusets are a hierarchy of their own; in v2, all controllers share one. A machine may have both (hybrid: then the
cpuset controller is in v1). A container may live in a cgroup namespace and see only a part of the tree; the plugin must
see the host's tree. The kubelet's cgroup of all pods is at the top or, with ``--cgroup-root``, a few levels below.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, MalformedCpuListError, parse
from dra.model.meta import Struct
from kubeletplugin.cgroups.cgroup_files import read_file, write_file
from kubeletplugin.cgroups.cgroup_names import CgroupPath, is_kubepods, is_qos_class
from kubeletplugin.cgroups.cgroup_tree import PodWalk, child_names, take_turns
from kubeletplugin.cgroups.cpuset_plan import Cgroup, CgroupVersion

CGROUP_ROOT: Final = FilePath("/sys/fs/cgroup")

CPUSET_CPUS: Final = "cpuset.cpus"
"""Name of the file with the cpuset of a cgroup."""

_CPUSET_CPUS_EFFECTIVE: Final = "cpuset.cpus.effective"
_DEPTH: Final = 3
"""Number of levels below the root that are searched for the cgroup of all pods."""


class CgroupsNotFoundError(Exception):
    """The cgroups of pods were not found; the text names the searched directory."""


class CgroupHierarchy(Struct, frozen=True):
    """The tree of the pods' cgroups."""

    pods: FilePath
    """The kubelet's cgroup of all pods."""
    version: CgroupVersion
    top: FilePath
    """The directory of the root cpuset."""

    def file(self, path: CgroupPath) -> FilePath:
        """Return the directory of a cgroup."""
        return self.pods.joinpath(*path)

    def read(self, entered: Callable[[str], None] = lambda _: None) -> tuple[Cgroup, ...]:
        """Return all cgroups, parents first; `entered` is called with each directory before its content is read.

        Of cgroups that containers have made, those beyond the bounds of `cgroup_tree` are omitted, and so are cgroups
        that are removed meanwhile. Raises OSError for any other failure.
        """
        cgroups = (self._enter(path, entered) for path in self._paths())
        return tuple(cgroup for cgroup in cgroups if cgroup is not None)

    def own(self, path: CgroupPath) -> CpuSet | None:
        """Return the CPUs of one cgroup; None if the cgroup is gone."""
        return self._cpus(str(self.file(path)))

    def write(self, path: CgroupPath, cpus: CpuSet) -> bool:
        """Set the CPUs of a cgroup; return whether the cgroup still exists. Raises OSError if the kernel refuses."""
        return write_file(self.file(path) / CPUSET_CPUS, f"{cpus}\n")

    def online(self) -> CpuSet:
        """Return the CPUs of the root cpuset: all online CPUs, which the kernel maintains."""
        return self._cpus(str(self.top), effective=self.version is CgroupVersion.V2) or NO_CPUS

    def widen(self, cpus: CpuSet) -> None:
        """Add CPUs to the cgroup of all pods and its parents. Raises OSError if the kernel refuses."""
        within = self.pods.relative_to(self.top).parts
        for folder in (self.top.joinpath(*within[:length]) for length in range(1, len(within) + 1)):
            own = self._cpus(str(folder))
            if own is not None and not cpus <= own:
                write_file(folder / CPUSET_CPUS, f"{own | cpus}\n")

    def _paths(self) -> Iterator[CgroupPath]:
        """Yield the paths of all cgroups; the children of each are listed after it was yielded."""
        top = str(self.pods)
        yield ()
        pods: list[PodWalk] = []
        for name in child_names(top):
            if is_qos_class(name):
                yield (name,)
                pods += (PodWalk(top, (name, pod)) for pod in child_names(f"{top}/{name}"))
            else:
                pods.append(PodWalk(top, (name,)))
        yield from take_turns(pods)

    def _enter(self, path: CgroupPath, entered: Callable[[str], None]) -> Cgroup | None:
        folder = "/".join((str(self.pods), *path))
        entered(folder)
        cpus = self._cpus(folder, effective=self.version is CgroupVersion.V2 and not path)
        return None if cpus is None else Cgroup(path=path, cpus=cpus)

    def _cpus(self, folder: str, *, effective: bool = False) -> CpuSet | None:
        content = read_file(f"{folder}/{_CPUSET_CPUS_EFFECTIVE if effective else CPUSET_CPUS}")
        if content is None:
            return None
        try:
            return _parse_cpuset(content.decode())
        except MalformedCpuListError as error:
            raise CgroupsNotFoundError(f"cgroup {folder}: {error}") from error


_parse_cpuset = lru_cache(maxsize=1024)(parse)
"""Parser of cpusets with a cache: hundreds of cgroups share a handful of values."""


def find_hierarchy(root: FilePath = CGROUP_ROOT, *, pods: str = "") -> CgroupHierarchy:
    """Return the tree of pods below a cgroup mount; `pods` names the cgroup of all pods if there are several."""
    top, version = _find_cpuset_root(root)
    if pods:
        chosen = top / pods.strip("/")
        if not (chosen / CPUSET_CPUS).exists():
            raise CgroupsNotFoundError(
                f"cgroup {chosen}: has no {CPUSET_CPUS}: is it the kubelet's cgroup of all pods?"
            )
        return CgroupHierarchy(pods=chosen, version=version, top=top)
    folders = sorted(find_kubepods(top))
    if not folders:
        raise CgroupsNotFoundError(
            f"cgroups below {top}: none is named kubepods or kubepods.slice; "
            "check that the kubelet has started, with cgroupsPerQOS"
        )
    if len(folders) > 1:
        names = ", ".join(str(folder.relative_to(top)) for folder in folders)
        raise CgroupsNotFoundError(
            f"cgroups below {top}: several kubelets have cgroups ({names}); choose one with --kubepods-cgroup"
        )
    return CgroupHierarchy(pods=folders[0], version=version, top=top)


def _find_cpuset_root(root: FilePath) -> tuple[FilePath, CgroupVersion]:
    """Return the directory of the root cpuset, and the cgroup version; raises CgroupsNotFoundError."""
    for name in ("cpuset", "cpuset,cpu", "cpu,cpuset"):
        if (root / name / CPUSET_CPUS).exists():
            return root / name, CgroupVersion.V1
    for top in (root, root / "unified"):
        controllers = top / "cgroup.controllers"
        if controllers.exists() and "cpuset" in controllers.read_text().split():
            return top, CgroupVersion.V2
    raise CgroupsNotFoundError(f"cgroups at {root}: no cpuset controller, neither v1 nor v2")


def find_kubepods(folder: FilePath, *, depth: int = _DEPTH, marker: str = CPUSET_CPUS) -> Iterator[FilePath]:
    """Yield each cgroup of all pods (one per kubelet) that has a file named as the marker; none lies within another.

    Services end at any time, and with them their cgroups. Raises OSError for any other failure.
    """
    for name in child_names(str(folder)):
        if is_kubepods(name):
            if (folder / name / marker).exists():
                yield folder / name
        elif depth > 1:
            yield from find_kubepods(folder / name, depth=depth - 1, marker=marker)
