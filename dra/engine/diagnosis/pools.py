"""Pools whose devices cannot be allocated, with the reason: slices are missing, or contradict each other.

kube-scheduler skips such a pool without a word to the pod's owner. A driver that updates a pool makes it incomplete for
a moment; one that died between two slices, or counts them wrong, for good.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from dra.engine.allocator.resource_slice_tracker import Pool, PoolID, PoolState, has_compatibility_groups
from dra.engine.claims.reasons import list_names
from dra.engine.devices.ledger import DeviceID
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, pool_problem
from dra.model.slices import ResourceSlice


def pool_state(cluster: ClusterState, item: DeviceID) -> PoolState:
    """Return the state of the pool of a device; complete if no slice of the pool exists."""
    pool = cluster.inventory.pool((item.driver, item.pool))
    return PoolState.COMPLETE if pool is None else pool.state


def pool_fault(pool: Pool) -> str:
    """Return why the devices of a pool cannot be allocated; empty if they can be."""
    if pool.state is PoolState.COMPLETE:
        return ""
    slices = pool.newest_slices()
    generation = max((spec.pool.generation for spec, _ in slices), default=0)
    wanted = sorted({spec.pool.resource_slice_count for spec, _ in slices})
    if len(wanted) > 1:
        return f"its slices disagree on their number ({', '.join(map(str, wanted))})"
    if pool.state is PoolState.INCOMPLETE and wanted != [len(slices)]:
        return f"{len(slices)} of {wanted[0] if wanted else 0} slices of generation {generation} exist"
    if any(has_compatibility_groups(candidate.device) for candidate in pool.candidates):
        return "its devices have compatibility groups, which are not supported"
    return "; ".join(_contradictions(pool))


def _contradictions(pool: Pool) -> Iterator[str]:
    """Yield what makes a pool invalid."""
    devices = Counter(candidate.item.device for candidate in pool.candidates)
    if twice := [name for name, count in devices.items() if count > 1]:
        yield f"it has several devices of one name: {list_names(twice)}"
    sets = Counter(counters["name"] for spec, _ in pool.newest_slices() for counters in spec.shared_counters or ())
    if twice := [name for name, count in sets.items() if count > 1]:
        yield f"it has several counter sets of one name: {list_names(twice)}"
    consumed = {counter for candidate in pool.candidates for counter in candidate.consumed_counters}
    if unknown := sorted(consumed - pool.counters.keys()):
        yield f"its devices consume counters that it lacks: {list_names('/'.join(names) for names in unknown)}"


def problems(cluster: ClusterState) -> Iterator[Problem]:
    """Yield each pool whose devices cannot be allocated."""
    faults = [(pool, fault) for pool in cluster.inventory.pools() if (fault := pool_fault(pool))]
    created = _creation_times(cluster.snapshot.slices) if faults else {}
    for pool, fault in faults:
        driver, name = pool.key
        incomplete = pool.state is PoolState.INCOMPLETE
        node = next((spec.node_name for spec, _ in pool.newest_slices() if spec.node_name), "")
        yield pool_problem(
            ProblemCode.POOL_INCOMPLETE if incomplete else ProblemCode.POOL_INVALID,
            driver=driver,
            pool=name,
            cause=fault,
            devices=len(pool.candidates),
            since=created.get(pool.key, "an unknown time"),
            where=f" on node {node}" if node else "",
        )


def _creation_times(slices: Iterable[ResourceSlice]) -> dict[PoolID, str]:
    """Return when the newest slice of each pool was created: since then at the latest, its driver has not added one."""
    newest: dict[PoolID, str] = {}
    for resource_slice in slices:
        key = (resource_slice.spec.driver, resource_slice.spec.pool.name)
        created = resource_slice.metadata.creation_timestamp
        if created:
            newest[key] = max(newest.get(key, ""), created)
    return newest
