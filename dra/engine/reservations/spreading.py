"""Which node a reservation is placed on, of those that have room: the emptiest, as Koordinator's default has it.

kube-scheduler would find the emptiest node by itself (LeastAllocated), but does not see what reservations hold. So the
same score is computed here, with what is held, in whole hundredths: nodes that differ by less are left to the other
scores of kube-scheduler, which also sees placeholders whose binding is under way.

A node where running pods would have to be taken in (pre-allocation) comes after all that have the room free, the fewer
pods the better. A template that states preferences of its own gets no scores: an extender's outweigh all others.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dra.engine.reservations.amounts import CPU, Amounts
from dra.engine.reservations.rooms import Room
from dra.model.meta import Struct

_SCORED: Final = (CPU, "memory")
"""The resources of LeastAllocated as kube-scheduler has it by default."""

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PREFERENCES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")


class Option(Struct, frozen=True):
    """A node that a reservation can be placed on."""

    room: Room
    over: int = 0
    """How many running pods it would be placed over."""


def states_preferences(template: Mapping[str, Any]) -> bool:
    """Whether a template prefers some nodes to others. What has another form than in a Pod says nothing."""
    spec = _object(template.get("spec"))
    affinity = _object(spec.get("affinity"))
    if any(_object(affinity.get(kind)).get(_PREFERRED) for kind in _PREFERENCES):
        return True
    constraints = spec.get("topologySpreadConstraints")
    return isinstance(constraints, list) and any(
        _object(each).get("whenUnsatisfiable") == "ScheduleAnyway" for each in constraints
    )


def _object(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def best(options: Iterable[Option], wanted: Amounts) -> tuple[str, ...]:
    """Return the nodes to which a reservation goes rather than to others."""
    found = {each.room.name: (-each.over, least_allocated(each.room, wanted)) for each in options}
    top = max(found.values(), default=None)
    return tuple(name for name, value in found.items() if value == top)


def least_allocated(room: Room, wanted: Amounts) -> int:
    """Return how much of a node would be free, from 0 to 100: the mean of cpu and memory, rounded down as upstream."""
    parts = [
        max(0, 100 * (room.free(resource) - wanted.get(resource, 0)) // capacity)
        for resource in _SCORED
        if (capacity := room.capacity.get(resource, 0)) > 0
    ]
    return sum(parts) // len(parts) if parts else 0
