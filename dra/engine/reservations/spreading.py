"""The scores of nodes for a reservation: the emptiest node is best, as by Koordinator's default.

kube-scheduler would find the emptiest node by itself (LeastAllocated), but does not see what reservations hold. So the
same score is computed here, with what is held, in whole percent: nodes that differ by less are left to the other scores
of kube-scheduler, which also sees placeholders whose binding is under way.

A node where the reservation would be placed over running pods (pre-allocation) ranks behind all nodes with enough free
capacity; fewer such pods are better. A template with preferences of its own gets no scores here: those of an extender
would outweigh the preferences.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from dra.engine.reservations.amounts import CPU, NanoAmounts
from dra.engine.reservations.node_usage import NodeUsage

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
        _mapping(each).get("whenUnsatisfiable") == "ScheduleAnyway" for each in constraints
    )


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def best_nodes(options: Iterable[PlacementOption], wanted: NanoAmounts) -> tuple[str, ...]:
    """Return the nodes with the highest score for a reservation."""
    found: dict[int, list[str]] = {}
    for room, over in options:
        found.setdefault(least_allocated(room, wanted) - _PENALTY_PER_POD * over, []).append(room.name)
    return tuple(found[max(found)]) if found else ()


def least_allocated(room: NodeUsage, wanted: NanoAmounts) -> int:
    """Return how much of a node would be free, from 0 to 100: the mean of cpu and memory, rounded down as upstream."""
    capacities, charged = room.capacity, room.charged
    total = count = 0
    for resource in _SCORED_RESOURCES:  # runs for thousands of nodes each time: no list, no calls
        if capacity := capacities.get(resource, 0):
            count += 1
            free = capacity - charged.get(resource, 0) - wanted.get(resource, 0)
            if free > 0:
                total += 100 * free // capacity
    return total // count if count else 0
