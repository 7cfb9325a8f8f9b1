"""Answers rule 9's question: where pods could run that wait for an allocated claim, if the allocation were taken back.

The nodes are asked as a scheduler asks them: taints, affinity and room (`dra.engine.fit`), then devices
(`dra.engine.allocate`), with the devices of the claim itself counted as free. What this engine does not decide
(volumes, other pods, topology) can only exclude more nodes; a pod with such constraints counts as able to run elsewhere
only if kube-scheduler itself says that a claim is all that stands in its way on some node.

Reading a cluster is expensive, so the question comes in two steps: `Search.nodes` names the nodes on which everything
but room would do, and only the pods of those nodes have to be known for `Search.placements`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from dra.cel.devices import Selector
from dra.cel.losses import loses
from dra.engine.allocatable import UnaccountableError, accounted, statuses, unshared
from dra.engine.allocate import Inventory, Refusal, Shares, UnsatisfiableError, Wanted, allocate, allocations, prepare
from dra.engine.allocate.inventory import REMEMBERED
from dra.engine.claims.view import Placements
from dra.engine.eviction import tolerated
from dra.engine.fit import Demand, Room, lacks, uncovered, unsuited
from dra.engine.instants import NEVER, Instant
from dra.engine.ledger import Item, Ledger
from dra.engine.taints import TaintIndex
from dra.model import nodes
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.classes import DeviceClass
from dra.model.constraints import beyond
from dra.model.meta import Key, Uid
from dra.model.placement import PlacedPod
from dra.model.pods import SCHEDULED, claim_names

STEPS: Final = 1_000
"""Picks per node after which the allocator gives up: the answer may be too cautious, but never blocks the process."""

SHAPES: Final = 32
"""Unlike pods that are looked at for one claim."""

UNAVAILABLE: Final = "resourceclaim not available on the node"
"""kube-scheduler's words for a node on which only a claim is in the way (dynamicresources.go, Filter, 1.34 to 1.36)."""


@dataclass(slots=True)
class Picture:
    """What a live read showed: nodes, the pods on some of them, devices, and who has which."""

    rooms: dict[str, Room]
    inventory: Inventory
    classes: dict[str, DeviceClass]
    ledger: Ledger
    shares: Shares
    taints: TaintIndex = field(default_factory=TaintIndex)


@dataclass(slots=True)
class _Shape:
    """Pods that are alike in all that matters here."""

    demand: Demand
    pod: PlacedPod
    uids: list[Uid]
    inside: list[tuple[Room, Demand]] = field(default_factory=list)
    """With what a pod takes there, through its claims, too (DRANodeAllocatableResources)."""
    outside: list[tuple[Room, Demand]] = field(default_factory=list)


