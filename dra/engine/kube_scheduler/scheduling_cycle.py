"""The scheduling cycle of one pod: chooses a node and devices for its claims, or the events to wait for.

Nothing is written or assumed here. The order is that of upstream's plugins: claims (do they exist, and may the pod
use them?), nodes (cordons, taints, affinity, free resources), then devices on the remaining nodes, the best node first.

An extender filters all nodes with enough free resources, not only the first ones: capacity that is held on a node that
was left out would not be found.

A fatal failure of the allocator (`AllocationFailure.fatal`) ends the cycle, whatever other nodes offer: kube-scheduler
looks for devices on every node that its other filters pass. No pod is preempted, and no claim is deallocated, then.

KEP-5194, PostFilter: an allocation that no suitable node can use is removed (`Deallocation`) only if no other pod can
use it: ``reservedFor`` is empty or lists only this pod. An entry that is not a pod stands for users that cannot be
counted.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from dra.engine.allocator import (
    AllocationFailure,
    UnsatisfiableError,
    allocation_results,
)
from dra.engine.devices import node_allocatable
from dra.engine.devices.node_allocatable import UnaccountableError
from dra.engine.kube_scheduler.cluster_cache import ClusterCache
from dra.engine.kube_scheduler.node_info import (
    NodeInfo,
    PodRequests,
    insufficient_resources,
    insufficient_with_claims,
    least_allocated_score,
    unresolvable_reason,
)
from dra.engine.kube_scheduler.pod_claims import NodeDemand, PodClaims, find_pod_claims
from dra.engine.kube_scheduler.schedule_results import (
    Deallocation,
    NodeAssignment,
    Pending,
    SchedulerError,
    ScheduleResult,
    Unschedulable,
)
from dra.engine.kube_scheduler.scheduling_queue import ClusterEvent, QueuedPodInfo
from dra.model.claims import ResourceClaim
from dra.model.nodes import matches_node_selector
from dra.model.scheduling import SchedulerPod

MIN_FEASIBLE_NODES: Final = 100
"""Number of feasible nodes to choose among: looking at more nodes costs more than it gains.

Upstream has the same minimum, and looks at a fraction of large clusters. The start of the search moves on with each
pod.
"""

PLUGIN_FAILED: Final = 'running "DynamicResources" filter plugin'
"""Beginning of the message that kube-scheduler reports for a pod whose cycle ended with an allocator's error."""

NO_MAPPINGS: Final = 'running PreBind plugin "DynamicResources": nil or empty request mappings'
"""Message for a pod with claims whose extended resources the node serves itself.

kube-scheduler makes a claim without requests then, and fails to write it into the pod's status, each time again.
"""

_CLAIM_NOT_ON_NODE: Final = "resourceclaim not available on the node"


_NodeScore: TypeAlias = tuple[float, float, NodeInfo]
"""Score of a node, with a random number that breaks ties."""


class FilterExtender(Protocol):
    """Filters and prioritizes nodes, considering capacity that is reserved for other pods."""

    def filter(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, str]:
        """Return the nodes on which the pod cannot run, each with the reason."""
        ...

    def prioritize(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, int]:
        """Return the scores of nodes; they outweigh all scores of the scheduler."""
        ...


class Chance(Protocol):
    """Random numbers, drawn by the caller's generator: a seeded `random.Random` makes a cycle repeatable."""

    def random(self) -> float:
        """Return a number from 0 up to 1."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits."""
        ...


def decide(
    entry: QueuedPodInfo,
    cluster: ClusterCache,
    *,
    start_index: int,
    chance: Chance,
    extender: FilterExtender | None = None,
) -> ScheduleResult:
    """Decide about one pod; the search for nodes begins at node number `start_index`."""
    pod = entry.pod
    if pod.spec.scheduling_gates:
        return Pending("has scheduling gates", ClusterEvent.POD)
    claims = find_pod_claims(entry, cluster)
    if not isinstance(claims, PodClaims):
        return claims
    try:
        return _decide_with_claims(entry, cluster, claims, start_index, chance, extender)
    except UnsatisfiableError as error:
        return SchedulerError(f"{PLUGIN_FAILED}: {error}")


def _decide_with_claims(
    entry: QueuedPodInfo,
    cluster: ClusterCache,
    claims: PodClaims,
    start_index: int,
    chance: Chance,
    extender: FilterExtender | None,
) -> ScheduleResult:
    """Decide about a pod whose claims exist. Raises UnsatisfiableError for its extended resources."""
    pod, nodes = entry.pod, cluster.nodes
    if not nodes:
        return Unschedulable("no nodes available to schedule pods", ClusterEvent.NODE)
    nominated = cluster.node_info(pod.status.nominated_node_name)
    if nominated is not None:  # victims have made room for the pod there
        assignment = _find_node(entry, cluster, claims, (nominated,), chance, extender)
        if isinstance(assignment, NodeAssignment):
            return assignment
    first = start_index % len(nodes)
    return _find_node(entry, cluster, claims, (*nodes[first:], *nodes[:first]), chance, extender)


