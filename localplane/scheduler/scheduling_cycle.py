"""The scheduling cycle of one pod: chooses a node and devices for its claims, or the events to wait for.

Nothing is written or assumed here. The order is that of upstream's plugins: claims (do they exist, and may the pod
use them?), nodes (cordons, taints, affinity, free resources), then devices on the remaining nodes, the best node first.

An extender filters all nodes with enough free resources, not only the first ones: capacity that is held on a node that
was left out would not be found.

A fatal failure of the allocator (`AllocationFailure.fatal`) ends the cycle, whatever other nodes offer: kube-scheduler
looks for devices on every node that its other filters pass. No pod is preempted, and no claim is deallocated, then.

KEP rule 7: an allocation that no suitable node can use is removed (`Deallocation`) only if no other pod can use it:
``reservedFor`` is empty or lists only this pod. An entry that is not a pod stands for users that cannot be counted.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from dra.engine.allocator import (
    AllocationFailure,
    ClaimToAllocate,
    UnsatisfiableError,
    allocation_results,
    claim_to_allocate,
)
from dra.engine.devices import node_allocatable
from dra.engine.devices.node_allocatable import UnaccountableError
from dra.engine.scheduling.node_info import (
    NodeInfo,
    insufficient_resources,
    insufficient_with_claims,
    least_allocated_score,
    unresolvable_reason,
)
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.nodes import matches_node_selector
from dra.model.pods import PodResourceClaim
from dra.model.scheduling import NodeAllocatableClaimStatus, SchedulerPod
from localplane.scheduler.cluster_cache import ClusterCache
from localplane.scheduler.scheduler_extender import FilterExtender
from localplane.scheduler.scheduling_queue import ClusterEvent, QueuedPodInfo

MIN_FEASIBLE_NODES: Final = 100
"""Number of feasible nodes to choose among: looking at more nodes costs more than it gains.

Upstream has the same minimum, and looks at a fraction of large clusters. The start of the search moves on with each
pod.
"""

_CLAIM_NOT_ON_NODE: Final = "resourceclaim not available on the node"


@dataclass(frozen=True, slots=True)
class NodeAssignment:
    """The node chosen for a pod; `claims` are all of its claims, each with its allocation if that is new."""

    node: str
    claims: tuple[tuple[ResourceClaim, AllocationResult | None], ...] = ()
    node_allocatable_statuses: tuple[NodeAllocatableClaimStatus, ...] = ()
    """Resources of the node itself that the pod gets through its claims (DRANodeAllocatableResources)."""

    def assigned_pod(self, pod: SchedulerPod) -> SchedulerPod:
        """Return the assigned pod, with the resources that it gets through its claims."""
        return (
            node_allocatable.with_node_allocatable_statuses(pod, list(self.node_allocatable_statuses))
            if self.node_allocatable_statuses
            else pod
        )


@dataclass(frozen=True, slots=True)
class Deallocation:
    """The removal of an allocation that no other pod uses and that keeps the pod from every node."""

    claim: ResourceClaim
    message: str


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """The result for a pod that fits on no node until one of the `events` happens."""

    message: str
    events: ClusterEvent


@dataclass(frozen=True, slots=True)
class SchedulerError:
    """The result for a pod whose cycle ended with an error; kube-scheduler tries such a pod again after a while."""

    message: str


@dataclass(frozen=True, slots=True)
class Pending:
    """The result for a pod that waits for work under way; users need no report."""

    reason: str
    events: ClusterEvent = ClusterEvent.CLAIM


_NodeScore: TypeAlias = tuple[float, float, NodeInfo]
"""Score of a node, with a random number that breaks ties."""

ScheduleResult: TypeAlias = NodeAssignment | Deallocation | Unschedulable | SchedulerError | Pending


@dataclass(slots=True)
class PodClaims:
    """The claims of a pod, sorted by what is left to do for them."""

    claims: list[ResourceClaim] = field(default_factory=list)
    unallocated: list[tuple[ResourceClaim, ClaimToAllocate]] = field(default_factory=list)
    pinned: list[ResourceClaim] = field(default_factory=list)
    """Claims whose allocation restricts the nodes."""
    not_shareable: str = ""
    """Reason why no node fits: other pods use a claim that only one pod can use."""


def decide(
    entry: QueuedPodInfo,
    cluster: ClusterCache,
    *,
    start_index: int,
    random: Random,
    extender: FilterExtender | None = None,
) -> ScheduleResult:
    """Decide about one pod; the search for nodes begins at node number `start_index`."""
    pod = entry.pod
    if pod.spec.scheduling_gates:
        return Pending("has scheduling gates", ClusterEvent.POD)
    claims = find_pod_claims(entry, cluster)
    if not isinstance(claims, PodClaims):
        return claims
    nodes = cluster.nodes
    if not nodes:
        return Unschedulable("no nodes available to schedule pods", ClusterEvent.NODE)
    nominated = cluster.node_info(pod.status.nominated_node_name)
    if nominated is not None:  # victims have made room for the pod there
        assignment = _find_node(entry, cluster, claims, (nominated,), random, extender)
        if isinstance(assignment, NodeAssignment):
            return assignment
    first = start_index % len(nodes)
    return _find_node(entry, cluster, claims, (*nodes[first:], *nodes[:first]), random, extender)


def find_pod_claims(entry: QueuedPodInfo, cluster: ClusterCache) -> PodClaims | Unschedulable | Pending:
    """Return the pod's claims, or the result that makes the pod wait for them."""
    found = PodClaims()
    for each in entry.pod.spec.resource_claims or ():
        claim = _find_claim(entry.pod, each, cluster)
        if isinstance(claim, Pending | Unschedulable):
            return claim
        if claim is None or any(known is claim for known in found.claims):
            continue
        problem = _add_claim(found, claim, entry, cluster)
        if problem is not None:
            return problem
    return found


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
    found: PodClaims, claim: ResourceClaim, entry: QueuedPodInfo, cluster: ClusterCache
) -> Unschedulable | Pending | None:
    found.claims.append(claim)
    allocation = claim.status.allocation
    if allocation is not None:
        if cluster.inventory.has_node_allocatable_devices and node_allocatable.is_reserved_for_another_pod(
            claim, entry.pod, cluster.inventory.device
        ):
            cannot = "has a mapped device and cannot be shared across pods"
            found.not_shareable = f"node allocatable resource claim {claim.metadata.name} {cannot}"
        if allocation.node_selector is not None:
            found.pinned.append(claim)
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
    found.unallocated.append((claim, known[1]))
    return None