class Search:
    """One question about one allocated claim."""

    def __init__(
        self,
        claim: ResourceClaim,
        pods: Iterable[PlacedPod],
        *,
        picture: Picture,
        claim_of: Callable[[Key], ResourceClaim | None],
    ) -> None:
        """Raises UnsatisfiableError if nobody here can tell what the claim asks for, ValueError if nothing is taken."""
        allocation = claim.status.allocation
        if allocation is None:
            raise ValueError(f"claim {'/'.join(claim.metadata.key)} is not allocated")
        self.claim = claim.metadata.key
        self._claim = claim
        self._allocation: AllocationResult = allocation
        self._picture = picture
        self._claim_of = claim_of
        self._wanted = prepare(claim, picture.classes)
        _few_selectors(self._wanted)
        self._ledger = picture.ledger.without(claim.metadata.uid)
        self._served = {each.spec.extended_resource_name for each in picture.classes.values()}
        self._gone = self._broken()
        self._shapes = self._grouped(pods)

    def nodes(self) -> frozenset[str]:
        """Return the nodes on which a pod could run if there were room, as far as `steps` has looked for them."""
        return frozenset(room.name for shape in self._shapes for room, _ in (*shape.inside, *shape.outside))

    @property
    def loses(self) -> bool:
        """Whether selectors may lose memory (`dra.cel.losses`): those of the claim, and of others beside it."""
        return any(loses(selector.expression) for selector in _selectors(self._wanted)) or any(
            len(claim_names(shape.pod)) > 1 for shape in self._shapes
        )

    def steps(self) -> Generator[None, None, None]:
        """Look for `nodes`, a piece of work at a time: a selector of the claim's user for one device, or one node.

        Both may take long, and others have work to do. To be closed if it is not run to its end.
        """
        shares, uid = self._picture.shares, self._claim.metadata.uid
        shares.put(uid, None)
        try:
            for shape in self._shapes:
                yield from self._find(shape)
        finally:
            shares.put(uid, self._allocation)

    def placements(self, *, at: Instant) -> Placements:
        """Return the answer; the pods of all `nodes` must be in their rooms."""
        here: set[Uid] = set()
        elsewhere: set[Uid] = set()
        for shape in self._shapes:
            if any(not lacks(room, demand) for room, demand in shape.inside):
                here.update(shape.uids)
            elif any(not lacks(room, demand) for room, demand in shape.outside):
                elsewhere.update(shape.uids)
        return Placements(
            allocation=self._allocation,
            at=at,
            pods=frozenset(uid for shape in self._shapes for uid in shape.uids),
            here=frozenset(here),
            elsewhere=frozenset(elsewhere),
            roomless=any(shape.inside for shape in self._shapes),
            gone=self._gone,
        )

    def _grouped(self, pods: Iterable[PlacedPod]) -> list[_Shape]:
        found: dict[object, _Shape] = {}
        for pod in pods:
            demand = self._demand(pod)
            key = (
                tuple(sorted(demand.amounts.items())),
                msgspec.json.encode((pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations)),
                claim_names(pod),
                self._through_claims(pod),
                beyond(pod) and UNAVAILABLE in _verdict(pod),
                beyond(pod),
            )
            shape = found.get(key)
            if shape is not None:
                shape.uids.append(pod.metadata.uid)
            elif len(found) < SHAPES:
                found[key] = _Shape(demand, pod, [pod.metadata.uid])
        return list(found.values())

    def _find(self, shape: _Shape) -> Iterator[None]:
        """Find the nodes that suit pods of a shape, inside the allocation and outside."""
        others = [self._claim_of((shape.pod.metadata.namespace, name)) for name in claim_names(shape.pod)]
        if any(other is None or other.metadata.deleting for other in others):
            return  # the pod cannot be scheduled anyhow
        beside = [c for c in others if c is not None and c.metadata.uid != self._claim.metadata.uid]
        if any(self._unshared(each, shape.pod) for each in (self._claim, *beside)):
            return  # it is for one pod, and has one
        try:
            unallocated = [c for c in beside if c.status.allocation is None]
            more = [prepare(c, self._picture.classes) for c in unallocated]
            _few_selectors(self._wanted, *more)
        except UnsatisfiableError:
            return
        placed = [c.status.allocation for c in beside if c.status.allocation is not None]
        vouched = not beyond(shape.pod) or UNAVAILABLE in _verdict(shape.pod)
        given_up = False
        for room in self._picture.rooms.values():
            yield
            if not room.known or unsuited(room, shape.demand) is not None or not _reach(placed, room):
                continue
            inside = _reaches(self._allocation, room) and not self._gone
            if not inside and not vouched:
                continue
            wanted = more if inside else [self._wanted, *more]
            yield from self._judge(wanted, room)
            made = self._finds(wanted, room) if wanted else []
            given_up = given_up or made is None
            if not made and wanted:
                continue
            chosen = [c.metadata.uid for c in (unallocated if inside else [self._claim, *unallocated])]
            demand = self._taking(shape, [self._claim, *beside], dict(zip(chosen, made or (), strict=True)))
            if demand is not None:
                (shape.inside if inside else shape.outside).append((room, demand))
        if given_up:
            shape.outside.clear()

    def _judge(self, wanted: Sequence[Wanted], room: Room) -> Iterator[None]:
        """Have the selectors asked about the devices of a node, before the allocator asks them all at once."""
        asks = [ask.selectors for each in wanted for alternatives in each.requests for ask in alternatives]
        if not any(asks):
            return
        for share in self._picture.inventory.offer(room.name, room.labels).shares:
            for candidate in share.listed:
                yield from candidate.judge(asks)

    def _demand(self, pod: PlacedPod) -> Demand:
        return _without(Demand.of(pod), self._served)

    def _through_claims(self, pod: PlacedPod) -> object:
        """Return what of a pod decides what it has of its node through its claims, and whether it may use them."""
        if not self._picture.inventory.allocatable:
            return None
        containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
        return (self._unshared(self._claim, pod), msgspec.json.encode([c.resources.claims for c in containers]))

    def _unshared(self, claim: ResourceClaim, pod: PlacedPod) -> bool:
        inventory = self._picture.inventory
        return inventory.allocatable and unshared(claim, pod, inventory.device)

    def _taking(self, shape: _Shape, claims: list[ResourceClaim], new: dict[Uid, AllocationResult]) -> Demand | None:
        """Return what a pod takes of a node with these allocations; None if it could be on no node with them."""
        if not self._picture.inventory.allocatable:
            return shape.demand
        pairs = [(claim, new.get(claim.metadata.uid)) for claim in claims]
        try:
            pod = accounted(shape.pod, statuses(shape.pod, pairs, self._picture.inventory.device))
        except UnaccountableError:
            return None
        return None if uncovered(pod) else self._demand(pod)

    def _finds(self, wanted: Sequence[Wanted], room: Room) -> list[AllocationResult] | None:
        """Return the devices that a node has, none if it has not; None if kube-scheduler would give up the pod."""
        picture = self._picture
        offer = picture.inventory.offer(room.name, room.labels)
        if not offer.shares and any(each.requests for each in wanted):
            return []
        solution = allocate(
            wanted, offer=offer, ledger=self._ledger, shares=picture.shares, conditional=True, steps=STEPS
        )
        if isinstance(solution, Refusal):
            return None if solution.fatal else []
        made = allocations(wanted, solution, node=room.name, share_id=lambda: "")
        return [] if any(tolerated(t) < NEVER for each in made for t in picture.taints.on(each)) else made

    def _broken(self) -> str:
        """Return the first device of the allocation that is offered no more, or that a taint ends pods on."""
        for result in self._allocation.devices.results or ():
            item = Item(driver=result.driver, pool=result.pool, device=result.device)
            if self._picture.inventory.candidate(item) is None and self._picture.inventory.settled(item):
                return str(item)
        return next((t.device for t in self._picture.taints.on(self._allocation) if tolerated(t) < NEVER), "")


