"""One decision: where a pod goes and which devices its claims get; or what it waits for.

Nothing is written here and nothing is assumed. The order of upstream's plugins: claims (are they there, and may they be
used?), nodes (cordons, taints, affinity, room), then devices on the nodes that are left, the best node first.

An extender is asked about the nodes that have room, all of them: what is held on a node that was left out would not be
found.

KEP rule 7: an allocation that no node of the pod can use is given up (`Deallocation`) only if nobody else can have it:
the list is empty or names this very pod. An entry that is no pod's stands for users that nobody can count.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from dra.engine import allocatable
from dra.engine.allocatable import UnaccountableError
from dra.engine.allocate import Refusal, UnsatisfiableError, Wanted, allocations, prepare
from dra.engine.fit import Room, lacks, score, short, unsuited
from dra.local.scheduler.cluster import Cluster
from dra.local.scheduler.extending import Advisor
from dra.local.scheduler.queue import Entry, Need
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.nodes import matches
from dra.model.placement import NodeAllocatableClaimStatus, PlacedPod
from dra.model.pods import PodResourceClaim

ENOUGH: Final = 100
"""Nodes among which to choose: with more of them, looking further costs more than it gains (upstream has the same
minimum, and looks at a fraction of large clusters). Where the search begins moves on with each pod."""

_ELSEWHERE: Final = "resourceclaim not available on the node"


@dataclass(frozen=True, slots=True)
class Placement:
    """The pod goes to a node; `claims` are all of its claims, with an allocation if that is new."""

    node: str
    claims: tuple[tuple[ResourceClaim, AllocationResult | None], ...] = ()
    through_claims: tuple[NodeAllocatableClaimStatus, ...] = ()
    """What of the node's own resources the pod has through them (DRANodeAllocatableResources)."""

    def of(self, pod: PlacedPod) -> PlacedPod:
        """Return the pod that is placed, with what it has through its claims."""
        return allocatable.accounted(pod, list(self.through_claims)) if self.through_claims else pod


@dataclass(frozen=True, slots=True)
class Deallocation:
    """No node will do because of where this claim is allocated, and nobody else uses it: take the allocation back."""

    claim: ResourceClaim
    message: str


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node will do until something in `needs` happens."""

    message: str
    needs: Need


@dataclass(frozen=True, slots=True)
class Later:
    """Something is under way that the pod has to wait for; nobody need be told."""

    why: str
    needs: Need = Need.CLAIM


_Rated: TypeAlias = tuple[float, float, Room]
"""How good a node is, and the lot among equals."""

Verdict: TypeAlias = Placement | Deallocation | Unschedulable | Later


@dataclass(slots=True)
class Claims:
    """The claims of a pod."""

    all: list[ResourceClaim] = field(default_factory=list)
    wanted: list[tuple[ResourceClaim, Wanted]] = field(default_factory=list)
    placed: list[ResourceClaim] = field(default_factory=list)
    """Those whose allocation restricts the nodes."""
    unshared: str = ""
    """Why no node will do: other pods use a claim that can be used by one pod only."""


def decide(entry: Entry, cluster: Cluster, *, start: int, chance: Random, extender: Advisor | None = None) -> Verdict:
    """Decide about one pod; the search for nodes begins with the one of number `start`."""
    pod = entry.pod
    if pod.spec.scheduling_gates:
        return Later("has scheduling gates", Need.POD)
    claims = gather(entry, cluster)
    if not isinstance(claims, Claims):
        return claims
    rooms = cluster.rooms
    if not rooms:
        return Unschedulable("no nodes available to schedule pods", Need.NODE)
    nominated = cluster.room(pod.status.nominated_node_name)
    if nominated is not None:  # others have left for it there
        placement = _place(entry, cluster, claims, (nominated,), chance, extender)
        if isinstance(placement, Placement):
            return placement
    first = start % len(rooms)
    return _place(entry, cluster, claims, (*rooms[first:], *rooms[:first]), chance, extender)


def gather(entry: Entry, cluster: Cluster) -> Claims | Unschedulable | Later:
    """Return the pod's claims, or what they keep it waiting for."""
    found = Claims()
    for each in entry.pod.spec.resource_claims or ():
        claim = _claim_of(entry.pod, each, cluster)
        if isinstance(claim, Later | Unschedulable):
            return claim
        if claim is None or any(known is claim for known in found.all):
            continue
        problem = _add(found, claim, entry, cluster)
        if problem is not None:
            return problem
    return found


