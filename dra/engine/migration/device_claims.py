"""The devices of a pod, as far as they prevent its migration.

The template of the Reservation has the pod's ``resourceClaims``. Claims from templates are generated and allocated for
the Reservation, on the new node, and handed over to the replacement. A claim by name exists once: where its allocation
is bound to the old node, no other node can run the replacement. Claims of a PodGroup, and those that the scheduler
creates for extended resources, are never held by a Reservation.

A Reservation may be Available a moment before its claims are held: its own entry in ``reservedFor`` follows the binding
of its placeholder, and if that binding fails, nothing keeps an allocation in between. So the claims are read live
before the eviction.
"""

from collections.abc import Iterable

from dra.api.reservations.model import GROUP, PLURAL
from dra.engine.migration.view import ClaimReach, MigrationPod
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import Node, NodeSelector, matches_node_selector, selected_node_names
from dra.model.pods import Pod


def named_claims(pod: Pod) -> tuple[Key, ...]:
    """Return namespace and name of each claim that a pod names; claims from templates are no part of the result."""
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims or ()]
    return tuple((pod.metadata.namespace, name) for name in names if name)


def claim_reach(
    key: Key, claim: ResourceClaim | None, *, pod_node: str, nodes: Iterable[Node] | None = None
) -> ClaimReach:
    """Return which nodes can use a claim that a pod names; `claim` is None if the claim does not exist.

    `pod_node` is the node of the pod, empty for a pod that waits for one. If `nodes` is None, the nodes of the cluster
    are unknown: then each node counts that the allocation selects by name, and a selector of labels reaches any node.
    """
    if claim is None:
        return ClaimReach(key=key, exists=False)
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation is not None else None
    names = _selected_names(selector, nodes=nodes) if selector is not None else None
    if names is None:
        return ClaimReach(key=key)
    pinned = next(iter(names)) if len(names) == 1 else ""
    return ClaimReach(key=key, pinned_node=pinned, other_nodes=bool(names - {pod_node}))


def _selected_names(selector: NodeSelector, *, nodes: Iterable[Node] | None) -> frozenset[str] | None:
    """Return the names of the selected nodes; None if they are unknown."""
    if nodes is None:
        return selected_node_names(selector)
    metadata = (node.metadata for node in nodes)
    return frozenset(
        node.name for node in metadata if matches_node_selector(selector, name=node.name, labels=node.labels)
    )


def has_template_claims(pod: MigrationPod) -> bool:
    """Return whether a pod has claims that are generated from templates."""
    return any(entry.resource_claim_template_name for entry in pod.spec.resource_claims or ())


def unheld_devices(pod: MigrationPod, claims: Iterable[ResourceClaim], *, reservation: Uid) -> str:
    """Return what lacks until a Reservation holds the devices of a pod's replacement; empty if all are held."""
    wanted = sum(bool(entry.resource_claim_template_name) for entry in pod.spec.resource_claims or ())
    held = sum(_is_held(claim, reservation) for claim in claims)
    return "" if held >= wanted else f"the Reservation holds {held} of {wanted} claims"


def _is_held(claim: ResourceClaim, reservation: Uid) -> bool:
    owned = any(owner.uid == reservation for owner in claim.metadata.owner_references or ())
    listed = any(
        (entry.api_group, entry.resource, entry.uid) == (GROUP, PLURAL, reservation)
        for entry in claim.status.reserved_for or ()
    )
    return owned and listed and claim.status.allocation is not None


def claims_refusal(pod: MigrationPod, claims: tuple[ClaimReach, ...]) -> str:
    """Return why the devices of a pod prevent its migration, and what to do; empty if they do not."""
    name = f"pod {'/'.join(pod.metadata.key)}"
    if (extended := pod.status.extended_resource_claim_status) is not None:
        return (
            f"{name}: uses devices as extended resources (claim {extended.resource_claim_name}), which no Reservation "
            "holds; let its workload request the devices by a ResourceClaimTemplate"
        )
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name and pod.spec.resource_claims:
        return (
            f"{name}: its claims belong to PodGroup {group.pod_group_name}, and no Reservation holds the claims of a "
            "group; migrate the group as a whole, by its workload"
        )
    for claim in claims:
        if not claim.exists:
            return f"{name}: claim {'/'.join(claim.key)} does not exist; create the claim, or delete the pod"
        if not claim.other_nodes:
            where = f" on node {claim.pinned_node}" if claim.pinned_node else ""
            return (
                f"{name}: claim {'/'.join(claim.key)} is allocated{where}, and no other node can use its devices; "
                "let the workload request devices by a ResourceClaimTemplate, or end all pods of the claim first"
            )
    return ""
