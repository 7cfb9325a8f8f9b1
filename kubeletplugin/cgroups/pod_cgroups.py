"""Finds the cgroups of the node's pods in the hierarchy of each controller.

In v1, each controller has a hierarchy of its own, sometimes two share one (``cpu,cpuacct``); the kubelet gives a pod
the same path in all of them. In v2, all controllers share one hierarchy. A machine may have both: then the controllers
are in v1, and the v2 tree beside them has pressure files only.

The search goes by the names that exist, not by what a kubelet is configured to create, since only these show which
cgroup driver is in use. Some container runtimes ignore the kubelet's cgroup driver and create the cgroups of containers
elsewhere, with names such as ``kubepods-pod1b2c.slice:cri-containerd:0123`` at the root. The pod's own cgroup is empty
then, and what it says is not what the pod uses; `read_stray_containers` finds these names.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from dra.model.meta import Struct
from dra.model.pods import Pod
from kubeletplugin.cgroups.cgroup_names import CgroupPath, is_qos_class, pod_uid
from kubeletplugin.cgroups.cgroup_tree import child_names, has_children
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import CGROUP_ROOT, CgroupsNotFoundError, find_kubepods

P = TypeVar("P", bound=Pod)

ANNOTATION_CONFIG_HASH: Final = "kubernetes.io/config.hash"
"""Annotation of a mirror pod: the uid that the kubelet gave to the static pod, which its cgroup is named after."""

ANNOTATION_CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation that only a mirror pod has."""


class Controller(StrEnum):
    """A controller of cgroups that the agent reads or writes."""

    CPU = "cpu"
    CPUACCT = "cpuacct"
    CPUSET = "cpuset"
    MEMORY = "memory"


_V1_FOLDERS: Final = {
    Controller.CPU: ("cpu", "cpu,cpuacct", "cpuacct,cpu"),
    Controller.CPUACCT: ("cpuacct", "cpu,cpuacct", "cpuacct,cpu"),
    Controller.CPUSET: ("cpuset", "cpuset,cpu", "cpu,cpuset"),
    Controller.MEMORY: ("memory",),
}
_STRAY_PARENTS: Final = ("", "system.slice")
_STRAY_MARK: Final = ".slice:"
STRAYS_MAX: Final = 16
"""Names of stray cgroups that a search returns at most: one is enough to tell the cause."""


class PodCgroup(Struct, frozen=True):
    """The cgroup of one pod."""

    path: CgroupPath
    """The path below the cgroup of all pods, the same in each hierarchy."""

    has_containers: bool
    """Whether there are cgroups in it: without any, its counters say nothing about the pod."""


NO_PODS: Final[Mapping[str, PodCgroup]] = {}


class PodHierarchies(Struct, frozen=True):
    """The trees of the pods' cgroups, one for each controller that the machine has."""

    version: CgroupVersion
    tops: Mapping[Controller, Path]
    """The root of each controller's hierarchy; in v2 the same for all. A controller that is absent has no entry."""

    kubepods: CgroupPath
    """The path from a root to the kubelet's cgroup of all pods."""

    unified: Path | None = None
    """The root of the v2 tree, which has the pressure files; None if the machine has none."""

    def folder(self, controller: Controller, path: CgroupPath = ()) -> Path | None:
        """Return the directory of a cgroup below that of all pods; None if the machine lacks the controller."""
        top = self.tops.get(controller)
        return None if top is None else top.joinpath(*self.kubepods, *path)

    def unified_folder(self, path: CgroupPath = ()) -> Path | None:
        """Return the directory of a cgroup in the v2 tree; None if the machine has no such tree."""
        return None if self.unified is None else self.unified.joinpath(*self.kubepods, *path)

    def exists(self) -> bool:
        """Report whether the kubelet's cgroup of all pods still exists."""
        return next(iter(self.tops.values())).joinpath(*self.kubepods).is_dir()

    def read_pods(self, known: Mapping[str, PodCgroup] = NO_PODS) -> dict[str, PodCgroup]:
        """Return the cgroups of all pods by the uid in their names, from three or four directories.

        Of pods that are `known` to have cgroups of containers, only the existence is read: the last container's cgroup
        ends with the pod. Raises OSError; cgroups that are removed meanwhile are omitted.
        """
        return dict(_read_pods(str(next(iter(self.tops.values())).joinpath(*self.kubepods)), known))

    def read_stray_containers(self) -> list[str]:
        """Return names of containers' cgroups outside of their pods' cgroups, at most `STRAYS_MAX`. Raises OSError."""
        top = next(iter(self.tops.values()))
        names = (name for parent in _STRAY_PARENTS for name in child_names(str(top / parent)))
        return [name for name in names if _STRAY_MARK in name and "kubepods" in name][:STRAYS_MAX]


