"""The claims of a pod in a scheduling cycle, and what the pod asks of each node."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dra.engine.allocator import ClaimToAllocate, UnsatisfiableError, claim_to_allocate
from dra.engine.devices import node_allocatable
from dra.engine.kube_scheduler.cluster_cache import ClusterCache
from dra.engine.kube_scheduler.extended_resources import (
    ExtendedResourceClaim,
    extended_resource_claim,
    resources_by_devices,
)
from dra.engine.kube_scheduler.node_info import NodeInfo, PodRequests
from dra.engine.kube_scheduler.schedule_results import Pending, Unschedulable
from dra.engine.kube_scheduler.scheduling_queue import ClusterEvent, QueuedPodInfo
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.pods import PodResourceClaim
from dra.model.scheduling import SchedulerPod


class NodeDemand(NamedTuple):
    """The requests of a pod to one node, and the claims that need devices of it."""

    requests: PodRequests
    """Requests to the node itself, without resources that its devices serve."""
    to_allocate: list[tuple[ResourceClaim, ClaimToAllocate]]
    extended: ExtendedResourceClaim | None
    """The claim for extended resources that devices of the node serve."""

    @property
    def claims(self) -> list[ClaimToAllocate]:
        """Return the claims that need devices of the node."""
        return [wanted for _, wanted in self.to_allocate]


@dataclass(slots=True)
class ExtendedResources:
    """Extended resources of a pod that devices serve on nodes which offer none of these themselves."""

    pod: SchedulerPod
    resources: frozenset[str]
    served: Mapping[str, str]
    """Extended resources with the DeviceClasses that serve these."""
    classes: Mapping[str, DeviceClass]
    made: ResourceClaim | None
    """The claim of an earlier attempt, which is used again."""
    _known: dict[frozenset[str], "ExtendedDemand"] = field(default_factory=dict)

    def on_node(self, node_info: NodeInfo, demand: PodRequests) -> "ExtendedDemand":
        """Return what is left to the node, and what its devices have to serve. Raises UnsatisfiableError."""
        resources = self.resources & resources_by_devices(demand.amounts, node_info.capacity, self.served)
        if resources not in self._known:
            self._known[resources] = self._demand(demand, resources)
        return self._known[resources]

    def _demand(self, demand: PodRequests, resources: frozenset[str]) -> "ExtendedDemand":
        extended = extended_resource_claim(self.pod, resources, self.served)
        if not extended.mappings:
            return ExtendedDemand(demand.without(resources), None, None)
        if self.made is not None:
            return ExtendedDemand(demand.without(resources), extended._replace(claim=self.made), None)
        return ExtendedDemand(demand.without(resources), extended, claim_to_allocate(extended.claim, self.classes))


class ExtendedDemand(NamedTuple):
    """The requests of a pod with extended resources to one node."""

    requests: PodRequests
    extended: ExtendedResourceClaim | None
    to_allocate: ClaimToAllocate | None
    """The claim for the allocator, unless it was made before."""


@dataclass(slots=True)
class PodClaims:
    """The claims of a pod, sorted by what is left to do for them."""

    claims: list[ResourceClaim] = field(default_factory=list)
    unallocated: list[tuple[ResourceClaim, ClaimToAllocate]] = field(default_factory=list)
    pinned: list[ResourceClaim] = field(default_factory=list)
    """Claims whose allocation restricts the nodes."""
    not_shareable: str = ""
    """Reason why no node fits: other pods use a claim that only one pod can use."""
    extended: "ExtendedResources | None" = None
    """Extended resources of the pod that devices serve; None if there are none."""

    @property
    def need_devices(self) -> bool:
        """Return whether devices are to be allocated, at least on some nodes."""
        return bool(self.unallocated) or self.extended is not None

    @property
    def may_have_devices(self) -> bool:
        """Return whether the pod has claims, or gets one for its extended resources on some nodes."""
        return bool(self.claims) or self.extended is not None

    def need_empty_claim(self, on_node: NodeDemand) -> bool:
        """Return whether a claim without requests is made on a node: the pod has claims, and the node the resources."""
        return bool(self.claims) and self.extended is not None and on_node.extended is None

    def requests_to(self, node_info: NodeInfo, demand: PodRequests) -> PodRequests:
        """Return the requests of the pod to one node itself. Raises UnsatisfiableError."""
        return demand if self.extended is None else self.extended.on_node(node_info, demand).requests

    def on_node(self, node_info: NodeInfo, demand: PodRequests) -> NodeDemand:
        """Return what the pod asks of one node. Raises UnsatisfiableError."""
        if self.extended is None:
            return NodeDemand(demand, self.unallocated, None)
        served = self.extended.on_node(node_info, demand)
        if served.extended is None or served.to_allocate is None:
            return NodeDemand(served.requests, self.unallocated, served.extended)
        return NodeDemand(
            served.requests, [*self.unallocated, (served.extended.claim, served.to_allocate)], served.extended
        )


def find_pod_claims(entry: QueuedPodInfo, cluster: ClusterCache) -> PodClaims | Unschedulable | Pending:
    """Return the pod's claims, or the result that makes the pod wait for them."""
    claims = PodClaims()
    for reference in entry.pod.spec.resource_claims or ():
        claim = _find_claim(entry.pod, reference, cluster)
        if isinstance(claim, Pending | Unschedulable):
            return claim
        if claim is None or any(known is claim for known in claims.claims):
            continue
        problem = _add_claim(claims, claim, entry, cluster)
        if problem is not None:
            return problem
    return _add_extended_resources(claims, entry, cluster)


