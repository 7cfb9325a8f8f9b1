"""Which node a reservation is placed on, of those that have room: the emptiest, as Koordinator's default has it.

kube-scheduler would find the emptiest node by itself (LeastAllocated), but does not see what reservations hold. So the
same score is computed here, with what is held, in whole hundredths: nodes that differ by less are left to the other
scores of kube-scheduler, which also sees placeholders whose binding is under way.

A node where running pods would have to be taken in (pre-allocation) comes after all that have the room free, the fewer
pods the better. A template that states preferences of its own gets no scores: an extender's outweigh all others.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from dra.engine.reservations.amounts import CPU, NanoAmounts
from dra.engine.reservations.node_usage import NodeUsage

_SCORED_RESOURCES: Final = (CPU, "memory")
"""The resources of LeastAllocated as kube-scheduler has it by default."""

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PREFERENCES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")


_PENALTY_PER_POD: Final = 101
"""What a running pod that has to be taken in counts: more than any difference in room."""

PlacementOption: TypeAlias = tuple[NodeUsage, int]
"""A node that a reservation can be placed on, and over how many running pods."""


def has_preferences(template: Mapping[str, Any]) -> bool:
    """Whether a template prefers some nodes to others. What has another form than in a Pod says nothing."""
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
    """Return the nodes to which a reservation goes rather than to others."""
    found: dict[int, list[str]] = {}
    for room, over in options:
        found.setdefault(least_allocated(room, wanted) - _PENALTY_PER_POD * over, []).append(room.name)
    return tuple(found[max(found)]) if found else ()


def least_allocated(room: NodeUsage, wanted: NanoAmounts) -> int:
    """Return how much of a node would be free, from 0 to 100: the mean of cpu and memory, rounded down as upstream."""
    capacities, charged = room.capacity, room.charged
    total = count = 0
    for resource in _SCORED_RESOURCES:  # of thousands of nodes, each time: no list, no calls
        if capacity := capacities.get(resource, 0):
            count += 1
            free = capacity - charged.get(resource, 0) - wanted.get(resource, 0)
            if free > 0:
                total += 100 * free // capacity
    return total // count if count else 0
