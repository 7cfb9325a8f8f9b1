"""Where a pod could run, and what is in the way: nodes alike are one group, with numbers.

The order and the functions are those of the scheduler of the local plane; but where that one stops at the first
obstacle, all of them are told here: a node that lacks one thing is worth more to whoever reads this than one that lacks
three.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from dra.cel.devices import SelectorError
from dra.engine.allocatable import UnaccountableError, accounted, statuses, unshared
from dra.engine.allocate import Offer, Refusal, Wanted, allocate, allocations
from dra.engine.allocate.inventory import Candidate, State
from dra.engine.allocate.search import Pick, Solution
from dra.engine.allocate.wanted import Ask
from dra.engine.explain.scene import Scene
from dra.engine.fit import CORDON, Demand, Room, lacks, short, tolerates, unsuited
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct
from dra.model.nodes import Taint, matches

NAMED: Final = 3
"""Nodes of a group that are named; the rest is counted."""

HOLDERS: Final = 5
"""Claims that are named as holders of a group's devices."""


class Obstacle(StrEnum):
    """What keeps a node from taking a pod."""

    CORDONED = "cordoned"
    TAINTED = "tainted"
    SELECTOR = "selector"  # the pod's node selector or affinity
    ROOM = "room"  # CPUs, memory, places for pods
    ELSEWHERE = "elsewhere"  # a claim of the pod is allocated, and not here
    DEVICES = "devices"


class Devices(Struct, frozen=True):
    """The devices of one node, as one request sees them."""

    request: str
    asked: int
    """0: all there are."""

    offered: int = 0
    """Those that the request means."""

    held: int = 0
    tainted: int = 0
    shared: int = 0
    """Those that several requests may use at a time."""

    taints: tuple[str, ...] = ()
    """Taints that the request does not tolerate, of drivers and of DeviceTaintRules: ``key=value:effect``."""


class Barrier(Struct, frozen=True):
    """One obstacle with its numbers."""

    obstacle: Obstacle
    detail: str = ""
    devices: tuple[Devices, ...] = ()


class Holder(Struct, frozen=True):
    """A claim that has devices which the pod could use."""

    claim: Key
    devices: int


class NodeGroup(Struct, frozen=True):
    """Nodes with the same obstacles; none: the pod could run there."""

    count: int
    nodes: tuple[str, ...]
    barriers: tuple[Barrier, ...] = ()
    holders: tuple[Holder, ...] = ()
    others: int = 0
    """Further holders."""


def groups(
    scene: Scene, demand: Demand, *, placed: Sequence[ResourceClaim], wanted: Sequence[Wanted]
) -> tuple[NodeGroup, ...]:
    """Return all nodes in groups: those with the fewest obstacles first, large ones first among these."""
    found: dict[tuple[Barrier, ...], list[str]] = {}
    holders: dict[tuple[Barrier, ...], Counter[Key]] = {}
    for name, room in sorted(scene.rooms.items()):
        having: Counter[Key] = Counter()
        key = tuple(_barriers(room, demand, placed)) + tuple(_devices(scene, room, demand, wanted, placed, having))
        found.setdefault(key, []).append(name)
        holders.setdefault(key, Counter()).update(having)
    made = [_group(key, names, holders[key]) for key, names in found.items()]
    return tuple(sorted(made, key=_by_obstacles))


def _group(barriers: tuple[Barrier, ...], names: list[str], holders: Counter[Key]) -> NodeGroup:
    first = tuple(Holder(claim=key, devices=count) for key, count in holders.most_common(HOLDERS))
    return NodeGroup(
        count=len(names),
        nodes=tuple(names[:NAMED]),
        barriers=barriers,
        holders=first,
        others=max(len(holders) - len(first), 0),
    )


def _by_obstacles(group: NodeGroup) -> tuple[int, int, tuple[str, ...]]:
    return (len(group.barriers), -group.count, group.nodes)


def _barriers(room: Room, demand: Demand, placed: Sequence[ResourceClaim]) -> Iterator[Barrier]:
    """Yield what is in the way on a node, but for devices that are yet to be allocated."""
    for taint in room.taints:
        if not any(tolerates(by, taint) for by in demand.tolerations):
            cordon = taint.key == CORDON.key
            yield Barrier(
                obstacle=Obstacle.CORDONED if cordon else Obstacle.TAINTED, detail="" if cordon else _taint(taint)
            )
    if unsuited(replace(room, taints=()), demand) is not None:
        yield Barrier(obstacle=Obstacle.SELECTOR, detail=_selector(room, demand))
    if lacks(room, demand):
        yield Barrier(obstacle=Obstacle.ROOM, detail="; ".join(_room(room, demand)))
    for claim in placed:
        allocation = claim.status.allocation
        selector = allocation.node_selector if allocation is not None else None
        if not matches(selector, name=room.name, labels=room.labels):
            yield Barrier(obstacle=Obstacle.ELSEWHERE, detail=claim.metadata.name)