def _selectors(wanted: Wanted) -> Iterator[Selector]:
    return (selector for alternatives in wanted.requests for ask in alternatives for selector in ask.selectors)


def _few_selectors(*wanted: Wanted) -> None:
    """Raise UnsatisfiableError if claims have more selectors than answers are kept of: each would be asked again."""
    found = {selector.expression for each in wanted for selector in _selectors(each)}
    if len(found) > REMEMBERED:
        raise UnsatisfiableError(f"its {len(found)} selectors are more than the {REMEMBERED} that are looked at")


def _reaches(allocation: AllocationResult, room: Room) -> bool:
    return nodes.matches(allocation.node_selector, name=room.name, labels=room.labels)


def _reach(placed: Iterable[AllocationResult], room: Room) -> bool:
    return all(_reaches(each, room) for each in placed)


def _without(demand: Demand, resources: set[str | None]) -> Demand:
    """Return the demand without extended resources that devices stand for: no node has those in its capacity."""
    if not any(resource in resources for resource in demand.amounts):
        return demand
    left = {resource: amount for resource, amount in demand.amounts.items() if resource not in resources}
    return Demand(demand.pod, left, demand.weight, demand.tolerations)


def _verdict(pod: PlacedPod) -> str:
    condition = pod.condition(SCHEDULED)
    return condition.message if condition is not None else ""
