"""Reconciliation of cpusets: one reading of all cgroups of pods, and the writes that bring them to the demand.

The order of reading matters, since hooks and the kubelet work at the same time. Owner records are read first, cgroups
second: a container with a record, but no cgroup after that, is gone. A container whose hook runs in between is seen
without its record and would get the shared pool in place of its own CPUs. Reading all cgroups takes milliseconds, as
long as a container waits between its hook and its first instruction. So the records are checked again before each
write: if there are new ones, writing stops and the whole reconciliation is repeated at once. This leaves the
microseconds between that check and the write; a check after the last write finds the containers that they affected.

A record has the name of a container's cgroup. Where that does not name one container, no container gets the CPUs: they
stay reserved, and the result says why. Earlier builds named records after the last part of the path of a process's
cgroup, which is not the container's where a runtime puts processes into a cgroup below it: all containers of crun with
systemd had the record ``container``.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.model.meta import Struct
from kubeletplugin.cgroups import cgroup_names
from kubeletplugin.cgroups.cpu_hotplug import OfflineCpuTracker
from kubeletplugin.cgroups.cpuset_plan import Cgroup, CgroupVersion, order_cpuset_writes, plan_cpusets
from kubeletplugin.cgroups.hierarchy import CgroupHierarchy
from kubeletplugin.drivers.cpu.cpuset_store import CpusetDemand, CpusetStore

log = logging.getLogger(__name__)


class ReconcileResult(Struct, frozen=True):
    """The result of one reconciliation."""

    written: tuple[cgroup_names.CgroupPath, ...] = ()
    """Cgroups whose CPUs were changed."""
    refused: tuple[str, ...] = ()
    """Writes that the kernel refused because of a concurrent writer; a repetition usually succeeds."""
    unclear: tuple[str, ...] = ()
    """Owner records that do not tell whose they are: these containers run on the shared pool."""
    late: bool = False
    """Whether a container got an owner record during the reconciliation."""
    demand: CpusetDemand | None = None
    """The demand to which the cgroups were brought."""
    cost: float = 0.0
    """CPU seconds of the reconciliation."""

    @property
    def again(self) -> bool:
        """Whether another reconciliation is necessary at once."""
        return bool(self.refused) or self.late


class NoSharedCpuError(Exception):
    """No CPU would be left for containers that own none."""


def reconcile(
    hierarchy: CgroupHierarchy,
    store: CpusetStore,
    *,
    entered: Callable[[str], None] = lambda _: None,
    offline_cpus: OfflineCpuTracker | None = None,
) -> ReconcileResult:
    """Bring all cgroups to the demand, as far as the kernel permits. Raises OSError, NoSharedCpuError."""
    started = time.thread_time()
    demand = store.demand()
    if demand is None:
        return ReconcileResult()
    owners = store.owners()
    tree = hierarchy.read(entered)
    if not tree:
        return ReconcileResult(demand=demand, cost=time.thread_time() - started)
    if hierarchy.version is CgroupVersion.V1:
        tracker = offline_cpus or OfflineCpuTracker()
        tree = _restore_online_cpus(hierarchy, demand, tree, tracker)
        store.put_lost_cpus(tracker.lost - tree[0].cpus)
    machine = tree[0].cpus
    pools = demand.pools(machine)
    if not pools.shared:
        raise NoSharedCpuError(
            f"cgroup {hierarchy.pods}: claims hold all its CPUs ({machine}), so that other containers cannot run; "
            "reserve some with --reserved-cpus"
        )
    places = _places_of_owners(owners, tree)
    unclear = _find_unclear_records(owners, places, demand)
    owned = {
        name: cpus
        for name, requests in owners.items()
        if name not in unclear
        and (cpus := _union(demand.requests.get(request, NO_CPUS) for request in requests) & machine)
    }
    wanted = plan_cpusets(
        tree, version=hierarchy.version, shared=pools.shared, owned=owned, best_effort=pools.best_effort
    )
    new_owners = _NewOwnerCheck(store, owners, places)
    written, refused = _apply_writes(hierarchy, tree, wanted, stop=new_owners)
    living = {name for name, paths in places.items() if any(map(_is_container, paths))}
    for name in owners.keys() - living - unclear.keys():
        store.forget(name)
    late = new_owners.seen_any or (bool(written) and new_owners(()))
    return ReconcileResult(
        written=written,
        refused=refused,
        unclear=tuple(unclear.values()),
        late=late,
        demand=demand,
        cost=time.thread_time() - started,
    )


def _places_of_owners(
    owners: Mapping[str, frozenset[str]], tree: Iterable[Cgroup]
) -> dict[str, list[cgroup_names.CgroupPath]]:
    """Return the cgroups that have the name of an owner record, at any level, by name."""
    places: dict[str, list[cgroup_names.CgroupPath]] = {}
    for path in (cgroup.path for cgroup in tree if cgroup.path and cgroup.path[-1] in owners):
        places.setdefault(path[-1], []).append(path)
    return places


def _find_unclear_records(
    owners: Mapping[str, frozenset[str]],
    places: Mapping[str, list[cgroup_names.CgroupPath]],
    demand: CpusetDemand,
) -> dict[str, str]:
    """Return the records of prepared requests that do not name one container, each with the problem."""
    problems = {}
    for name, paths in sorted(places.items()):
        prepared = owners[name] & demand.requests.keys()
        if not prepared or sum(map(_is_container, paths)) == 1:
            continue
        claims = ", ".join(sorted({owner.partition(".")[0] for owner in prepared}))
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        problems[name] = (
            f"claims with uids {claims}: a record says that their CPUs belong to the cgroup {name}, but not of which "
            f"container it is ({'/'.join(paths[0])}{more}); earlier builds recorded that. The CPUs stay reserved, and "
            "these containers run on the shared pool; delete the pods of the claims, so that new containers are "
            "recorded"
        )
    return problems


def _is_container(path: cgroup_names.CgroupPath) -> bool:
    return cgroup_names.cgroup_level(path) is cgroup_names.CgroupLevel.CONTAINER


def widen_pod_cgroups(hierarchy: CgroupHierarchy) -> None:
    """Widen the cgroups of QoS classes and pods to all CPUs of the cgroup of all pods. Raises OSError.

    Containers keep their CPUs.
    """
    tree = hierarchy.read()
    for cgroup in sorted(tree, key=lambda cgroup: cgroup.path):  # parents first
        bound = cgroup.cpus or hierarchy.version is CgroupVersion.V1
        if (
            cgroup_names.cgroup_level(cgroup.path) in (cgroup_names.CgroupLevel.QOS, cgroup_names.CgroupLevel.POD)
            and bound
            and cgroup.cpus != tree[0].cpus
        ):
            hierarchy.write(cgroup.path, tree[0].cpus)


def _restore_online_cpus(
    hierarchy: CgroupHierarchy, demand: CpusetDemand, tree: tuple[Cgroup, ...], offline_cpus: OfflineCpuTracker
) -> tuple[Cgroup, ...]:
    """Restore to the pods the CPUs lost while offline, and all online CPUs of claims in any case."""
    pods, online = tree[0].cpus, hierarchy.online()
    back = (offline_cpus.update(pods, online=online) | (_union(demand.requests.values()) & online)) - pods
    if not back:
        return tree
    hierarchy.widen(back)
    if offline_cpus.is_first(back):
        log.warning("cgroup %s: CPUs %s were offline, or removed; restored to the pods", hierarchy.pods, back)
    return (replace(tree[0], cpus=pods | back), *tree[1:])


class _NewOwnerCheck:
    """The check for owners that hooks have recorded since the records were read.

    Considers new containers, and the known containers at or below a cgroup.
    """

    def __init__(
        self,
        store: CpusetStore,
        owners: Mapping[str, frozenset[str]],
        places: Mapping[str, list[cgroup_names.CgroupPath]],
    ) -> None:
        self.seen_any = False
        self._store = store
        self._owners = owners
        self._below: dict[cgroup_names.CgroupPath, set[str]] = {}
        for name, path in ((name, path) for name, paths in places.items() for path in paths):
            for length in range(len(path) + 1):
                self._below.setdefault(path[:length], set()).add(name)

    def __call__(self, path: cgroup_names.CgroupPath) -> bool:
        self.seen_any |= self._store.has_new_owners(self._owners, look_into=self._below.get(path, ()))
        return self.seen_any


def _apply_writes(
    hierarchy: CgroupHierarchy,
    tree: Iterable[Cgroup],
    wanted: Mapping[cgroup_names.CgroupPath, CpuSet],
    *,
    stop: Callable[[cgroup_names.CgroupPath], bool],
) -> tuple[tuple[cgroup_names.CgroupPath, ...], tuple[str, ...]]:
    written, refused = [], []
    for write in order_cpuset_writes(tree, wanted, version=hierarchy.version):
        if stop(write.path):
            break
        try:
            if hierarchy.write(write.path, write.cpus):
                written.append(write.path)
        except OSError as error:
            refused.append(f"cgroup {hierarchy.file(write.path)}: CPUs {write.cpus}: {error.strerror}")
    return tuple(written), tuple(refused)


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    return CpuSet(cpu for cpus in sets for cpu in cpus)