def _add_extended_resources(
    claims: PodClaims, entry: QueuedPodInfo, cluster: ClusterCache
) -> PodClaims | Unschedulable | Pending:
    """Add the pod's extended resources that devices serve, with the claim that an earlier attempt made for these."""
    served = cluster.served_resources
    resources = frozenset(r for r, amount in entry.demand.amounts.items() if amount and r in served)
    if not resources:
        return claims
    uid = entry.pod.metadata.uid
    made = next((c for c in cluster.claims if c.generated_for == uid and c.serves_extended_resources), None)
    if made is not None and made.metadata.deleting:
        return Pending(f'resourceclaim "{made.metadata.name}" is being deleted')
    claims.extended = ExtendedResources(entry.pod, resources, served, cluster.classes, made)
    problem = _add_claim(claims, made, entry, cluster) if made is not None else None
    return claims if problem is None else problem


def _find_claim(
    pod: SchedulerPod, reference: PodResourceClaim, cluster: ClusterCache
) -> ResourceClaim | Unschedulable | Pending | None:
    """Return the claim of an entry, None if no claim is needed, or the result that keeps the pod from using it."""
    namespace, name = pod.metadata.namespace, reference.resource_claim_name
    if name is None:
        status = next((s for s in pod.status.resource_claim_statuses or () if s.name == reference.name), None)
        if status is None:
            reason = "waiting for dynamic resource controller to create the resourceclaim for pod"
            return Pending(f'{reason} "{namespace}/{pod.metadata.name}"', ClusterEvent.CLAIM | ClusterEvent.POD)
        name = status.resource_claim_name
        if name is None:
            return None
    claim = cluster.claims.get((namespace, name))
    if claim is None or claim.metadata.deleting:
        return Pending(f'resourceclaim "{name}" {"not found" if claim is None else "is being deleted"}')
    if reference.resource_claim_name is None and claim.generated_for not in {None, pod.metadata.uid}:
        names = f"ResourceClaim {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name}"
        return Unschedulable(f"{names} (pod is not owner)", ClusterEvent.CLAIM | ClusterEvent.POD)
    return claim


def _add_claim(
    claims: PodClaims, claim: ResourceClaim, entry: QueuedPodInfo, cluster: ClusterCache
) -> Unschedulable | Pending | None:
    claims.claims.append(claim)
    allocation = claim.status.allocation
    if allocation is not None:
        if cluster.inventory.has_node_allocatable_devices and node_allocatable.is_reserved_for_another_pod(
            claim, entry.pod, cluster.inventory.device
        ):
            cannot = "has a mapped device and cannot be shared across pods"
            claims.not_shareable = f"node allocatable resource claim {claim.metadata.name} {cannot}"
        if allocation.node_selector is not None:
            claims.pinned.append(claim)
        return None
    if cluster.claims.is_in_flight(claim.metadata.uid):
        return Pending(f'resourceclaim "{claim.metadata.name}" is in the process of being allocated')
    known = entry.claims_to_allocate.get(claim.metadata.uid)
    if known is None or known[0] != cluster.classes_version:
        try:
            known = (cluster.classes_version, claim_to_allocate(claim, cluster.classes))
        except UnsatisfiableError as error:
            return Unschedulable(
                f"0/{len(cluster.nodes)} nodes are available: {error}.", ClusterEvent.DEVICE_CLASS | ClusterEvent.CLAIM
            )
        entry.claims_to_allocate[claim.metadata.uid] = known
    claims.unallocated.append((claim, known[1]))
    return None
