"""Plans of cpusets: decide the CPUs of each cgroup, and the order of writes that the kernel accepts.

Containers that own CPUs get exactly these CPUs, all other containers the shared pool; those of pods with the QoS class
BestEffort, which the kubelet's cgroups show, have a pool of their own: with the CPUs that owners share with this class,
or with fewer CPUs while the class is held back. A cgroup above a
container must have the CPUs of every container in it, and always has its pool. So a container that is created there has
the pool from its first instruction, even before a reconciliation: in v1 it copies its parent's CPUs, in v2 its parent's
CPUs bound it.

The cgroup of all pods is never written here. The kubelet owns it, and it defines the available CPUs (but see
`cpu_hotplug`).

At each single write, cgroup v1 refuses a child with more CPUs than its parent (EACCES) and a parent with fewer CPUs
than its children (EBUSY). So all cgroups are first *widened* from the top to the union of their present and their
wanted CPUs, and then *narrowed* from the bottom. v2 accepts any order, and bounds a child by its parents; an empty
cpuset means the parent's CPUs there. v2 bounds the cgroups that containers create for themselves; in v1 these follow
their container, and a partition of their own is kept as long as it lies within the container's CPUs.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.model.meta import Struct
from kubeletplugin.cgroups.cgroup_names import CgroupLevel, CgroupPath, cgroup_level, is_best_effort


class CgroupVersion(IntEnum):
    """The version of the kernel's cgroup interface."""

    V1 = 1
    V2 = 2


class Cgroup(Struct, frozen=True):
    """A cgroup with its present cpuset."""

    path: CgroupPath
    cpus: CpuSet
    """CPUs of the cpuset; empty if the cgroup has its parent's CPUs (v2) or was just created (v1)."""


class CpusetWrite(Struct, frozen=True):
    """A write of CPUs to a cgroup's cpuset."""

    path: CgroupPath
    cpus: CpuSet


def plan_cpusets(
    tree: Iterable[Cgroup],
    *,
    version: CgroupVersion,
    shared: CpuSet,
    owned: Mapping[str, CpuSet],
    best_effort: CpuSet | None = None,
) -> dict[CgroupPath, CpuSet]:
    """Return the wanted CPUs of each cgroup; `owned` maps the names of containers' cgroups to the CPUs they own.

    `best_effort` are the CPUs of containers of the class BestEffort; without it they have the `shared` ones.

    In v2, a cgroup that is to have all CPUs and has an empty cpuset keeps the empty cpuset. Once written, a cpuset
    cannot be emptied again: the kernel refuses that for a cgroup with processes (ENOSPC). Then all CPUs are written.
    """
    cgroups = sorted(tree, key=lambda cgroup: cgroup.path)  # parents come first
    known = {cgroup.path: cgroup for cgroup in cgroups}
    planned: dict[CgroupPath, CpuSet] = {}
    for cgroup in cgroups:
        pool = best_effort if best_effort is not None and is_best_effort(cgroup.path) else shared
        match cgroup_level(cgroup.path):
            case CgroupLevel.PODS:
                continue
            case CgroupLevel.CONTAINER:
                planned[cgroup.path] = owned.get(cgroup.path[-1], pool)
            case CgroupLevel.NESTED:
                if version is CgroupVersion.V1:
                    planned[cgroup.path] = _nested_cpuset(cgroup, known, planned)
            case CgroupLevel.QOS | CgroupLevel.POD:
                planned[cgroup.path] = pool
    # From the leaves up: a parent needs every CPU of its children. In v1 the kernel refuses a smaller parent, in v2 it
    # silently takes the CPUs from the children.
    for path in sorted(planned, key=len, reverse=True):
        parent = path[:-1]
        if parent in planned and cgroup_level(parent) in (CgroupLevel.QOS, CgroupLevel.POD):
            planned[parent] |= planned[path]
    pods = known.get(())
    if version is CgroupVersion.V2 and pods is not None:
        unwritten = {path for path, cpus in planned.items() if cpus >= pods.cpus and not known[path].cpus}
        return {path: NO_CPUS if path in unwritten else cpus for path, cpus in planned.items()}
    return planned


def order_cpuset_writes(
    tree: Iterable[Cgroup], wanted: Mapping[CgroupPath, CpuSet], *, version: CgroupVersion
) -> Iterator[CpusetWrite]:
    """Yield the writes in an order that the kernel accepts, as long as no other process writes."""
    now = {cgroup.path: cgroup.cpus for cgroup in tree if cgroup.path in wanted}
    for path in sorted(now):
        cpus = wanted[path]
        if version is CgroupVersion.V1 and not cpus <= now[path]:
            now[path] |= cpus
            yield CpusetWrite(path=path, cpus=now[path])
    for path in sorted(now, reverse=True):
        if now[path] != wanted[path]:
            yield CpusetWrite(path=path, cpus=wanted[path])


def _nested_cpuset(nested: Cgroup, known: Mapping[CgroupPath, Cgroup], planned: Mapping[CgroupPath, CpuSet]) -> CpuSet:
    """Return the CPUs of a cgroup within a container: its parent's, or the fewer CPUs that the container chose.

    The container's choice counts as long as at least one of the chosen CPUs is left.
    """
    parent = nested.path[:-1]
    target = planned.get(parent, NO_CPUS)
    if parent in known and nested.cpus == known[parent].cpus:
        return target
    return (nested.cpus & target) or target