def _taint(taint: Taint) -> str:
    """Return a taint as kubectl takes it."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _selector(room: Room, demand: Demand) -> str:
    """Return the labels that are missing; empty if an affinity excludes the node."""
    wanted = demand.pod.spec.node_selector or {}
    return ",".join(f"{key}={value}" for key, value in wanted.items() if room.labels.get(key) != value)


def _room(room: Room, demand: Demand) -> Iterator[str]:
    for resource, amount in demand.amounts.items():
        there = room.allocatable.get(resource, 0)
        free = there - room.used.get(resource, 0)
        if amount > free:
            asked, left, whole = (shown(resource, each) for each in (amount, max(free, 0), there))
            kept = f"; the node keeps {shown(resource, room.kept[resource])}" if resource in room.kept else ""
            yield f"{resource}: {asked} asked for, {left} of {whole} free{kept}"


def shown(resource: str, amount: int) -> str:
    """Return an amount of `dra.engine.fit` in words."""
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource == "memory" or resource.startswith("hugepages-"):
        return f"{amount / 2**20:.0f}Mi"
    return str(amount)


def _devices(
    scene: Scene,
    room: Room,
    demand: Demand,
    wanted: Sequence[Wanted],
    placed: Sequence[ResourceClaim],
    having: Counter[Key],
) -> Iterator[Barrier]:
    """Yield why the devices of a node do not do, and count who has them."""
    solution: Solution | Refusal = ()
    offer = scene.inventory.offer(room.name, room.labels)
    if wanted:
        solution = allocate(wanted, offer=offer, ledger=scene.world.ledger, shares=scene.shares, conditional=True)
    if not isinstance(solution, Refusal):
        if scene.inventory.allocatable:
            yield from _allocatable(scene, room, demand, [*zip(wanted, solution, strict=True)], placed)
        return
    counted = tuple(_count(scene, offer, ask, having) for claim in wanted for asks in claim.requests for ask in asks)
    yield Barrier(obstacle=Obstacle.DEVICES, detail="; ".join(_beyond(offer, solution, counted)), devices=counted)


def _allocatable(
    scene: Scene,
    room: Room,
    demand: Demand,
    solved: Sequence[tuple[Wanted, tuple[Pick, ...]]],
    placed: Sequence[ResourceClaim],
) -> Iterator[Barrier]:
    """Yield what a node has not enough of once the pod has its devices (DRANodeAllocatableResources)."""
    pod, device_of = demand.pod, scene.inventory.device
    for claim in placed:
        if unshared(claim, pod, device_of):
            why = "stands for resources of its node, is used by another pod, and is for one pod only"
            yield Barrier(obstacle=Obstacle.DEVICES, detail=f"claim {claim.metadata.name} {why}")
    made = allocations(
        [wanted for wanted, _ in solved], tuple(picks for _, picks in solved), node=room.name, share_id=lambda: ""
    )
    new = [(scene.world.claim(wanted.key), given) for (wanted, _), given in zip(solved, made, strict=True)]
    known = [(claim, given) for claim, given in new if claim is not None]
    try:
        found = statuses(pod, [*((claim, None) for claim in placed), *known], device_of)
    except UnaccountableError as error:
        yield Barrier(obstacle=Obstacle.DEVICES, detail=str(error))
        return
    lacking = short(room, accounted(pod, found)) if found and not lacks(room, demand) else ()
    if lacking:
        told = "; ".join(_room(room, Demand.of(accounted(pod, found))))
        yield Barrier(obstacle=Obstacle.ROOM, detail=f"with its devices: {told or lacking[0]}")


def _count(scene: Scene, offer: Offer, ask: Ask, having: Counter[Key]) -> Devices:
    meant = [c for share in offer.shares for c in share.candidates if _means(ask, c)]
    held = tainted = 0
    taints: set[str] = set()
    for candidate in meant:
        if not candidate.device.allow_multiple_allocations and not scene.world.ledger.free(candidate.item):
            held += 1
            holder = scene.world.ledger.holder(candidate.item)
            if holder is not None:
                having[holder.key] += 1
        elif candidate.device.taints and not ask.tolerates(candidate.device.taints):
            tainted += 1
            taints |= {str(taint) for taint in candidate.device.taints if not ask.tolerates([taint])}
    shared = sum(bool(candidate.device.allow_multiple_allocations) for candidate in meant)
    return Devices(
        request=ask.name,
        asked=ask.count or 0,
        offered=len(meant),
        held=held,
        tainted=tainted,
        shared=shared,
        taints=tuple(sorted(taints)),
    )


def _means(ask: Ask, candidate: Candidate) -> bool:
    try:
        return ask.means(candidate)
    except SelectorError:
        return False


def _beyond(offer: Offer, refusal: Refusal, counted: Sequence[Devices]) -> Iterator[str]:
    """Yield what the numbers do not say."""
    states = {
        State.INCOMPLETE: "is being updated: slices of it are missing",
        State.INVALID: "is invalid: devices or counters contradict",
    }
    for share in offer.shares:
        if share.state is not State.COMPLETE:
            yield f"pool {'/'.join(share.pool.key)} {states[share.state]}"
    if refusal.text != "cannot allocate all claims":
        yield refusal.text
    elif counted and all(d.offered - d.held - d.tainted >= max(d.asked, 1) for d in counted):
        yield "there are enough, but not together: constraints, shared counters or capacity exclude each other"
