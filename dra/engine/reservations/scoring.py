"""The scores of nodes for a pod: best is the node whose reservation the pod fills most, last a node without one.

All scores are integers, as in Koordinator: for each resource that is held, the percentage that would be used; then the
mean of the resources.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.engine.reservations.amounts import PODS, NanoAmounts
from dra.engine.reservations.node_usage import ReservationUsage
from dra.model.meta import Struct

MAX_NODE_SCORE: Final = 100
MOST_PREFERRED_SCORE: Final = 1000
"""Score of the node with the smallest order label, before all scores are scaled down to 100."""


class NominatedReservation(Struct, frozen=True):
    """The reservation that a pod would use on a node, with its score."""

    node: str
    score: int
    order: int = 0


def most_allocated(held: ReservationUsage, wanted: NanoAmounts) -> int:
    """Return how full a reservation would be, from 0 to 100; a resource that would overflow counts 0."""
    parts = [
        MAX_NODE_SCORE * used // amount if used <= amount else 0
        for name, amount in held.holding.amounts.items()
        if amount > 0 and (name != PODS or held.holding.counts_pods)
        for used in (wanted.get(name, 0) + held.consumed.get(name, 0),)
    ]
    return sum(parts) // len(parts) if parts else 0


def reservation_score(held: ReservationUsage, wanted: NanoAmounts) -> int:
    """Return the score of a reservation for its node, from 0 to 100.

    A score of 0 means that no resource has enough left, so the pod may as well run on another node. A pod that fits
    prefers the node, however little of the reservation it uses.
    """
    fits = any(
        0 < wanted.get(name, 0) <= amount - held.consumed.get(name, 0)
        for name, amount in held.holding.amounts.items()
        if name != PODS or held.holding.counts_pods
    )
    return max(most_allocated(held, wanted), 1 if fits else 0)


def node_scores(nominees: Iterable[NominatedReservation]) -> Mapping[str, int]:
    """Return node → score, from 0 to 100; a node without an entry has 0."""
    found = tuple(nominees)
    ordered = [each for each in found if each.order]
    first = min(ordered, key=lambda each: (each.order, each.node)).node if ordered else None
    scores = {each.node: MOST_PREFERRED_SCORE if each.node == first else each.score for each in found}
    top = max(scores.values(), default=0)
    return {node: MAX_NODE_SCORE * score // top for node, score in scores.items()} if top else scores
