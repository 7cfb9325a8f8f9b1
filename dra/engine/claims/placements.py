"""Search where pods that wait for an allocated claim could run if the allocation were revoked (rule Unstick).

Nodes are filtered as a scheduler filters them: taints, affinity and room (`dra.engine.kube_scheduler.node_info`), then
devices (`dra.engine.allocator`), with the devices of the claim itself counted as free. Constraints that this engine
does not decide (volumes, other pods, topology) can only exclude further nodes; a pod with such constraints counts as
able to run elsewhere only if kube-scheduler itself reports that a claim is the only obstacle on some node.

Reading a cluster is expensive, so the search has two steps: `PlacementSearch.nodes` names the nodes on which everything
but room suits a pod, and only the pods of those nodes have to be read for `PlacementSearch.placements`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from dra.cel.device_selectors import CompiledSelector
from dra.cel.memory_leaks import may_leak
from dra.engine.allocator import (
    AllocationFailure,
    ClaimToAllocate,
    ConsumedCapacityCollection,
    ResourceSliceTracker,
    UnsatisfiableError,
    allocate,
    allocation_results,
    claim_to_allocate,
)
from dra.engine.allocator.resource_slice_tracker import SELECTOR_RESULTS_MAX
from dra.engine.claims.view import Placements
from dra.engine.devices.ledger import DeviceID, Ledger
from dra.engine.devices.node_allocatable import (
    UnaccountableError,
    is_reserved_for_another_pod,
    node_allocatable_statuses,
    with_node_allocatable_statuses,
)
from dra.engine.devices.taints import TaintIndex
from dra.engine.instants import NEVER, Instant
from dra.engine.kube_scheduler.extended_resources import served_resources
from dra.engine.kube_scheduler.node_info import (
    NodeInfo,
    PodRequests,
    insufficient_resources,
    uncovered_pod_level_resource,
    unresolvable_reason,
)
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model import nodes, quantities
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import Key, Uid
from dra.model.pods import POD_SCHEDULED, claim_names
from dra.model.scheduling import SchedulerNode, SchedulerPod, has_undecided_constraints

MAX_STEPS: Final = 1_000
"""Maximum number of picks of the allocator for one node: the result may be too cautious, but never blocks the
process."""

MAX_SHAPES: Final = 32
"""Maximum number of groups of equal pods that are examined for one claim."""

CLAIM_UNAVAILABLE: Final = "resourceclaim not available on the node"
"""Message of kube-scheduler for a node on which only a claim is the obstacle (dynamicresources.go, Filter, 1.34 to
1.36)."""


@dataclass(slots=True)
class ClusterSnapshot:
    """The result of a live read: nodes, the pods on some of them, devices, and the holders of devices."""

    node_infos: dict[str, NodeInfo]
    inventory: ResourceSliceTracker
    classes: dict[str, DeviceClass]
    ledger: Ledger
    shares: ConsumedCapacityCollection
    taints: TaintIndex = field(default_factory=TaintIndex)
    node_names: set[str] = field(default_factory=set)
    """The names of all nodes, including nodes that are not ready."""
    making_room: set[Uid] = field(default_factory=set)
    """Pods that are being deleted, and Reservations: a scheduler may count what these hold as free for a pod."""

    def observe_node(self, node: SchedulerNode) -> None:
        """Add a node; one that is not ready, or is being deleted, takes no pods."""
        name = node.metadata.name
        self.node_names.add(name)
        if node.ready and not node.metadata.deleting:
            info = self.node_infos[name] = NodeInfo(name)
            info.observe(node)

    def observe_pod(self, pod: SchedulerPod) -> None:
        """Charge the requests of a pod to its node."""
        info = self.node_infos.get(pod.spec.node_name)
        if info is not None and not pod.terminal:
            info.add(pod.metadata.uid, pod_requests(pod, release=self.inventory.release))
            if pod.metadata.deleting:
                self.making_room.add(pod.metadata.uid)

    def observe_reservation(self, reservation: ReservationInfo) -> None:
        """Charge what a Reservation holds beyond its consumers, which are known: not available to other pods."""
        info = self.node_infos.get(reservation.node)
        if info is None:
            return
        used = quantities.total(info.pods[uid] for uid in reservation.current_owners if uid in info.pods)
        unused = {name: amount - used.get(name, 0) for name, amount in reservation.allocatable.items()}
        info.add(reservation.uid, {name: amount for name, amount in unused.items() if amount > 0})
        self.making_room.add(reservation.uid)


@dataclass(slots=True)
class _PodShape:
    """A group of pods that are alike in all properties that placement depends on."""

    demand: PodRequests
    pod: SchedulerPod
    uids: list[Uid]
    inside: list[tuple[NodeInfo, PodRequests]] = field(default_factory=list)
    """Nodes of the allocation, with the requests of a pod there, including requests through claims
    (DRANodeAllocatableResources)."""
    outside: list[tuple[NodeInfo, PodRequests]] = field(default_factory=list)
    nominations: list[tuple[Uid, str]] = field(default_factory=list)
    """Nominated pods of the group with the nodes of their nominations."""


class PlacementSearch:
    """The search for placements of the pods that wait for one allocated claim."""

    def __init__(
        self,
        claim: ResourceClaim,
        pods: Iterable[SchedulerPod],
        *,
        snapshot: ClusterSnapshot,
        claim_of: Callable[[Key], ResourceClaim | None],
    ) -> None:
        """Raise UnsatisfiableError if the claim's requests cannot be evaluated, ValueError if it is not allocated."""
        allocation = claim.status.allocation
        if allocation is None:
            raise ValueError(f"claim {'/'.join(claim.metadata.key)} is not allocated")
        self.claim = claim.metadata.key
        self._claim = claim
        self._allocation: AllocationResult = allocation
        self._picture = snapshot
        self._claim_of = claim_of
        self._wanted = claim_to_allocate(claim, snapshot.classes)
        _check_selector_count(self._wanted)
        self._ledger = snapshot.ledger.without(claim.metadata.uid)
        self._served = frozenset(served_resources(snapshot.classes.values()))
        self._gone = self._broken()
        self._shapes = self._grouped(pods)

    def nodes(self) -> frozenset[str]:
        """Return the nodes on which a pod could run given enough room, as far as `steps` has examined nodes."""
        return frozenset(info.name for shape in self._shapes for info, _ in (*shape.inside, *shape.outside))

    @property
    def loses(self) -> bool:
        """Return whether selectors may leak memory (`dra.cel.memory_leaks`).

        Checked are the selectors of the claim, and whether any pod has further claims, whose selectors count as
        leaking.
        """
        return any(may_leak(selector.expression) for selector in _selectors(self._wanted)) or any(
            len(claim_names(shape.pod)) > 1 for shape in self._shapes
        )

    def steps(self) -> Generator[None, None, None]:
        """Search `nodes` in steps: one selector of the claim's user for one device, or one node, per step.

        Each step may take long, and other tasks have to run in between. Close the generator if it is not run to its
        end.
        """
        shares, uid = self._picture.shares, self._claim.metadata.uid
        shares.observe_allocation(uid, None)
        try:
            for shape in self._shapes:
                yield from self._find(shape)
        finally:
            shares.observe_allocation(uid, self._allocation)

    def placements(self, *, at: Instant, read_at: Instant) -> Placements:
        """Return the result; the pods of all `nodes` must have been added to their NodeInfo."""
        here: set[Uid] = set()
        elsewhere: set[Uid] = set()
        for shape in self._shapes:
            if any(not insufficient_resources(info, demand) for info, demand in shape.inside):
                here.update(shape.uids)
            elif any(not insufficient_resources(info, demand) for info, demand in shape.outside):
                elsewhere.update(shape.uids)
        return Placements(
            allocation=self._allocation,
            at=at,
            read_at=read_at,
            pods=frozenset(uid for shape in self._shapes for uid in shape.uids),
            fit_here=frozenset(here),
            fit_elsewhere=frozenset(elsewhere),
            only_lacks_room=any(shape.inside for shape in self._shapes),
            nodes_deleted=nodes.are_all_deleted(self._allocation.node_selector, existing=self._picture.node_names),
            unbindable_nominations=frozenset(self._unbindable_nominations()),
            lost_device=self._gone,
        )

    def _grouped(self, pods: Iterable[SchedulerPod]) -> list[_PodShape]:
        shapes: dict[object, _PodShape] = {}
        for pod in pods:
            demand = self._demand(pod)
            key = (
                tuple(sorted(demand.amounts.items())),
                msgspec.json.encode((pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations)),
                claim_names(pod),
                self._through_claims(pod),
                has_undecided_constraints(pod) and CLAIM_UNAVAILABLE in _scheduler_message(pod),
                has_undecided_constraints(pod),
            )
            if key not in shapes and len(shapes) == MAX_SHAPES:
                continue
            shape = shapes.setdefault(key, _PodShape(demand, pod, []))
            shape.uids.append(pod.metadata.uid)
            if pod.status.nominated_node_name:
                shape.nominations.append((pod.metadata.uid, pod.status.nominated_node_name))
        return list(shapes.values())

    def _unbindable_nominations(self) -> Iterator[tuple[Uid, str]]:
        """Yield the nominations to nodes on which no binding cycle is expected to be under way.

        A binding cycle has chosen a node that the allocation reaches, and on which the pod fits. A node that is not
        ready, cordoned or tainted by now proves nothing: a cycle may have begun before, and goes on. The exception that
        remains is a cycle that a plugin holds back while its node is deleted, or filled by pods of another scheduler:
        such a pod is bound and does not start (docs/explanation/guarantees.md).
        """
        selector = self._allocation.node_selector
        named = nodes.selected_node_names(selector) if selector is not None else None
        for shape in self._shapes:
            inside = {info.name: (info, demand) for info, demand in shape.inside}
            for uid, name in shape.nominations:
                exists = name in self._picture.node_names and (named is None or name in named)
                if not exists or (name in inside and self._is_full(*inside[name])):
                    yield uid, name

    def _is_full(self, info: NodeInfo, demand: PodRequests) -> bool:
        """Return whether the node lacks room even after the pods that are being deleted there have ended."""
        return bool(insufficient_resources(info, demand, without=self._picture.making_room))

    def _find(self, shape: _PodShape) -> Iterator[None]:
        """Find the nodes that suit pods of a shape, inside and outside of the allocation."""
        others = [self._claim_of((shape.pod.metadata.namespace, name)) for name in claim_names(shape.pod)]
        if any(other is None or other.metadata.deleting for other in others):
            return  # the pod cannot be scheduled in any case
        beside = [c for c in others if c is not None and c.metadata.uid != self._claim.metadata.uid]
        if any(self._unshared(claim, shape.pod) for claim in (self._claim, *beside)):
            return  # the claim serves only one pod, and has one
        try:
            unallocated = [c for c in beside if c.status.allocation is None]
            more = [claim_to_allocate(c, self._picture.classes) for c in unallocated]
            _check_selector_count(self._wanted, *more)
        except UnsatisfiableError:
            return
        placed = [c.status.allocation for c in beside if c.status.allocation is not None]
        is_sole_obstacle = not has_undecided_constraints(shape.pod) or CLAIM_UNAVAILABLE in _scheduler_message(
            shape.pod
        )
        given_up = False
        for info in self._picture.node_infos.values():
            yield
            if (
                not info.known
                or unresolvable_reason(info, shape.demand) is not None
                or not _allocations_reach(placed, info)
            ):
                continue
            inside = _allocation_reaches(self._allocation, info) and not self._gone
            # Volumes, other pods and topology can exclude the node: only kube-scheduler's own words that a claim is
            # the sole obstacle on some node stand in for these.
            if not inside and not is_sole_obstacle:
                continue
            wanted = more if inside else [self._wanted, *more]
            yield from self._judge(wanted, info)
            made = self._finds(wanted, info) if wanted else []
            given_up = given_up or made is None
            if not made and wanted:
                continue
            chosen = [c.metadata.uid for c in (unallocated if inside else [self._claim, *unallocated])]
            demand = self._taking(shape, [self._claim, *beside], dict(zip(chosen, made or (), strict=True)))
            if demand is not None:
                (shape.inside if inside else shape.outside).append((info, demand))
        # A fatal failure on one node ends kube-scheduler's whole cycle (`AllocationFailure.fatal`): then no node
        # outside of the allocation would take the pod, whatever it offers.
        if given_up:
            shape.outside.clear()

    def _judge(self, wanted: Sequence[ClaimToAllocate], info: NodeInfo) -> Iterator[None]:
        """Evaluate the selectors for the devices of a node in steps, before the allocator needs all results at once."""
        asks = [ask.selectors for claim in wanted for alternatives in claim.requests for ask in alternatives]
        if not any(asks):
            return
        for share in self._picture.inventory.node_devices(info.name, info.labels).pools:
            for candidate in share.all_candidates:
                yield from candidate.evaluate_selectors(asks)

    def _demand(self, pod: SchedulerPod) -> PodRequests:
        return PodRequests.from_pod(pod, release=self._picture.inventory.release).without(self._served)

    def _through_claims(self, pod: SchedulerPod) -> object:
        """Return the part of a pod that determines its node resources through claims, and whether it may use them."""
        if not self._picture.inventory.has_node_allocatable_devices:
            return None
        containers = (pod.spec.init_containers, pod.spec.containers)
        return (self._unshared(self._claim, pod), msgspec.json.encode(containers))

    def _unshared(self, claim: ResourceClaim, pod: SchedulerPod) -> bool:
        inventory = self._picture.inventory
        return inventory.has_node_allocatable_devices and is_reserved_for_another_pod(claim, pod, inventory.device)

    def _taking(
        self, shape: _PodShape, claims: list[ResourceClaim], new: dict[Uid, AllocationResult]
    ) -> PodRequests | None:
        """Return a pod's requests on a node with these allocations; None if the pod fits on no node with them."""
        if not self._picture.inventory.has_node_allocatable_devices:
            return shape.demand
        pairs = [(claim, new.get(claim.metadata.uid)) for claim in claims]
        try:
            pod = with_node_allocatable_statuses(
                shape.pod, node_allocatable_statuses(shape.pod, pairs, self._picture.inventory.device)
            )
        except UnaccountableError:
            return None
        return None if uncovered_pod_level_resource(pod, release=self._picture.inventory.release) else self._demand(pod)

    def _finds(self, wanted: Sequence[ClaimToAllocate], info: NodeInfo) -> list[AllocationResult] | None:
        """Return the allocations possible on a node, empty if none; None if kube-scheduler would give up the pod."""
        snapshot = self._picture
        offer = snapshot.inventory.node_devices(info.name, info.labels)
        if not offer.pools and any(claim.requests for claim in wanted):
            return []
        solution = allocate(
            wanted,
            node_devices=offer,
            ledger=self._ledger,
            consumed_capacity=snapshot.shares,
            allow_binding_conditions=True,
            max_steps=MAX_STEPS,
        )
        if isinstance(solution, AllocationFailure):
            return None if solution.fatal else []
        made = allocation_results(wanted, solution, node=info.name, share_id=lambda: "")
        return (
            []
            if any(t.seconds_tolerated() < NEVER for allocation in made for t in snapshot.taints.taints_of(allocation))
            else made
        )

    def _broken(self) -> str:
        """Return the first device of the allocation that is no longer offered, or that has an evicting taint."""
        for result in self._allocation.devices.results or ():
            item = DeviceID(driver=result.driver, pool=result.pool, device=result.device)
            if self._picture.inventory.candidate(item) is None and self._picture.inventory.confirms_absence(item):
                return str(item)
        return next(
            (t.device for t in self._picture.taints.taints_of(self._allocation) if t.seconds_tolerated() < NEVER), ""
        )


def _selectors(wanted: ClaimToAllocate) -> Iterator[CompiledSelector]:
    return (selector for alternatives in wanted.requests for ask in alternatives for selector in ask.selectors)


def _check_selector_count(*wanted: ClaimToAllocate) -> None:
    """Raise UnsatisfiableError if claims have more selectors than cached results.

    The selectors beyond that number would be evaluated repeatedly.
    """
    expressions = {selector.expression for claim in wanted for selector in _selectors(claim)}
    if len(expressions) > SELECTOR_RESULTS_MAX:
        raise UnsatisfiableError(
            f"the claim has {len(expressions)} CEL selectors, and at most {SELECTOR_RESULTS_MAX} are evaluated"
        )


def _allocation_reaches(allocation: AllocationResult, info: NodeInfo) -> bool:
    return nodes.matches_node_selector(allocation.node_selector, name=info.name, labels=info.labels)


def _allocations_reach(placed: Iterable[AllocationResult], info: NodeInfo) -> bool:
    return all(_allocation_reaches(allocation, info) for allocation in placed)


def _scheduler_message(pod: SchedulerPod) -> str:
    condition = pod.condition(POD_SCHEDULED)
    return condition.message if condition is not None else ""
