"""Where a pod could run: the nodes that there are, and the devices on them that no claim has."""

from collections.abc import Container
from typing import TYPE_CHECKING

from dra.model import nodes
from dra.model.claims import ResourceClaim
from dra.model.pods import Pod, claim_names
from tests.simulation.safety import FOREIGN

if TYPE_CHECKING:
    from tests.simulation.simulated_cluster import SimulatedSystem


def suitable_nodes(system: "SimulatedSystem", pod: Pod) -> tuple[set[str], int] | None:
    """Return the nodes that could take a pod, and how many devices its claims still want; None if nobody can tell.

    The empty name is a node that an autoscaler would add.
    """
    found, wanted = {*system.node_names(), ""}, 0
    for name in claim_names(pod):
        claim = system.safety.claims.get((pod.metadata.namespace, name))
        if claim is None or claim.metadata.deleting:
            return None
        if claim.status.allocation is None:
            wanted += 1
        elif _is_on_deleted_nodes(claim, system.safety.nodes):  # to be freed: an autoscaler adds no node before
            if any(entry.api_group == FOREIGN for entry in claim.entries):
                return None
            wanted += 1
        else:
            found = {node for node in found if node and _is_inside(system, claim, node)}
    return {node for node in found if _has_devices(system, node, wanted)}, wanted


def free_devices(system: "SimulatedSystem", node: str) -> int:
    """Return how many devices that a node reaches are allocated to no claim."""
    allocations = (record.allocation for record in system.safety.allocations.values())
    pools = [result.pool for allocation in allocations for result in allocation.devices.results or ()]
    reached = sum(node in reached_from and device not in pools for device, reached_from in system.initial_state.devices)
    if system.autoscaler is None or node not in system.autoscaler.present():
        return reached
    return reached + system.autoscaler.group.devices - pools.count(node)


def _has_devices(system: "SimulatedSystem", node: str, wanted: int) -> bool:
    if not node:
        return system.autoscaler is not None and system.autoscaler.could_add_node_for(wanted)
    return free_devices(system, node) >= wanted


def _is_inside(system: "SimulatedSystem", claim: ResourceClaim, name: str) -> bool:
    allocation, node = claim.status.allocation, system.safety.nodes.get(name)
    labels = node.metadata.labels if node is not None else None
    return allocation is not None and nodes.matches_node_selector(allocation.node_selector, name=name, labels=labels)


def _is_on_deleted_nodes(claim: ResourceClaim, existing: Container[str]) -> bool:
    """Whether a claim is allocated to nodes that are named, and none of them is there."""
    selector = claim.status.allocation.node_selector if claim.status.allocation is not None else None
    names = nodes.selected_node_names(selector) if selector is not None else None
    return bool(names) and not any(name in existing for name in names or ())