def _claim_of(
    pod: PlacedPod, reference: PodResourceClaim, cluster: Cluster
) -> ResourceClaim | Unschedulable | Later | None:
    """Return the claim that the pod means, None if none is needed, or what keeps the pod from using it."""
    namespace, name = pod.metadata.namespace, reference.resource_claim_name
    if name is None:
        made = next((s for s in pod.status.resource_claim_statuses or () if s.name == reference.name), None)
        if made is None:
            why = "waiting for dynamic resource controller to create the resourceclaim for pod"
            return Later(f'{why} "{namespace}/{pod.metadata.name}"', Need.CLAIM | Need.POD)
        name = made.resource_claim_name
        if name is None:
            return None
    claim = cluster.claims.get((namespace, name))
    if claim is None or claim.metadata.deleting:
        return Later(f'resourceclaim "{name}" {"not found" if claim is None else "is being deleted"}')
    if reference.resource_claim_name is None and claim.generated_for not in {None, pod.metadata.uid}:
        names = f"ResourceClaim {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name}"
        return Unschedulable(f"{names} (pod is not owner)", Need.CLAIM | Need.POD)
    return claim


def _add(found: Claims, claim: ResourceClaim, entry: Entry, cluster: Cluster) -> Unschedulable | Later | None:
    found.all.append(claim)
    allocation = claim.status.allocation
    if allocation is not None:
        if cluster.inventory.allocatable and allocatable.unshared(claim, entry.pod, cluster.inventory.device):
            cannot = "has a mapped device and cannot be shared across pods"
            found.unshared = f"node allocatable resource claim {claim.metadata.name} {cannot}"
        if allocation.node_selector is not None:
            found.placed.append(claim)
        return None
    if cluster.claims.in_flight(claim.metadata.uid):
        return Later(f'resourceclaim "{claim.metadata.name}" is in the process of being allocated')
    known = entry.wanted.get(claim.metadata.uid)
    if known is None or known[0] != cluster.classes_version:
        try:
            known = (cluster.classes_version, prepare(claim, cluster.classes))
        except UnsatisfiableError as error:
            return Unschedulable(f"0/{len(cluster.rooms)} nodes are available: {error}.", Need.CLASS | Need.CLAIM)
        entry.wanted[claim.metadata.uid] = known
    found.wanted.append((claim, known[1]))
    return None


def _place(
    entry: Entry,
    cluster: Cluster,
    claims: Claims,
    rooms: Sequence[Room],
    chance: Random,
    extender: Advisor | None,
) -> Verdict:
    """Return the best node that has all the pod needs; the first rooms are looked at first."""
    demand = entry.demand
    reasons: Counter[str] = Counter()
    needs = Need.NODE
    fitting: list[Room] = []
    elsewhere: list[ResourceClaim] = []
    for room in rooms:
        why = unsuited(room, demand)
        if why is not None:
            reasons[why] += 1
            continue
        lacking = lacks(room, demand)
        if lacking:
            reasons.update(lacking)
            needs |= Need.ROOM
            continue
        away = [c for c in claims.placed if not reaches(c, room)] if claims.placed else ()
        if away or claims.unshared:
            reasons[_ELSEWHERE if away else claims.unshared] += 1
            needs |= Need.CLAIM
            elsewhere += away
            continue
        fitting.append(room)
        if len(fitting) >= ENOUGH and extender is None:
            placement = _best(entry.pod, _rated(fitting, entry, chance), cluster, claims, reasons, chance)
            if placement is not None:
                return placement
            fitting = []
    if extender is None:
        rated = _rated(fitting, entry, chance)
    else:
        rated, refused = _extended(fitting, entry, chance, extender)
        reasons.update(refused)
        needs |= Need.ROOM if refused else Need.NOTHING
    placement = _best(entry.pod, rated, cluster, claims, reasons, chance) if rated else None
    if placement is not None:
        return placement
    needs |= _needs(claims, cluster)
    return _refusal(entry.pod, claims, reasons, needs, elsewhere, cluster)