def _find_node(
    entry: QueuedPodInfo,
    cluster: ClusterCache,
    claims: PodClaims,
    nodes: Sequence[NodeInfo],
    random: Random,
    extender: FilterExtender | None,
) -> ScheduleResult:
    """Return an assignment to the best node that has all the pod needs, searching the nodes in the given order."""
    demand = entry.demand
    reasons: Counter[str] = Counter()
    events = ClusterEvent.NODE
    feasible: list[NodeInfo] = []
    asked: list[NodeInfo] = []
    """Nodes whose devices kube-scheduler looks at: those that lack an allocated claim of the pod, too."""
    unavailable_claims: list[ResourceClaim] = []
    for node_info in nodes:
        reason = unresolvable_reason(node_info, demand)
        if reason is not None:
            reasons[reason] += 1
            continue
        insufficient = insufficient_resources(node_info, demand)
        if insufficient:
            reasons.update(insufficient)
            events |= ClusterEvent.ASSIGNED_POD_DELETED
            continue
        unavailable = [c for c in claims.pinned if not claim_fits_node(c, node_info)] if claims.pinned else ()
        if unavailable or claims.not_shareable:
            reasons[_CLAIM_NOT_ON_NODE if unavailable else claims.not_shareable] += 1
            events |= ClusterEvent.CLAIM
            unavailable_claims += unavailable
            asked += [] if claims.not_shareable else [node_info]
            continue
        feasible.append(node_info)
        asked.append(node_info)
        if len(feasible) >= MIN_FEASIBLE_NODES and extender is None:
            error = _fatal_failure(asked, claims, cluster)
            if error is not None:
                return error
            assignment = _select_node(entry.pod, _prioritize(feasible, entry, random), cluster, claims, reasons, random)
            if assignment is not None:
                return assignment
            feasible, asked = [], []
    error = _fatal_failure(asked, claims, cluster)
    if error is not None:
        return error
    if extender is None:
        scored = _prioritize(feasible, entry, random)
    else:
        scored, failed_nodes = _ask_extender(feasible, entry, random, extender)
        reasons.update(failed_nodes)
        events |= ClusterEvent.ASSIGNED_POD_DELETED if failed_nodes else ClusterEvent.NOTHING
    assignment = _select_node(entry.pod, scored, cluster, claims, reasons, random) if scored else None
    if assignment is not None:
        return assignment
    events |= _claim_events(claims, cluster)
    return _post_filter(entry.pod, claims, reasons, events, unavailable_claims, cluster)


def _fatal_failure(nodes: Sequence[NodeInfo], claims: PodClaims, cluster: ClusterCache) -> SchedulerError | None:
    """Return the error that ends the cycle because the allocator fails fatally on one of some nodes, if it does."""
    to_allocate = [wanted for _, wanted in claims.unallocated]
    for node_info in nodes if to_allocate else ():
        failure = cluster.fatal_failure(to_allocate, node_info)
        if failure is not None:
            return SchedulerError(f'running "DynamicResources" filter plugin: {failure.text}')
    return None


def _claim_events(claims: PodClaims, cluster: ClusterCache) -> ClusterEvent:
    """Return the cluster events that a pod may have to wait for because of its claims."""
    events = ClusterEvent.DEVICE_AVAILABLE | ClusterEvent.DEVICE_CLASS if claims.unallocated else ClusterEvent.NOTHING
    return (
        events | ClusterEvent.ASSIGNED_POD_DELETED | ClusterEvent.DEVICE_AVAILABLE
        if cluster.inventory.has_node_allocatable_devices and claims.claims
        else events
    )