@dataclass(slots=True)
class _Search:
    """The state of the search for a node: which nodes are left, and why the others are not."""

    reasons: Counter[str] = field(default_factory=Counter)
    events: ClusterEvent = ClusterEvent.NODE
    unavailable_claims: list[ResourceClaim] = field(default_factory=list)
    feasible: list[NodeInfo] = field(default_factory=list)
    asked: list[NodeInfo] = field(default_factory=list)
    """Nodes whose devices kube-scheduler looks at: those that lack an allocated claim of the pod, too."""

    def add(self, node_info: NodeInfo, demand: PodRequests, claims: PodClaims) -> None:
        """Add a node to those that pass the filters before devices are looked at, or the reasons why it does not."""
        reason = unresolvable_reason(node_info, demand)
        if reason is not None:
            self.reasons[reason] += 1
            return
        insufficient = insufficient_resources(node_info, claims.requests_to(node_info, demand))
        if insufficient:
            self.reasons.update(insufficient)
            self.events |= ClusterEvent.ASSIGNED_POD_DELETED
            return
        unavailable = [c for c in claims.pinned if not claim_fits_node(c, node_info)] if claims.pinned else ()
        if claims.not_shareable:
            self.reasons[claims.not_shareable] += 1
        elif unavailable:
            self.reasons[_CLAIM_NOT_ON_NODE] += 1
            self.asked.append(node_info)
        else:
            self.feasible.append(node_info)
            self.asked.append(node_info)
            return
        self.events |= ClusterEvent.CLAIM
        self.unavailable_claims += unavailable


def _find_node(
    entry: QueuedPodInfo,
    cluster: ClusterCache,
    claims: PodClaims,
    nodes: Sequence[NodeInfo],
    chance: Chance,
    extender: FilterExtender | None,
) -> ScheduleResult:
    """Return an assignment to the best node that has all the pod needs, searching the nodes in the given order."""
    search = _Search()
    for node_info in nodes:
        search.add(node_info, entry.demand, claims)
        if len(search.feasible) >= MIN_FEASIBLE_NODES and extender is None:
            outcome = _fatal_failure(search, entry, claims, cluster) or _select_node(
                entry, _prioritize(search.feasible, entry, chance), cluster, claims, search.reasons, chance
            )
            if outcome is not None:
                return outcome
            search.feasible, search.asked = [], []
    error = _fatal_failure(search, entry, claims, cluster)
    if error is not None:
        return error
    if extender is None:
        scored = _prioritize(search.feasible, entry, chance)
    else:
        scored, failed_nodes = _ask_extender(search.feasible, entry, chance, extender)
        search.reasons.update(failed_nodes)
        search.events |= ClusterEvent.ASSIGNED_POD_DELETED if failed_nodes else ClusterEvent.NOTHING
    assignment = _select_node(entry, scored, cluster, claims, search.reasons, chance) if scored else None
    if assignment is not None:
        return assignment
    search.events |= _claim_events(claims, cluster)
    return _post_filter(entry.pod, claims, search, cluster)


def _fatal_failure(
    search: _Search, entry: QueuedPodInfo, claims: PodClaims, cluster: ClusterCache
) -> SchedulerError | None:
    """Return the error that ends the cycle because the allocator fails fatally on one of some nodes, if it does."""
    if not claims.need_devices:
        return None
    for node_info in search.asked:
        failure = cluster.fatal_failure(claims.on_node(node_info, entry.demand).claims, node_info)
        if failure is not None:
            return SchedulerError(f"{PLUGIN_FAILED}: {failure.text}")
    for node_info in search.feasible if claims.extended is not None else ():
        on_node = claims.on_node(node_info, entry.demand)
        if claims.need_empty_claim(on_node) and _has_devices(on_node, node_info, cluster):
            return SchedulerError(NO_MAPPINGS)
    return None


def _has_devices(on_node: NodeDemand, node_info: NodeInfo, cluster: ClusterCache) -> bool:
    return not on_node.claims or not isinstance(cluster.allocate(on_node.claims, node_info), AllocationFailure)


def _claim_events(claims: PodClaims, cluster: ClusterCache) -> ClusterEvent:
    """Return the cluster events that a pod may have to wait for because of its claims."""
    events = ClusterEvent.DEVICE_AVAILABLE | ClusterEvent.DEVICE_CLASS if claims.need_devices else ClusterEvent.NOTHING
    return (
        events | ClusterEvent.ASSIGNED_POD_DELETED | ClusterEvent.DEVICE_AVAILABLE
        if cluster.inventory.has_node_allocatable_devices and claims.may_have_devices
        else events
    )


def _prioritize(
    feasible: list[NodeInfo], entry: QueuedPodInfo, chance: Chance, scores: Mapping[str, int] = MappingProxyType({})
) -> list[_NodeScore]:
    demand, random = entry.demand, chance.random
    if not scores:
        return [(least_allocated_score(node_info, demand), random(), node_info) for node_info in feasible]
    return [
        (scores.get(node_info.name, 0) + least_allocated_score(node_info, demand), random(), node_info)
        for node_info in feasible
    ]


