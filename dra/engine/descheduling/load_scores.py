"""The scores of nodes, by how full these are, and of pods, by how well these match the excess of their node."""

from collections.abc import Mapping
from typing import Final

from dra.engine.descheduling.node_classification import in_units
from dra.model.quantities import Amounts

_SCORE_MAX: Final = 1000


def node_score(use: Amounts, capacity: Amounts, *, weights: Mapping[str, int]) -> int:
    """Return how full a node is, from 0 to 1000: the weighted mean of its resources."""
    total = sum(weights.values())
    scores = 0
    for name, weight in weights.items():
        there = in_units(name, capacity.get(name, 0))
        if there > 0:
            scores += weight * (min(in_units(name, use.get(name, 0)), there) * _SCORE_MAX // there)
    return scores // total if total else 0


def pod_score(use: Amounts, excess: Amounts, *, weights: Mapping[str, int]) -> float:
    """Return how well the use of a pod matches what its node has too much: best is the pod just above the excess.

    A pod below the excess scores its part of it; one above scores 1 plus the part that the excess is of the pod.
    Since koordinator#2092: the largest pod first moved more than was needed.
    """
    total = sum(weights.values())
    if not total:
        return 0.0
    score = 0.0
    for name, weight in weights.items():
        ratio = use.get(name, 0) / excess[name]
        score += weight * (1 / ratio + 1 if ratio >= 1 else ratio)
    return score / total