def _prioritize(
    feasible: list[NodeInfo], entry: QueuedPodInfo, random: Random, scores: Mapping[str, int] = MappingProxyType({})
) -> list[_NodeScore]:
    return [
        (scores.get(node_info.name, 0) + least_allocated_score(node_info, entry.demand), random.random(), node_info)
        for node_info in feasible
    ]


def _ask_extender(
    feasible: list[NodeInfo], entry: QueuedPodInfo, random: Random, extender: FilterExtender
) -> tuple[list[_NodeScore], Collection[str]]:
    """Return the nodes that pass the extender with their scores, and its reasons against each of the others."""
    names = [node_info.name for node_info in feasible]
    failed_nodes = extender.filter(entry.pod, names) if names else {}
    left = [node_info for node_info in feasible if node_info.name not in failed_nodes]
    scores = extender.prioritize(entry.pod, [node_info.name for node_info in left]) if left else {}
    return _prioritize(left, entry, random, scores), failed_nodes.values()


def _select_node(
    pod: SchedulerPod,
    scored: list[_NodeScore],
    cluster: ClusterCache,
    claims: PodClaims,
    reasons: Counter[str],
    random: Random,
) -> NodeAssignment | None:
    """Return an assignment to the best of some feasible nodes, with devices for claims that need an allocation."""
    has_node_allocatable = cluster.inventory.has_node_allocatable_devices and bool(claims.claims)
    if not claims.unallocated and not has_node_allocatable:
        _, _, node_info = max(scored)
        return NodeAssignment(node_info.name, tuple((claim, None) for claim in claims.claims))
    scored.sort(key=_score_key, reverse=True)
    to_allocate = [each for _, each in claims.unallocated]
    for _, _, node_info in scored:
        solution = cluster.allocate(to_allocate, node_info) if to_allocate else ()
        if isinstance(solution, AllocationFailure):
            reasons[solution.text] += 1
            continue
        results = allocation_results(to_allocate, solution, node=node_info.name, share_id=partial(_share_id, random))
        new = {claim.metadata.uid: result for (claim, _), result in zip(claims.unallocated, results, strict=True)}
        assignment = NodeAssignment(
            node_info.name, tuple((claim, new.get(claim.metadata.uid)) for claim in claims.claims)
        )
        found = _account_node_allocatable(pod, assignment, node_info, cluster) if has_node_allocatable else assignment
        if isinstance(found, NodeAssignment):
            return found
        reasons.update(found)
    return None


def _account_node_allocatable(
    pod: SchedulerPod, assignment: NodeAssignment, node_info: NodeInfo, cluster: ClusterCache
) -> NodeAssignment | Sequence[str]:
    """Return an assignment with the node resources of the pod's claims, or the resources that the node lacks."""
    try:
        found = node_allocatable.node_allocatable_statuses(pod, assignment.claims, cluster.inventory.device)
    except UnaccountableError as error:
        return [str(error)]
    assignment = replace(assignment, node_allocatable_statuses=tuple(found))
    return (insufficient_with_claims(node_info, assignment.assigned_pod(pod)) if found else ()) or assignment


def _share_id(random: Random) -> str:
    return str(UUID(int=random.getrandbits(128), version=4))


def _score_key(node_score: _NodeScore) -> tuple[float, float]:
    return node_score[:2]


def claim_fits_node(claim: ResourceClaim, node_info: NodeInfo) -> bool:
    """Report whether a claim can be used on a node."""
    allocation = claim.status.allocation
    return allocation is None or matches_node_selector(
        allocation.node_selector, name=node_info.name, labels=node_info.labels
    )


def _post_filter(
    pod: SchedulerPod,
    claims: PodClaims,
    reasons: Counter[str],
    events: ClusterEvent,
    unavailable_claims: list[ResourceClaim],
    cluster: ClusterCache,
) -> Unschedulable | Deallocation:
    texts = sorted(f"{times} {reason}" for reason, times in reasons.items())
    message = f"0/{len(cluster.nodes)} nodes are available: {', '.join(texts)}."
    for claim in unavailable_claims:
        if _can_deallocate(claim, pod):
            return Deallocation(claim, f"{message} deallocation of ResourceClaim completed")
    return Unschedulable(
        f"{message} {cluster.release.traits.post_filter}".rstrip() if claims.claims else message, events
    )


def _can_deallocate(claim: ResourceClaim, pod: SchedulerPod) -> bool:
    """Report whether only this pod can use the allocation (upstream's PostFilter, and KEP rule 7)."""
    if claim.status.allocation is None or claim.status.allocation.reserved_for_any_pod:
        return False
    return all(entry.is_pod and entry.uid == pod.metadata.uid for entry in claim.entries)