def find_pod_hierarchies(
    root: Path = CGROUP_ROOT, *, pods: str = "", uids: Collection[str] = frozenset()
) -> PodHierarchies:
    """Return the hierarchies of pods below a cgroup mount; raises CgroupsNotFoundError.

    `pods` names the kubelet's cgroup of all pods. Without it, the one is taken that has cgroups of pods with these
    `uids`: a machine may have several kubelets, as in kind.
    """
    version, tops = find_controllers(root)
    top = next(iter(tops.values()))
    if pods:
        kubepods = tuple(filter(None, pods.split("/")))
        if not top.joinpath(*kubepods).is_dir():
            raise CgroupsNotFoundError(f"cgroup {top.joinpath(*kubepods)}: does not exist; correct --kubepods-cgroup")
    else:
        kubepods = _choose_kubepods(top, uids)
    return PodHierarchies(version=version, tops=tops, kubepods=kubepods, unified=_find_unified(root))


def find_controllers(root: Path = CGROUP_ROOT) -> tuple[CgroupVersion, dict[Controller, Path]]:
    """Return the cgroup version of a machine and the root of each controller's hierarchy.

    Raises CgroupsNotFoundError if no controller that the agent uses is mounted.
    """
    tops = {
        controller: root / name
        for controller, names in _V1_FOLDERS.items()
        # The last entry of a key counts, so the first name that exists does.
        for name in reversed(names)
        if (root / name / "cgroup.procs").exists()
    }
    if tops:
        return CgroupVersion.V1, tops
    # In hybrid mode v2 is mounted beside the v1 hierarchies.
    for top in (root, root / "unified"):
        listed = top / "cgroup.controllers"
        present = listed.read_text().split() if listed.exists() else []
        if "cpu" in present and "memory" in present:
            shared = {
                controller: top
                for controller in Controller
                if controller is Controller.CPUACCT or controller.value in present
            }
            return CgroupVersion.V2, shared
    raise CgroupsNotFoundError(
        f"cgroups at {root}: no controllers cpu and memory, neither v1 nor v2; mount the host's {CGROUP_ROOT} there"
    )


def named_uids(pods: Collection[P]) -> dict[str, P]:
    """Return pods by the uid in the name of their cgroups: their own, or for mirror pods that of the static pod.

    Annotations are written by users. So the hash of a mirror pod counts only if no other pod has it as its uid.
    """
    named: dict[str, P] = {uid: pod for pod in pods if (uid := _static_uid(pod))}
    named.update((pod.metadata.uid, pod) for pod in pods)
    return named


def _static_uid(pod: Pod) -> str:
    """Return the uid of the static pod that a mirror pod stands for; empty for other pods."""
    if pod.metadata.annotation(ANNOTATION_CONFIG_MIRROR) is None:
        return ""
    return pod.metadata.annotation(ANNOTATION_CONFIG_HASH) or ""


def _read_pods(folder: str, known: Mapping[str, PodCgroup] = NO_PODS) -> Iterator[tuple[str, PodCgroup]]:
    names = child_names(folder)
    yield from _pods_in(folder, (), names, known)
    for name in names:
        if is_qos_class(name):
            yield from _pods_in(f"{folder}/{name}", (name,), child_names(f"{folder}/{name}"), known)


def _pods_in(
    folder: str, parent: CgroupPath, names: Iterable[str], known: Mapping[str, PodCgroup]
) -> Iterator[tuple[str, PodCgroup]]:
    for name in names:
        uid = pod_uid(name)
        if uid is None:
            continue
        before, path = known.get(uid), (*parent, name)
        if before is not None and before.has_containers and before.path == path:
            yield uid, before
        else:
            yield uid, PodCgroup(path=path, has_containers=has_children(f"{folder}/{name}"))


def _choose_kubepods(top: Path, uids: Collection[str]) -> CgroupPath:
    """Return the path of the cgroup of all pods that has most of these pods; raises CgroupsNotFoundError."""
    candidates = sorted(find_kubepods(top, marker="cgroup.procs"))
    if not candidates:
        raise CgroupsNotFoundError(
            f"cgroups below {top}: none is named kubepods or kubepods.slice; "
            "check that the kubelet has started, with cgroupsPerQOS"
        )
    counts = {folder: sum(uid in uids for uid, _ in _read_pods(str(folder))) for folder in candidates}
    best = max(candidates, key=lambda folder: counts[folder])
    if len(candidates) > 1 and not counts[best]:
        names = ", ".join(str(folder.relative_to(top)) for folder in candidates)
        raise CgroupsNotFoundError(
            f"cgroups below {top}: several kubelets have cgroups ({names}), and none has a pod of this node yet; "
            "choose one with --kubepods-cgroup"
        )
    return best.relative_to(top).parts


def _find_unified(root: Path) -> Path | None:
    return next((top for top in (root, root / "unified") if (top / "cgroup.controllers").exists()), None)
