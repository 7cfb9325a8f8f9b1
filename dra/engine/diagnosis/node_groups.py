"""Groups of nodes with the same obstacles, for a pod that is not scheduled.

The order and the functions are those of the local plane's scheduler. But while that scheduler stops at the first
obstacle, all obstacles are reported here: a node that lacks one thing is more useful to the reader than a node that
lacks three.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, TypeAlias

from dra.api.colocation.well_known import BATCH_MEMORY
from dra.cel.device_selectors import SelectorError
from dra.engine.allocator import AllocationFailure, ClaimToAllocate, NodeDevices, allocate, allocation_results
from dra.engine.allocator.claims_to_allocate import RequestData
from dra.engine.allocator.resource_slice_tracker import CandidateDevice, PoolState
from dra.engine.allocator.search import PickedDevice, Solution
from dra.engine.allocator.shared_counters import blocking_devices
from dra.engine.claims.reasons import list_names
from dra.engine.devices.ledger import DeviceID
from dra.engine.devices.node_allocatable import (
    UnaccountableError,
    is_reserved_for_another_pod,
    node_allocatable_statuses,
    with_node_allocatable_statuses,
)
from dra.engine.diagnosis.capacities import capacity_shortages
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.pools import pool_fault
from dra.engine.kube_scheduler import node_resources
from dra.engine.kube_scheduler.node_info import (
    NodeInfo,
    PodRequests,
    insufficient_resources,
    insufficient_with_claims,
    unresolvable_reason,
)
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct
from dra.model.nodes import UNSCHEDULABLE_TAINT, Taint, matches_node_selector
from dra.model.quantities import CPU, NANOS_PER_UNIT

HeldDevices: TypeAlias = dict[tuple[Key, DeviceID], None]
"""Claims with the devices that they hold; a device of several nodes counts once."""

NAMED_NODES_MAX: Final = 3
"""Maximum number of nodes of a group that are named; the rest is counted."""

NAMED_HOLDERS_MAX: Final = 5
"""Maximum number of claims that are named as holders of a group's devices."""


class Obstacle(StrEnum):
    """Something that keeps a node from taking a pod."""

    CORDONED = "cordoned"
    TAINTED = "tainted"
    SELECTOR = "selector"  # the pod's node selector or affinity
    PORTS = "ports"  # host ports that pods on the node use
    ROOM = "room"  # CPUs, memory, number of pods
    ELSEWHERE = "elsewhere"  # a claim of the pod is allocated, and not here
    DEVICES = "devices"


class RequestDeviceCounts(Struct, frozen=True):
    """The devices of one node, counted for one request."""

    request: str
    asked: int
    """Number of devices requested; 0 for all devices."""

    offered: int = 0
    """Number of devices that the request selects."""

    held: int = 0
    tainted: int = 0
    """Number of devices with a taint that the request does not tolerate, held or not."""

    held_and_tainted: int = 0
    overlapping: int = 0
    """Number of devices that are neither held nor tainted, but lack shared counters that held devices consume."""

    shared: int = 0
    """Number of devices that several requests may use at a time."""

    taints: tuple[str, ...] = ()
    """Taints that the request does not tolerate, of drivers and of DeviceTaintRules: ``key=value:effect``."""

    shortages: tuple[str, ...] = ()
    """Capacities of shared devices of which too little is left, with amounts."""

    @property
    def free(self) -> int:
        """The number of devices that are neither held nor tainted, and whose shared counters are not used up."""
        return self.offered - self.held - self.tainted + self.held_and_tainted - self.overlapping

    @property
    def lacks_healthy_devices(self) -> bool:
        """Whether too few devices are untainted, so that no release of a claim helps."""
        return not self.shared and self.offered - self.tainted < max(self.asked, 1)


class ObstacleDetail(Struct, frozen=True):
    """One obstacle with its numbers."""

    obstacle: Obstacle
    detail: str = ""
    devices: tuple[RequestDeviceCounts, ...] = ()


