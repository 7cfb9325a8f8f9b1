"""The scores of nodes for a pod: best is the node whose reservation the pod fills most, last a node without one.

All scores are integers, as in Koordinator: for each resource that is held, the percentage that would be used; then the
mean of the resources.

Among the reservations that fit a pod on one node, one that a PodMigrationJob created is chosen first, then the smallest
order label, then the fullest afterwards, then the first by name. A job has evicted a pod for its reservation: if the
replacement went elsewhere, perhaps back to the old node, the eviction would be for nothing.

For a reservation, the emptiest node is best, as by Koordinator's default. kube-scheduler would find the emptiest node
by itself (LeastAllocated), but does not see what reservations hold. So the same score is computed here, with what is
held, in whole percent: nodes that differ by less are left to the other scores of kube-scheduler, which also sees
placeholders whose binding is under way.

A node where the reservation would be placed over running pods (pre-allocation) ranks behind all nodes with enough free
capacity; fewer such pods are better. A template with preferences of its own gets no scores here: those of an extender
would outweigh the preferences.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from dra.engine.reservations.filters import NodeFilterResult, has_common_claim
from dra.engine.reservations.node_usage import NodeUsage, ReservationUsage
from dra.engine.reservations.pod_info import PodInfo
from dra.model.meta import Struct, Uid
from dra.model.quantities import CPU, PODS, Amounts

MAX_NODE_SCORE: Final = 100
MOST_PREFERRED_SCORE: Final = 1000
"""Score of the node with the first reservation by rank, before all scores are scaled down to 100."""


UNRANKED: Final = (True, True, 0)
"""Rank of a reservation that is for no migration and has no order label (`ReservationInfo.rank`)."""


class NominatedReservation(Struct, frozen=True):
    """The reservation that a pod would use on a node, with its score."""

    node: str
    score: int
    rank: tuple[bool, bool, int] = UNRANKED


def most_allocated(usage: ReservationUsage, wanted: Amounts) -> int:
    """Return how full a reservation would be, from 0 to 100; a resource that would overflow counts 0."""
    parts = [
        MAX_NODE_SCORE * used // amount if used <= amount else 0
        for name, amount in usage.info.allocatable.items()
        if amount > 0 and (name != PODS or usage.info.reserves_pods)
        for used in (wanted.get(name, 0) + usage.allocated.get(name, 0),)
    ]
    return sum(parts) // len(parts) if parts else 0


def reservation_score(usage: ReservationUsage, wanted: Amounts) -> int:
    """Return the score of a reservation for its node, from 0 to 100.

    A score of 0 means that no resource has enough left, so the pod may as well run on another node. A pod that fits
    prefers the node, however little of the reservation it uses.
    """
    fits = any(
        0 < wanted.get(name, 0) <= amount - usage.allocated.get(name, 0)
        for name, amount in usage.info.allocatable.items()
        if name != PODS or usage.info.reserves_pods
    )
    return max(most_allocated(usage, wanted), 1 if fits else 0)


def node_scores(nominees: Iterable[NominatedReservation]) -> Mapping[str, int]:
    """Return node → score, from 0 to 100; a node without an entry has 0."""
    candidates = tuple(nominees)
    ranked = [nominee for nominee in candidates if nominee.rank < UNRANKED]
    first = min(ranked, key=lambda nominee: (nominee.rank, nominee.node)).node if ranked else None
    scores = {nominee.node: MOST_PREFERRED_SCORE if nominee.node == first else nominee.score for nominee in candidates}
    top = max(scores.values(), default=0)
    return {node: MAX_NODE_SCORE * score // top for node, score in scores.items()} if top else scores


def nominate_reservation(node: NodeUsage, pod: PodInfo, fitting: Sequence[Uid]) -> Uid | None:
    """Return the reservation that a pod gets on this node; None if none fits."""

    def rank(uid: Uid) -> tuple[tuple[bool, bool, int], int, str, Uid]:
        usage = node.reservations[uid]
        return (usage.info.rank, -most_allocated(usage, pod.amounts), usage.info.name, uid)

    return min(fitting, key=rank, default=None)


def score_nominated(node: NodeUsage, pod: PodInfo, result: NodeFilterResult) -> NominatedReservation | None:
    """Return the nominated reservation of a node with its score; None if no reservation fits."""
    uid = nominate_reservation(node, pod, result.reservations)
    if uid is None:
        return None
    usage = node.reservations[uid]
    score = max(reservation_score(usage, pod.amounts), 1 if has_common_claim(usage.info, pod) else 0)
    return NominatedReservation(node=node.name, score=score, rank=usage.info.rank)


_SCORED_RESOURCES: Final = (CPU, "memory")
"""Resources that kube-scheduler's LeastAllocated scores by default."""

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PREFERENCES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")


_PENALTY_PER_POD: Final = 101
"""Penalty for each running pod that a reservation would be placed over: more than any difference in free capacity."""

PlacementOption: TypeAlias = tuple[NodeUsage, int]
"""A node on which a reservation can be placed, and over how many running pods."""


def has_preferences(template: Mapping[str, Any]) -> bool:
    """Return whether a template prefers some nodes to others; values that no Pod could have are ignored."""
    spec = _mapping(template.get("spec"))
    affinity = _mapping(spec.get("affinity"))
    if any(_mapping(affinity.get(kind)).get(_PREFERRED) for kind in _PREFERENCES):
        return True
    constraints = spec.get("topologySpreadConstraints")
    return isinstance(constraints, list) and any(
        _mapping(constraint).get("whenUnsatisfiable") == "ScheduleAnyway" for constraint in constraints
    )


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def best_nodes(options: Iterable[PlacementOption], wanted: Amounts) -> tuple[str, ...]:
    """Return the nodes with the highest score for a reservation."""
    by_score: dict[int, list[str]] = {}
    for node, over in options:
        by_score.setdefault(least_allocated(node, wanted) - _PENALTY_PER_POD * over, []).append(node.name)
    return tuple(by_score[max(by_score)]) if by_score else ()


def least_allocated(node: NodeUsage, wanted: Amounts) -> int:
    """Return how much of a node would be free, from 0 to 100: the mean of cpu and memory, rounded down as upstream."""
    capacities, requested = node.capacity, node.requested
    total = count = 0
    for resource in _SCORED_RESOURCES:  # runs for thousands of nodes each time: no list, no calls
        if capacity := capacities.get(resource, 0):
            count += 1
            free = capacity - requested.get(resource, 0) - wanted.get(resource, 0)
            if free > 0:
                total += 100 * free // capacity
    return total // count if count else 0