def _needs(claims: Claims, cluster: Cluster) -> Need:
    """Return what a pod may have to wait for because of its claims."""
    needs = Need.DEVICE | Need.CLASS if claims.wanted else Need.NOTHING
    return needs | Need.ROOM | Need.DEVICE if cluster.inventory.allocatable and claims.all else needs


def _rated(
    fitting: list[Room], entry: Entry, chance: Random, points: Mapping[str, int] = MappingProxyType({})
) -> list[_Rated]:
    return [(points.get(room.name, 0) + score(room, entry.demand), chance.random(), room) for room in fitting]


def _extended(
    fitting: list[Room], entry: Entry, chance: Random, extender: Advisor
) -> tuple[list[_Rated], Collection[str]]:
    """Return what the extender leaves of nodes that have room, and its reasons against each of the others."""
    names = [room.name for room in fitting]
    refused = extender.filter(entry.pod, names) if names else {}
    left = [room for room in fitting if room.name not in refused]
    points = extender.scores(entry.pod, [room.name for room in left]) if left else {}
    return _rated(left, entry, chance, points), refused.values()


def _best(
    pod: PlacedPod,
    rated: list[_Rated],
    cluster: Cluster,
    claims: Claims,
    reasons: Counter[str],
    chance: Random,
) -> Placement | None:
    """Return the best of some nodes that have room: with the devices, if any are to be allocated."""
    counted = cluster.inventory.allocatable and bool(claims.all)
    if not claims.wanted and not counted:
        _, _, room = max(rated)
        return Placement(room.name, tuple((claim, None) for claim in claims.all))
    rated.sort(key=_by_rating, reverse=True)
    wanted = [each for _, each in claims.wanted]
    for _, _, room in rated:
        solution = cluster.allocate(wanted, room) if wanted else ()
        if isinstance(solution, Refusal):
            reasons[solution.text] += 1
            continue
        made = allocations(wanted, solution, node=room.name, share_id=partial(_share_id, chance))
        new = {claim.metadata.uid: result for (claim, _), result in zip(claims.wanted, made, strict=True)}
        placement = Placement(room.name, tuple((claim, new.get(claim.metadata.uid)) for claim in claims.all))
        found = _counted(pod, placement, room, cluster) if counted else placement
        if isinstance(found, Placement):
            return found
        reasons.update(found)
    return None


def _counted(pod: PlacedPod, placement: Placement, room: Room, cluster: Cluster) -> Placement | Sequence[str]:
    """Return a placement with what the pod has through its claims, or what the node has not enough of for that."""
    try:
        found = allocatable.statuses(pod, placement.claims, cluster.inventory.device)
    except UnaccountableError as error:
        return [str(error)]
    placement = replace(placement, through_claims=tuple(found))
    return (short(room, placement.of(pod)) if found else ()) or placement


def _share_id(chance: Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def _by_rating(rated: _Rated) -> tuple[float, float]:
    return rated[:2]


def reaches(claim: ResourceClaim, room: Room) -> bool:
    """Whether a claim can be used on a node."""
    allocation = claim.status.allocation
    return allocation is None or matches(allocation.node_selector, name=room.name, labels=room.labels)


def _refusal(
    pod: PlacedPod,
    claims: Claims,
    reasons: Counter[str],
    needs: Need,
    elsewhere: list[ResourceClaim],
    cluster: Cluster,
) -> Unschedulable | Deallocation:
    texts = sorted(f"{times} {reason}" for reason, times in reasons.items())
    message = f"0/{len(cluster.rooms)} nodes are available: {', '.join(texts)}."
    for claim in elsewhere:
        if _may_be_taken_back(claim, pod):
            return Deallocation(claim, f"{message} deallocation of ResourceClaim completed")
    return Unschedulable(f"{message} {cluster.release.traits.post_filter}".rstrip() if claims.all else message, needs)


def _may_be_taken_back(claim: ResourceClaim, pod: PlacedPod) -> bool:
    """Whether nobody but this pod can use the allocation (upstream's PostFilter, and KEP rule 7)."""
    if claim.status.allocation is None or claim.status.allocation.reserved_for_any_pod:
        return False
    return all(entry.is_pod and entry.uid == pod.metadata.uid for entry in claim.entries)
