"""The split of a request over given NUMA nodes.

If the nodes are given (a topology manager's hint), the request is spread over them as evenly as the available CPUs
allow, whatever the strategy says. Each node's share is the remaining amount divided by the number of remaining nodes.
Nodes with the least available come first, so that later nodes take over what they cannot provide. The whole amount is
assigned whenever enough is available.

Koordinator has a bug here: it sorts the nodes by their position in the hint instead of the node. This module uses the
node.
"""

from collections.abc import Collection, Mapping

from dra.engine.cpus.accumulator import eligible_cpus, satisfies_required_policy, take_cpus
from dra.engine.cpus.bind_policies import CpuAllocationFailure, CpuBindPolicy, CpuFailureReason
from dra.engine.cpus.cpu_snapshot import CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet


def split_over_numa_nodes(
    amount: int, *, available: Mapping[int, int], nodes: Collection[int], resource: str = "cpu", step: int = 1
) -> dict[int, int] | CpuAllocationFailure:
    """Return NUMA node → share of an amount, in multiples of `step`; or a failure if the amount does not fit.

    Amounts are whole CPUs for bound requests, thousandths for others, bytes for memory, and so on.
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
    """Return CPUs for a request, whose shares are chosen on each of the given NUMA nodes separately."""
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
