"""Conflicts of profiles: two that set one field of the same pods to different values.

The last one by name wins, as in Koordinator; unlike there, both say so in their status.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from dra.api.profiles.parameters import ResolvedProfile
from dra.engine.profiles.selectors import can_overlap
from dra.model.meta import Struct


class Conflict(Struct, frozen=True):
    """A field that two profiles set differently."""

    field: str
    loser: str
    """The profile that is first by name."""
    winner: str
    """The profile that is last by name."""

    def __str__(self) -> str:
        return f"{self.field} is set differently by {self.loser} and {self.winner}: {self.winner} wins"


def find_conflicts(profiles: Iterable[ResolvedProfile]) -> Iterator[Conflict]:
    """Yield the conflicts of profiles that are given in name order."""
    values = [(profile, dict(_fields(profile))) for profile in profiles]
    for (one, ours), (other, theirs) in combinations(values, 2):
        differing = [field for field in ours if field in theirs and ours[field] != theirs[field]]
        if differing and _share_pods(one, other):
            yield from (Conflict(field=field, loser=one.name, winner=other.name) for field in differing)


def by_profile(conflicts: Iterable[Conflict]) -> dict[str, list[Conflict]]:
    """Return the conflicts of each profile that has any."""
    conflicts_of: dict[str, list[Conflict]] = {}
    for conflict in conflicts:
        for name in (conflict.loser, conflict.winner):
            conflicts_of.setdefault(name, []).append(conflict)
    return conflicts_of


def _share_pods(one: ResolvedProfile, other: ResolvedProfile) -> bool:
    return can_overlap(one.namespace_requirements, other.namespace_requirements) and can_overlap(
        one.pod_requirements, other.pod_requirements
    )


def _fields(profile: ResolvedProfile) -> Iterator[tuple[str, object]]:
    for field, entries, copies in (
        ("labels", profile.labels, profile.label_copies),
        ("annotations", profile.annotations, profile.annotation_copies),
    ):
        yield from ((f"metadata.{field}[{entry.key}]", entry.value) for entry in entries)
        yield from ((f"metadata.{field}[{entry.target}]", ("copied from", entry.source)) for entry in copies)
    spec: Mapping[str, object] = {
        "schedulerName": profile.scheduler_name or None,
        "priorityClassName": profile.priority_class_name or None,
        "terminationGracePeriodSeconds": profile.termination_grace_period_seconds,
    }
    yield from ((f"spec.{name}", value) for name, value in spec.items() if value is not None)
