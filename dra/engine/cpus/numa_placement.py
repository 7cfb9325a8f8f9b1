"""The choice of NUMA nodes for a request, by a policy of Koordinator: its topology manager, after the kubelet's.

Without a policy the accumulator alone decides: one NUMA node if the request fits, else whatever is nearest. With a
policy, CPUs come from as few NUMA nodes as possible, and evenly from these: that is how Koordinator divides a request
among the NUMA nodes of a hint, whatever the strategy of the node.

==================  ===================================================================================
`SingleNUMANode`    one NUMA node, or no CPUs
`Restricted`        as few NUMA nodes as a node without pods would need, or no CPUs
`BestEffort`        as few as possible now, and any CPUs where no even division exists
==================  ===================================================================================

Among equally many NUMA nodes the strategy decides, then the number.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from dra.api.parameters.cpu_policies import NumaAllocateStrategy
from dra.engine.cpus.accumulator import eligible_cpus, requires_whole_cores, take_cpus
from dra.engine.cpus.cpu_snapshot import CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.cpus.numa_selection import fewest_numa_nodes, numa_nodes_of_whole_cores
from dra.model.koordinator_classes import NumaTopologyPolicy


def divide_among_numa_nodes(count: int, free: Mapping[int, int], *, step: int = 1) -> dict[int, int] | None:
    """Return how many CPUs each NUMA node gives, as evenly as possible; None if all together have too few.

    NUMA nodes are visited in ascending order of free CPUs. Each gives an equal part of the CPUs that are still missing,
    in multiples of `step`, or all its free CPUs if they are fewer.
    """
    given: dict[int, int] = {}
    for place, node in enumerate(sorted(free, key=lambda numa_node: (free[numa_node], numa_node))):
        rest, others = count - sum(given.values()), len(free) - place
        share = rest // others // step * step
        given[node] = min(share, free[node] // step * step)
    return given if sum(given.values()) == count else None


def take_cpus_by_numa_policy(
    snapshot: CpuSnapshot, request: CpuRequest, policy: NumaTopologyPolicy, *, preferred: CpuSet = NO_CPUS
) -> CpuSet | CpuAllocationFailure:
    """Return CPUs for a request from the NUMA nodes that a policy allows, or the reason why there are none.

    Preferred CPUs come first, all of the request if they suffice, else as many as the chosen NUMA nodes have.
    """
    if policy is NumaTopologyPolicy.NONE:
        return take_cpus(snapshot, request, preferred=preferred)
    limit = _max_numa_nodes(snapshot, request, policy)
    for allowed in (snapshot.within(preferred), snapshot) if preferred else (snapshot,):
        nodes = _fewest_numa_nodes(allowed, request, limit=limit)
        if nodes and (chosen := _take_evenly(allowed, request, nodes, preferred=preferred)) is not None:
            return chosen
    anywhere = take_cpus(snapshot, request, preferred=preferred)
    if policy is NumaTopologyPolicy.BEST_EFFORT or isinstance(anywhere, CpuAllocationFailure):
        return anywhere
    free = {node: len(cpus) for node, cpus in _eligible(snapshot, request).items()}
    listed = ", ".join(f"{number} of NUMA node {node}" for node, number in sorted(free.items()))
    detail = f"{request.count} CPUs wanted by {policy}, free: {listed}"
    return CpuAllocationFailure(reason=CpuFailureReason.INSUFFICIENT_NUMA_CPUS, detail=detail)


def _max_numa_nodes(snapshot: CpuSnapshot, request: CpuRequest, policy: NumaTopologyPolicy) -> int:
    """Return the greatest number of NUMA nodes that a policy allows."""
    if policy is NumaTopologyPolicy.SINGLE_NUMA_NODE:
        return 1
    sizes = [len(cpus & snapshot.allocatable) for cpus in snapshot.topology.numa_nodes.values()]
    if policy is NumaTopologyPolicy.BEST_EFFORT:
        return len(sizes)
    sizes.sort(reverse=True)
    return next((number for number in range(1, len(sizes)) if sum(sizes[:number]) >= request.count), len(sizes))


def _fewest_numa_nodes(snapshot: CpuSnapshot, request: CpuRequest, *, limit: int) -> tuple[int, ...] | None:
    """Return the NUMA nodes that divide a request, at most `limit`; None if there are none."""
    topology, eligible = snapshot.topology, _eligible(snapshot, request)
    fullest_first = request.strategy is NumaAllocateStrategy.MOST_ALLOCATED
    if requires_whole_cores(request) and not topology.has_equal_cores:
        sizes = {node: topology.core_sizes(cpus) for node, cpus in eligible.items()}
        step = topology.whole_core_step
        return numa_nodes_of_whole_cores(request.count, sizes, step=step, fullest_first=fullest_first, limit=limit)
    free = {node: len(cpus) for node, cpus in eligible.items()}
    nodes = fewest_numa_nodes(request.count, free, fullest_first=fullest_first)
    return nodes if nodes is not None and len(nodes) <= limit else None


def _take_evenly(
    snapshot: CpuSnapshot, request: CpuRequest, nodes: tuple[int, ...], *, preferred: CpuSet
) -> CpuSet | None:
    """Return CPUs that NUMA nodes give evenly; None if the policies of the request do not allow that."""
    eligible = _eligible(snapshot, request)
    step = snapshot.topology.whole_core_step if requires_whole_cores(request) else 1
    division = divide_among_numa_nodes(request.count, {node: len(eligible[node]) for node in nodes}, step=step)
    if division is None:
        return None
    chosen: list[int] = []
    for node, count in division.items():
        within = snapshot.within(snapshot.topology.numa_nodes[node])
        part = take_cpus(within, replace(request, count=count), preferred=preferred)
        if isinstance(part, CpuAllocationFailure):
            return None
        chosen += part
    return CpuSet(chosen)


def _eligible(snapshot: CpuSnapshot, request: CpuRequest) -> dict[int, CpuSet]:
    """Return the CPUs of each NUMA node that the request may take."""
    eligible = eligible_cpus(snapshot, request)
    return {node: cpus & eligible for node, cpus in snapshot.topology.numa_nodes.items()}
