"""What a cgroup below the kubelet's is, told from its name.

The kubelet makes one cgroup for all pods, below it one for each of the two lower QoS classes, and in these (or, for
guaranteed pods, beside them) one for each pod; the container runtime makes one for each container. There are two ways
to name them:

=========  =========================================  ======================================================
level      cgroupfs                                   systemd
=========  =========================================  ======================================================
all pods   ``kubepods``                               ``kubepods.slice``, below a parent ``x-kubepods.slice``
QoS class  ``burstable``                              ``kubepods-burstable.slice``
pod        ``pod1b2c-3d``                             ``kubepods-burstable-pod1b2c_3d.slice``
container  ``0123abcd``                               ``cri-containerd-0123abcd.scope``, ``crio-0123abcd.scope``
=========  =========================================  ======================================================

A container may have cgroups of its own making below its own. A cgroup in a place where the kubelet makes none counts as
a container: whatever runs there has no claim on CPUs.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

CgroupPath: TypeAlias = tuple[str, ...]
"""Names from the cgroup of all pods down to a cgroup; the former is the empty path."""


class CgroupLevel(StrEnum):
    """Of a cgroup in the tree of pods."""

    PODS = "pods"
    QOS = "qos class"
    POD = "pod"
    CONTAINER = "container"
    NESTED = "nested"  # made within a container


_PODS: Final = re.compile(r"(?:[\w.-]+-)?kubepods(?:\.slice)?")
_QOS: Final = re.compile(r"(?:[\w.-]+-kubepods-|kubepods-)?(?:burstable|besteffort)(?:\.slice)?")
_POD: Final = re.compile(r"pod[\w-]+|[\w.-]*kubepods-(?:burstable-|besteffort-)?pod\w+\.slice")


def is_kubepods(name: str) -> bool:
    """Whether a cgroup of that name is the kubelet's cgroup of all pods."""
    return _PODS.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def cgroup_level(path: CgroupPath) -> CgroupLevel:
    """Return what a cgroup is."""
    return _child_level(cgroup_level(path[:-1]), path[-1]) if path else CgroupLevel.PODS


def _child_level(parent: CgroupLevel, name: str) -> CgroupLevel:
    if parent in (CgroupLevel.CONTAINER, CgroupLevel.NESTED):
        return CgroupLevel.NESTED
    if parent is CgroupLevel.PODS and _QOS.fullmatch(name):
        return CgroupLevel.QOS
    if parent in (CgroupLevel.PODS, CgroupLevel.QOS) and _POD.fullmatch(name):
        return CgroupLevel.POD
    return CgroupLevel.CONTAINER