def _ask_extender(
    feasible: list[NodeInfo], entry: QueuedPodInfo, chance: Chance, extender: FilterExtender
) -> tuple[list[_NodeScore], Collection[str]]:
    """Return the nodes that pass the extender with their scores, and its reasons against each of the others."""
    names = [node_info.name for node_info in feasible]
    failed_nodes = extender.filter(entry.pod, names) if names else {}
    left = [node_info for node_info in feasible if node_info.name not in failed_nodes]
    scores = extender.prioritize(entry.pod, [node_info.name for node_info in left]) if left else {}
    return _prioritize(left, entry, chance, scores), failed_nodes.values()


def _select_node(
    entry: QueuedPodInfo,
    scored: list[_NodeScore],
    cluster: ClusterCache,
    claims: PodClaims,
    reasons: Counter[str],
    chance: Chance,
) -> NodeAssignment | None:
    """Return an assignment to the best of some feasible nodes, with devices for claims that need an allocation."""
    has_node_allocatable = cluster.inventory.has_node_allocatable_devices and claims.may_have_devices
    if not claims.need_devices and not has_node_allocatable:
        _, _, node_info = max(scored)
        return NodeAssignment(node_info.name, tuple((claim, None) for claim in claims.claims))
    scored.sort(key=_score_key, reverse=True)
    for _, _, node_info in scored:
        on_node = claims.on_node(node_info, entry.demand)
        solution = cluster.allocate(on_node.claims, node_info) if on_node.claims else ()
        if isinstance(solution, AllocationFailure):
            reasons[solution.text] += 1
            continue
        results = allocation_results(on_node.claims, solution, node=node_info.name, share_id=partial(_share_id, chance))
        new = {claim.metadata.uid: result for (claim, _), result in zip(on_node.to_allocate, results, strict=True)}
        made = [claim for claim, _ in on_node.to_allocate[len(claims.unallocated) :]]
        assignment = NodeAssignment(
            node_info.name,
            tuple((claim, new.get(claim.metadata.uid)) for claim in (*claims.claims, *made)),
            extended=on_node.extended,
        )
        accounted = (
            _account_node_allocatable(entry.pod, assignment, node_info, cluster) if has_node_allocatable else assignment
        )
        if isinstance(accounted, NodeAssignment):
            return accounted
        reasons.update(accounted)
    return None


def _account_node_allocatable(
    pod: SchedulerPod, assignment: NodeAssignment, node_info: NodeInfo, cluster: ClusterCache
) -> NodeAssignment | Sequence[str]:
    """Return an assignment with the node resources of the pod's claims, or the resources that the node lacks."""
    try:
        statuses = node_allocatable.node_allocatable_statuses(pod, assignment.claims, cluster.inventory.device)
    except UnaccountableError as error:
        return [str(error)]
    assignment = replace(assignment, node_allocatable_statuses=tuple(statuses))
    if not statuses:
        return assignment
    mappings = assignment.extended.mappings if assignment.extended is not None else ()
    served = {mapping.resource_name for mapping in mappings}
    given, release = assignment.assigned_pod(pod), cluster.inventory.release
    return insufficient_with_claims(node_info, given, served=served, release=release) or assignment


def _share_id(chance: Chance) -> str:
    """Return a UUID of version 4 (RFC 9562): all but six bits are random."""
    bits = chance.getrandbits(128) & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _score_key(node_score: _NodeScore) -> tuple[float, float]:
    return node_score[:2]


def claim_fits_node(claim: ResourceClaim, node_info: NodeInfo) -> bool:
    """Report whether a claim can be used on a node."""
    allocation = claim.status.allocation
    return allocation is None or matches_node_selector(
        allocation.node_selector, name=node_info.name, labels=node_info.labels
    )


def _post_filter(
    pod: SchedulerPod, claims: PodClaims, search: _Search, cluster: ClusterCache
) -> Unschedulable | Deallocation:
    texts = sorted(f"{times} {reason}" for reason, times in search.reasons.items())
    message = f"0/{len(cluster.nodes)} nodes are available: {', '.join(texts)}."
    for claim in search.unavailable_claims:
        if _can_deallocate(claim, pod):
            return Deallocation(claim, f"{message} deallocation of ResourceClaim completed")
    return Unschedulable(
        f"{message} {cluster.release.traits.post_filter}".rstrip() if claims.claims else message, search.events
    )


def _can_deallocate(claim: ResourceClaim, pod: SchedulerPod) -> bool:
    """Report whether only this pod can use the allocation (upstream's PostFilter, and KEP-5194)."""
    if claim.status.allocation is None or claim.status.allocation.reserved_for_any_pod:
        return False
    return all(entry.is_pod and entry.uid == pod.metadata.uid for entry in claim.entries)
