"""Whether a node has enough of each resource for a pod: the amounts of kube-scheduler's filter NodeResourcesFit.

Only sums are compared: of what nodes hold for Reservations, `dra.engine.reservations.filters` takes account.
"""

from typing import Final, NamedTuple

from dra.model.quantities import NANOS_PER_UNIT, PODS, Amounts

DEFAULT_MAX_PODS: Final = 110 * NANOS_PER_UNIT
"""Billionths of ``pods`` on a node that reports none: the kubelet's default of ``maxPods``, 110."""


class Shortage(NamedTuple):
    """A resource of which a node has less left than a pod requests; amounts are in billionths."""

    resource: str
    requested: int
    used: int
    capacity: int


def node_capacity(allocatable: Amounts) -> Amounts:
    """Return what a node has for pods; a node that reports no ``pods`` takes as many as a kubelet does by default."""
    return {PODS: DEFAULT_MAX_PODS, **allocatable}


def shortages(wanted: Amounts, *, capacity: Amounts, requested: Amounts) -> tuple[Shortage, ...]:
    """Return the resources that a node lacks for a pod; ``requested`` is what its other pods take."""
    for name, amount in wanted.items():  # runs for thousands of nodes each time, and most of these have enough
        if amount > capacity.get(name, 0) - requested.get(name, 0) and amount > 0:
            break
    else:
        return ()
    return tuple(
        Shortage(name, amount, used=requested.get(name, 0), capacity=capacity.get(name, 0))
        for name, amount in wanted.items()
        if amount > 0 and amount > capacity.get(name, 0) - requested.get(name, 0)
    )
