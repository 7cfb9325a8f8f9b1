"""Which cgroup is to have which CPUs, and in what order that can be written.

Containers that own CPUs get exactly these, all others the shared pool. What lies above a container must have the CPUs
of everything in it, and always has the shared pool, so that a container that is born there has the pool from its first
instruction, whether or not anybody looks: in v1 it copies its parent's CPUs, in v2 it is bounded by them.

The cgroup of all pods is not written here. It is the kubelet's, and it says which CPUs there are (but see `regaining`).

cgroup v1 refuses a child that has more than its parent (EACCES) and a parent that has less than its children (EBUSY),
at each single write. So everything is first *widened* from the top to what it has and what it shall have, and then
*narrowed* from the bottom. v2 accepts any order, and bounds what a child has by what its parents have; an empty cpuset
there means: whatever the parent has. cgroups that containers make for themselves are bounded by v2; in v1 they follow
their container, and a partition of their own is respected as long as it lies within.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.model.meta import Struct
from kubeletplugin.cgroups.cgroup_names import CgroupLevel, CgroupPath, cgroup_level


class CgroupVersion(IntEnum):
    """Of the kernel's interface."""

    V1 = 1
    V2 = 2


class Cgroup(Struct, frozen=True):
    """A cgroup as it is."""

    path: CgroupPath
    cpus: CpuSet
    """None: it has what its parent has (v2), or has just been made (v1)."""


class CpusetWrite(Struct, frozen=True):
    """CPUs to be written."""

    path: CgroupPath
    cpus: CpuSet


def plan_cpusets(
    tree: Iterable[Cgroup], *, version: CgroupVersion, shared: CpuSet, owned: Mapping[str, CpuSet]
) -> dict[CgroupPath, CpuSet]:
    """Return the CPUs of each cgroup; `owned` are those of containers, by the names of their cgroups.

    In v2 a cgroup that shall have everything, and was never written, stays so. Once written it cannot be so again, the
    kernel refuses that to a cgroup with processes (ENOSPC): then all CPUs are written.
    """
    cgroups = sorted(tree, key=lambda each: each.path)  # parents come first
    known = {each.path: each for each in cgroups}
    found: dict[CgroupPath, CpuSet] = {}
    for each in cgroups:
        match cgroup_level(each.path):
            case CgroupLevel.PODS:
                continue
            case CgroupLevel.CONTAINER:
                found[each.path] = owned.get(each.path[-1], shared)
            case CgroupLevel.NESTED:
                if version is CgroupVersion.V1:
                    found[each.path] = _nested_cpuset(each, known, found)
            case CgroupLevel.QOS | CgroupLevel.POD:
                found[each.path] = shared
    for path in sorted(found, key=len, reverse=True):
        parent = path[:-1]
        if parent in found and cgroup_level(parent) in (CgroupLevel.QOS, CgroupLevel.POD):
            found[parent] |= found[path]
    pods = known.get(())
    if version is CgroupVersion.V2 and pods is not None:
        unwritten = {path for path, cpus in found.items() if cpus >= pods.cpus and not known[path].cpus}
        return {path: NO_CPUS if path in unwritten else cpus for path, cpus in found.items()}
    return found


def order_cpuset_writes(
    tree: Iterable[Cgroup], wanted: Mapping[CgroupPath, CpuSet], *, version: CgroupVersion
) -> Iterator[CpusetWrite]:
    """Yield what to write, in an order that the kernel accepts as long as nobody else writes."""
    now = {each.path: each.cpus for each in tree if each.path in wanted}
    for path in sorted(now):
        cpus = wanted[path]
        if version is CgroupVersion.V1 and not cpus <= now[path]:
            now[path] |= cpus
            yield CpusetWrite(path=path, cpus=now[path])
    for path in sorted(now, reverse=True):
        if now[path] != wanted[path]:
            yield CpusetWrite(path=path, cpus=wanted[path])


def _nested_cpuset(nested: Cgroup, known: Mapping[CgroupPath, Cgroup], found: Mapping[CgroupPath, CpuSet]) -> CpuSet:
    """Return what a container's own cgroup has: what its parent has, unless the container wanted less and still can."""
    parent = nested.path[:-1]
    target = found.get(parent, NO_CPUS)
    if parent in known and nested.cpus == known[parent].cpus:
        return target
    return (nested.cpus & target) or target