class HoldingClaim(Struct, frozen=True):
    """A claim that holds devices which the pod could use."""

    claim: Key
    devices: int


class NodeGroup(Struct, frozen=True):
    """Nodes with the same obstacles; without obstacles, the pod could run there."""

    count: int
    nodes: tuple[str, ...]
    barriers: tuple[ObstacleDetail, ...] = ()
    holders: tuple[HoldingClaim, ...] = ()
    others: int = 0
    """Number of further holders."""


def group_nodes(
    cluster: ClusterState, demand: PodRequests, *, placed: Sequence[ResourceClaim], wanted: Sequence[ClaimToAllocate]
) -> tuple[NodeGroup, ...]:
    """Return all nodes in groups, ordered by number of obstacles; of equal groups, larger ones come first."""
    names_by_obstacles: dict[tuple[ObstacleDetail, ...], list[str]] = {}
    holders: dict[tuple[ObstacleDetail, ...], HeldDevices] = {}
    for name, info in sorted(cluster.node_infos.items()):
        having: HeldDevices = {}
        key = tuple(_node_obstacles(info, demand, placed)) + tuple(
            _device_obstacles(cluster, info, demand, wanted, placed, having)
        )
        names_by_obstacles.setdefault(key, []).append(name)
        holders.setdefault(key, {}).update(having)
    made = [_group(key, names, holders[key]) for key, names in names_by_obstacles.items()]
    return tuple(sorted(made, key=_by_obstacles))


def _group(barriers: tuple[ObstacleDetail, ...], names: list[str], held: HeldDevices) -> NodeGroup:
    holders = Counter(claim for claim, _ in held)
    first = tuple(HoldingClaim(claim=key, devices=count) for key, count in holders.most_common(NAMED_HOLDERS_MAX))
    return NodeGroup(
        count=len(names),
        nodes=tuple(names[:NAMED_NODES_MAX]),
        barriers=barriers,
        holders=first,
        others=max(len(holders) - len(first), 0),
    )


def _by_obstacles(group: NodeGroup) -> tuple[int, int, tuple[str, ...]]:
    return (len(group.barriers), -group.count, group.nodes)


def _node_obstacles(info: NodeInfo, demand: PodRequests, placed: Sequence[ResourceClaim]) -> Iterator[ObstacleDetail]:
    """Yield the obstacles of a node, except for devices that are yet to be allocated."""
    for taint in info.taints:
        if not any(by.tolerates(taint) for by in demand.tolerations):
            cordon = taint.key == UNSCHEDULABLE_TAINT.key
            yield ObstacleDetail(
                obstacle=Obstacle.CORDONED if cordon else Obstacle.TAINTED,
                detail="" if cordon else _format_taint(taint),
            )
    if unresolvable_reason(replace(info, taints=()), demand) is not None:
        yield ObstacleDetail(obstacle=Obstacle.SELECTOR, detail=_missing_labels(info, demand))
    if taken := [str(port) for port in sorted(demand.host_ports) if info.uses_one_of(frozenset({port}))]:
        yield ObstacleDetail(obstacle=Obstacle.PORTS, detail=list_names(taken))
    if short := "; ".join(_resource_shortages(info, demand)):
        yield ObstacleDetail(obstacle=Obstacle.ROOM, detail=short)
    for claim in placed:
        allocation = claim.status.allocation
        selector = allocation.node_selector if allocation is not None else None
        if not matches_node_selector(selector, name=info.name, labels=info.labels):
            yield ObstacleDetail(obstacle=Obstacle.ELSEWHERE, detail=claim.metadata.name)


