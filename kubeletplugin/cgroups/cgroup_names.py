"""Names of cgroups: derives the level of a cgroup in the tree of pods from its name.

The kubelet creates one cgroup for all pods, below this one a cgroup for each of the two lower QoS classes, and in these
(for guaranteed pods, beside these) one for each pod. The container runtime creates one for each container. There are
two naming schemes:

=========  =========================================  ======================================================
level      cgroupfs                                   systemd
=========  =========================================  ======================================================
all pods   ``kubepods``                               ``kubepods.slice``, below a parent ``x-kubepods.slice``
QoS class  ``burstable``                              ``kubepods-burstable.slice``
pod        ``pod1b2c-3d``                             ``kubepods-burstable-pod1b2c_3d.slice``
container  ``0123abcd``                               ``cri-containerd-0123abcd.scope``, ``crio-0123abcd.scope``
=========  =========================================  ======================================================

A container may create cgroups below its own. A cgroup in a place where the kubelet creates none counts as a container:
the processes in it own no CPUs.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

CgroupPath: TypeAlias = tuple[str, ...]
"""The names on the path from the cgroup of all pods (the empty path) to a cgroup."""


class CgroupLevel(StrEnum):
    """The level of a cgroup in the tree of pods."""

    PODS = "pods"
    QOS = "qos class"
    POD = "pod"
    CONTAINER = "container"
    NESTED = "nested"  # created within a container


_BEST_EFFORT: Final = re.compile(r"(?:[\w.-]+-kubepods-|kubepods-)?besteffort(?:\.slice)?")
_PODS: Final = re.compile(r"(?:[\w.-]+-)?kubepods(?:\.slice)?")
_QOS: Final = re.compile(r"(?:[\w.-]+-kubepods-|kubepods-)?(?:burstable|besteffort)(?:\.slice)?")
_POD: Final = re.compile(r"pod(?P<plain>[\w-]+)|[\w.-]*kubepods-(?:burstable-|besteffort-)?pod(?P<escaped>\w+)\.slice")


def is_kubepods(name: str) -> bool:
    """Report whether a cgroup of that name is the kubelet's cgroup of all pods."""
    return _PODS.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def cgroup_level(path: CgroupPath) -> CgroupLevel:
    """Return the level of a cgroup."""
    return _child_level(cgroup_level(path[:-1]), path[-1]) if path else CgroupLevel.PODS


def is_best_effort(path: CgroupPath) -> bool:
    """Report whether a cgroup is that of the QoS class BestEffort, or lies below it."""
    return bool(path) and _BEST_EFFORT.fullmatch(path[0]) is not None


@lru_cache(maxsize=4096)
def is_qos_class(name: str) -> bool:
    """Report whether a cgroup of that name, below the cgroup of all pods, is that of a QoS class."""
    return _QOS.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def pod_uid(name: str) -> str | None:
    """Return the uid in the name of a pod's cgroup; None for other names.

    systemd's names have ``_`` in place of ``-``, which separates the slices of its tree. The cgroup of a static pod has
    the hash of its manifest in place of a uid.
    """
    match = _POD.fullmatch(name)
    if match is None:
        return None
    return match["plain"] or match["escaped"].replace("_", "-")


def pod_uid_of_process(cgroups: str) -> str | None:
    """Return the uid of the pod that a process belongs to, from the text of its ``/proc/PID/cgroup``; else None.

    All hierarchies name the same pod; the first one that names a pod counts. A name counts only below a cgroup of all
    pods, as the kubelet creates it: a container that may create cgroups may name them as it likes. A reader in a cgroup
    namespace of its own sees paths from its own cgroup on, ``/../../burstable/pod1b2c-3d/0123``, in which the names
    above the common part are missing.
    """
    for line in cgroups.splitlines():
        names = line.split(":", 2)[-1].split("/")[1:]
        if names[:1] == [".."]:
            names = [name for name in names if name != ".."]
            start = next((index + 1 for index, name in enumerate(names) if is_kubepods(name)), 0)
        else:
            start = next((index + 1 for index, name in enumerate(names) if is_kubepods(name)), len(names))
        below = names[start:]
        place = 1 if below and is_qos_class(below[0]) else 0
        if len(below) > place and (uid := pod_uid(below[place])) is not None:
            return uid
    return None


def _child_level(parent: CgroupLevel, name: str) -> CgroupLevel:
    if parent in (CgroupLevel.CONTAINER, CgroupLevel.NESTED):
        return CgroupLevel.NESTED
    if parent is CgroupLevel.PODS and _QOS.fullmatch(name):
        return CgroupLevel.QOS
    if parent in (CgroupLevel.PODS, CgroupLevel.QOS) and _POD.fullmatch(name):
        return CgroupLevel.POD
    return CgroupLevel.CONTAINER
