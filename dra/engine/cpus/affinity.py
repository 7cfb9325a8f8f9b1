"""A request over given NUMA nodes: how much of it comes from each.

Where the nodes are given (a topology manager's hint), the request is spread over them as evenly as what is available
allows, whatever the strategy says: each node's share is what is still wanted, divided by the nodes still to come, and
those that have least come first, so that what they cannot give rolls on. Everything is given whenever there is enough.

Koordinator sorts the nodes by their place in the hint where it means the node (specs/koordinator.md C.4, [BUG]); here
it is the node.
"""

from collections.abc import Collection, Mapping

from dra.engine.cpus.accumulator import eligible_cpus, satisfies_required_policy, take_cpus
from dra.engine.cpus.bind_policies import CpuAllocationFailure, CpuBindPolicy, CpuFailureReason
from dra.engine.cpus.cpu_snapshot import CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet


def split_over_numa_nodes(
    amount: int, *, available: Mapping[int, int], nodes: Collection[int], resource: str = "cpu", step: int = 1
) -> dict[int, int] | CpuAllocationFailure:
    """Return NUMA node → its share of an amount, in multiples of the step; or that it does not fit.

    Amounts are whole CPUs for those that are bound, thousandths for those that are not, bytes of memory, and so on.
    """
    if missing := sorted(set(nodes) - available.keys()):
        return CpuAllocationFailure(
            reason=CpuFailureReason.NO_NUMA_INVENTORY, detail=f"nothing is known of NUMA nodes {missing}"
        )
    shares: dict[int, int] = {}
    rest = amount
    ordered = sorted(nodes, key=lambda node: (available[node], node))
    for index, node in enumerate(ordered):
        fair = rest // (len(ordered) - index)
        shares[node] = min(fair, available[node]) // step * step
        rest -= shares[node]
    if rest:
        return CpuAllocationFailure(
            reason=CpuFailureReason.NUMA_SHORTAGE,
            subject=resource,
            detail=f"{amount} wanted, {amount - rest} available on NUMA nodes {sorted(nodes)}",
        )
    return shares


def take_cpus_on_numa_nodes(
    room: CpuSnapshot, request: CpuRequest, *, nodes: Collection[int], preferred: CpuSet = NO_CPUS
) -> CpuSet | CpuAllocationFailure:
    """Return CPUs for a request, its shares on the given NUMA nodes chosen one by one."""
    usable = eligible_cpus(room, request, preferred=preferred)
    whole = request.required and request.policy is CpuBindPolicy.FULL_PCPUS
    step = room.topology.whole_core_step if whole else 1
    if request.count % step:
        return CpuAllocationFailure(
            reason=CpuFailureReason.NOT_WHOLE_CORES, detail=f"{request.count} CPUs, {step} per core"
        )
    counts = {node: len(cpus & usable) for node, cpus in room.topology.nodes.items()}
    shares = split_over_numa_nodes(request.count, available=counts, nodes=nodes, step=step)
    if isinstance(shares, CpuAllocationFailure):
        return shares
    chosen = NO_CPUS
    for node, share in shares.items():
        part = room.within(room.topology.nodes[node])
        given = take_cpus(part, request.of(share), preferred=preferred)
        if isinstance(given, CpuAllocationFailure):
            return given
        chosen |= given
    if not satisfies_required_policy(room, request, chosen):
        return CpuAllocationFailure(reason=CpuFailureReason.POLICY_UNSATISFIED, subject=request.policy)
    return chosen