def _format_taint(taint: Taint) -> str:
    """Return a taint in the form that kubectl takes."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _missing_labels(info: NodeInfo, demand: PodRequests) -> str:
    """Return the labels that a node lacks; empty if an affinity excludes the node."""
    wanted = demand.pod.spec.node_selector or {}
    return ",".join(f"{key}={value}" for key, value in wanted.items() if info.labels.get(key) != value)


def _resource_shortages(info: NodeInfo, demand: PodRequests) -> Iterator[str]:
    for short in node_resources.shortages(demand.amounts, capacity=info.capacity, requested=info.requested):
        resource, free = short.resource, max(short.capacity - short.used, 0)
        asked, left, whole = (format_amount(resource, amount) for amount in (short.requested, free, short.capacity))
        kept = (
            f"; the node keeps {format_amount(resource, info.reserved[resource])}" if resource in info.reserved else ""
        )
        yield f"{resource}: {asked} requested, {left} of {whole} free{kept}"


def format_amount(resource: str, amount: int) -> str:
    """Return an amount as text: CPUs with their decimals, memory in Mi, all else in whole units."""
    units = amount / NANOS_PER_UNIT
    if resource == CPU:
        return f"{units:g}"
    if resource in {"memory", BATCH_MEMORY} or resource.startswith("hugepages-"):
        return f"{units / 2**20:.0f}Mi"
    return f"{units:.0f}"


def _device_obstacles(
    cluster: ClusterState,
    info: NodeInfo,
    demand: PodRequests,
    wanted: Sequence[ClaimToAllocate],
    placed: Sequence[ResourceClaim],
    having: HeldDevices,
) -> Iterator[ObstacleDetail]:
    """Yield why the devices of a node do not satisfy the claims, and count the claims that hold them."""
    solution: Solution | AllocationFailure = ()
    node_devices = cluster.inventory.node_devices(info.name, info.labels)
    if wanted:
        solution = allocate(
            wanted,
            node_devices=node_devices,
            ledger=cluster.claim_cache.ledger,
            consumed_capacity=cluster.shares,
            allow_binding_conditions=True,
        )
    if not isinstance(solution, AllocationFailure):
        if cluster.inventory.has_node_allocatable_devices:
            yield from _allocatable_obstacles(cluster, info, demand, [*zip(wanted, solution, strict=True)], placed)
        return
    requests = [request for claim in wanted for alternatives in claim.requests for request in alternatives]
    counted = tuple(_count_devices(cluster, node_devices, request, having) for request in requests)
    yield ObstacleDetail(
        obstacle=Obstacle.DEVICES,
        detail="; ".join(_unexplained_causes(node_devices, solution, counted, requests=requests)),
        devices=counted,
    )


def _allocatable_obstacles(
    cluster: ClusterState,
    info: NodeInfo,
    demand: PodRequests,
    solved: Sequence[tuple[ClaimToAllocate, tuple[PickedDevice, ...]]],
    placed: Sequence[ResourceClaim],
) -> Iterator[ObstacleDetail]:
    """Yield the resources that a node lacks once the pod has its devices (DRANodeAllocatableResources)."""
    pod, device_of = demand.pod, cluster.inventory.device
    for claim in placed:
        if is_reserved_for_another_pod(claim, pod, device_of):
            why = "stands for resources of its node, is used by another pod, and is for one pod only"
            yield ObstacleDetail(obstacle=Obstacle.DEVICES, detail=f"claim {claim.metadata.name} {why}")
    made = allocation_results(
        [wanted for wanted, _ in solved], tuple(picks for _, picks in solved), node=info.name, share_id=lambda: ""
    )
    new = [(cluster.claim_cache.claim(wanted.key), given) for (wanted, _), given in zip(solved, made, strict=True)]
    known = [(claim, given) for claim, given in new if claim is not None]
    try:
        statuses = node_allocatable_statuses(pod, [*((claim, None) for claim in placed), *known], device_of)
    except UnaccountableError as error:
        yield ObstacleDetail(obstacle=Obstacle.DEVICES, detail=str(error))
        return
    given, release = with_node_allocatable_statuses(pod, statuses), cluster.inventory.release
    lacking = (
        insufficient_with_claims(info, given, release=release)
        if statuses and not insufficient_resources(info, demand)
        else ()
    )
    if lacking:
        shortages = "; ".join(_resource_shortages(info, PodRequests.from_pod(given, release=release)))
        yield ObstacleDetail(obstacle=Obstacle.ROOM, detail=f"with its devices: {shortages or lacking[0]}")


def _count_devices(
    cluster: ClusterState, node_devices: NodeDevices, request: RequestData, having: HeldDevices
) -> RequestDeviceCounts:
    matching = [c for share in node_devices.pools for c in share.candidates if _request_matches(request, c)]
    held = tainted = both = overlapping = 0
    taints: set[str] = set()
    for candidate in matching:
        is_shared = candidate.device.allow_multiple_allocations
        is_held = not is_shared and not cluster.claim_cache.ledger.is_free(candidate.item)
        is_tainted = not request.tolerates(candidate.device.taints)
        held, tainted, both = held + is_held, tainted + is_tainted, both + (is_held and is_tainted)
        if is_tainted:  # a release helps nobody
            taints |= {str(taint) for taint in candidate.device.taints or () if not request.tolerates([taint])}
            continue
        blocking = () if is_held else _overlapping_devices(cluster, candidate)
        overlapping += bool(blocking)
        for device in (candidate,) if is_held else blocking:
            holder = cluster.claim_cache.ledger.holder(device.item)
            if holder is not None:
                having[holder.key, device.item] = None
    shared = sum(bool(candidate.device.allow_multiple_allocations) for candidate in matching)
    return RequestDeviceCounts(
        request=request.name,
        asked=request.count or 0,
        offered=len(matching),
        held=held,
        tainted=tainted,
        held_and_tainted=both,
        overlapping=overlapping,
        shared=shared,
        taints=tuple(sorted(taints)),
        shortages=capacity_shortages(cluster, matching, request.capacity_requests),
    )


def _overlapping_devices(cluster: ClusterState, candidate: CandidateDevice) -> tuple[CandidateDevice, ...]:
    """Return the held devices that use up shared counters which a device lacks."""
    pool = cluster.inventory.pool((candidate.item.driver, candidate.item.pool))
    return blocking_devices(pool, cluster.claim_cache.ledger, candidate) if pool is not None else ()


def _request_matches(request: RequestData, candidate: CandidateDevice) -> bool:
    try:
        return request.matches(candidate)
    except SelectorError:
        return False


def _selects(requests: Sequence[RequestData], candidate: CandidateDevice) -> bool:
    return any(_request_matches(request, candidate) for request in requests)


def _unexplained_causes(
    node_devices: NodeDevices,
    failure: AllocationFailure,
    counted: Sequence[RequestDeviceCounts],
    *,
    requests: Sequence[RequestData],
) -> Iterator[str]:
    """Yield causes that the numbers do not show."""
    states = {PoolState.INCOMPLETE: "is incomplete", PoolState.INVALID: "is invalid"}
    for share in node_devices.pools:
        if share.state is not PoolState.COMPLETE and any(
            _selects(requests, device) for device in share.pool.candidates
        ):
            fault = pool_fault(share.pool)
            yield f"pool {'/'.join(share.pool.key)} {states[share.state]}{f': {fault}' if fault else ''}"
    if failure.text != "cannot allocate all claims":
        yield failure.text
    elif shortages := [text for counts in counted for text in counts.shortages]:
        yield from shortages
    elif counted and all(counts.free >= max(counts.asked, 1) for counts in counted):
        if len(counted) > 1:
            yield (
                "there are enough for each request, but not for all: the requests want the same devices, or "
                "constraints, shared counters or capacity exclude each other"
            )
        else:
            yield "there are enough, but not together: constraints, shared counters or capacity exclude each other"
