"""The evaluation of all profiles: the parameters of the admission policy, and the outcome for each profile."""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Final

import msgspec

from dra.api.object_fields import Condition, LenientModel, ObjectMetadata, to_document
from dra.api.profiles.model import ClusterColocationProfile, MalformedProfileError, ProfileStatus, parse_profile
from dra.api.profiles.parameters import MAX_PROFILES, ResolvedProfile
from dra.engine.profiles.conflicts import Conflict, by_profile, find_conflicts
from dra.engine.profiles.resolution import Resolution, resolve
from dra.model.koordinator_classes import PRIORITY_CLASS_NAMES, PRIORITY_RANGES
from dra.model.meta import Struct, Uid

MAX_MESSAGE_LENGTH: Final = 1024
"""Maximum length of the message of a condition, in characters."""


class _Identified(LenientModel):
    metadata: ObjectMetadata = ObjectMetadata()
    status: ProfileStatus = ProfileStatus()


class Outcome(Struct, frozen=True):
    """The outcome of the evaluation of one profile."""

    name: str
    fault: str = ""
    """Why the object is no profile; empty if it is one."""

    resolution: Resolution = Resolution()
    conflicts: tuple[Conflict, ...] = ()
    exceeds: bool = False
    """Whether the policy has no room for the profile."""

    profile: ClusterColocationProfile | None = None
    uid: Uid = Uid("")
    conditions: tuple[Condition, ...] = ()
    """The conditions in the status, as they are."""

    @property
    def applied(self) -> ResolvedProfile | None:
        """The profile as the policy applies it; None if it does not."""
        return None if self.exceeds else self.resolution.profile

    @property
    def unsupported(self) -> str:
        """The fields that no policy can apply, with the reasons; empty if there are none."""
        return "; ".join(map(str, self.resolution.refusals))

    @property
    def reason(self) -> tuple[str, str]:
        """The reason for which the profile is applied or not, as a word and as a text."""
        if self.fault:
            return "Invalid", self.fault
        if self.resolution.refusals:
            return "Unsupported", f"the profile is not applied, since no policy can do all of it: {self.unsupported}"
        if missing := self.resolution.missing_class:
            return "PriorityClassNotFound", (
                f"the profile is not applied until PriorityClass {missing} exists{_values_of(missing)}"
            )
        if self.resolution.disabled:
            return "Disabled", "spec.probability is 0, so the profile is applied to no pod"
        if self.exceeds:
            return "TooManyProfiles", f"the profile is not applied, since {MAX_PROFILES} others come first by name"
        return "Applied", "new pods that the profile selects get what it says"

    @property
    def conflict_text(self) -> str:
        """The fields that other profiles set differently for the same pods; empty if there are none."""
        return "; ".join(map(str, self.conflicts))


class Evaluation(Struct, frozen=True):
    """All profiles in name order."""

    outcomes: tuple[Outcome, ...]

    @property
    def profiles(self) -> tuple[ResolvedProfile, ...]:
        """The profiles that the policy applies."""
        return tuple(outcome.applied for outcome in self.outcomes if outcome.applied is not None)

    @property
    def parameters(self) -> dict[str, Any]:
        """The ``spec`` of the policy's parameters; the list is there even if it is empty.

        Trap: a server-side apply of an empty ``spec`` that takes the last field of a manager off makes it null, which
        the API server refuses; the deleted profiles would stay in effect.
        """
        return {"profiles": [to_document(profile) for profile in self.profiles]}


def evaluate(contents: Iterable[Mapping[str, Any]], *, priorities: Mapping[str, int]) -> Evaluation:
    """Return the outcome of all ClusterColocationProfiles; ``priorities`` are the values of PriorityClasses by name."""
    given = sorted(((_name(content), content) for content in contents), key=itemgetter(0))
    outcomes = [_resolved(name, content, priorities=priorities) for name, content in given]
    applied = [outcome.name for outcome in outcomes if outcome.applied is not None][:MAX_PROFILES]
    outcomes = [
        msgspec.structs.replace(outcome, exceeds=outcome.applied is not None and outcome.name not in applied)
        for outcome in outcomes
    ]
    conflicts = by_profile(find_conflicts(outcome.applied for outcome in outcomes if outcome.applied is not None))
    return Evaluation(
        outcomes=tuple(
            msgspec.structs.replace(outcome, conflicts=tuple(conflicts.get(outcome.name, ()))) for outcome in outcomes
        )
    )


def _values_of(name: str) -> str:
    """Return the values that one of Koordinator's PriorityClasses may have."""
    wanted = PRIORITY_CLASS_NAMES.get(name)
    return next(
        (f"; its value is {low} to {high}" for low, high, range_names in PRIORITY_RANGES if range_names is wanted), ""
    )


def _name(content: Mapping[str, Any]) -> str:
    metadata = content.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _resolved(name: str, content: Mapping[str, Any], *, priorities: Mapping[str, int]) -> Outcome:
    try:
        profile = parse_profile(content)
    except MalformedProfileError as error:
        identity = _Identified.model_validate(content)
        return Outcome(
            name=name, fault=str(error), uid=Uid(identity.metadata.uid), conditions=identity.status.conditions
        )
    return Outcome(
        name=name,
        profile=profile,
        resolution=resolve(profile, priorities=priorities),
        uid=Uid(profile.metadata.uid),
        conditions=profile.status.conditions,
    )
