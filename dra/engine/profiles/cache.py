"""The memory of the loop of profiles: profiles, PriorityClasses and the parameters as last seen."""

from collections.abc import Mapping
from typing import Any

from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.profiles.evaluation import Evaluation, evaluate
from dra.engine.profiles.resolution import priorities_of
from dra.model.meta import Struct, UnstructuredObject
from dra.model.preemption import PriorityClass

ALL: str = "profiles"
"""The one key: profiles are evaluated together."""


class ProfilesView(Struct, frozen=True):
    """All profiles, and what was written about them before."""

    evaluation: Evaluation
    parameters: Mapping[str, Any] | None
    """The present ``spec`` of the parameters; None if they do not exist."""


class ProfileCache(Cache[str]):
    """The memory of the loop; any change makes all profiles dirty, since each can be in conflict with another."""

    def __init__(self) -> None:
        self.dirty: DirtyKeys[str] = DirtyKeys()
        self._profiles: dict[str, Mapping[str, Any]] = {}
        self._classes: dict[str, PriorityClass] = {}
        self._parameters: Mapping[str, Any] | None = None

    def mark_all_dirty(self) -> None:
        """Mark the evaluation of all profiles."""
        self.dirty.add(ALL)

    def observe_profile(self, profile: UnstructuredObject) -> None:
        """Remember a profile that is new or has changed."""
        self._profiles[profile.metadata.name] = profile.content
        self.mark_all_dirty()

    def forget_profile(self, profile: UnstructuredObject) -> None:
        """Forget a profile that is gone."""
        self._profiles.pop(profile.metadata.name, None)
        self.mark_all_dirty()

    def observe_class(self, priority_class: PriorityClass) -> None:
        """Remember a PriorityClass and its value."""
        self._classes[priority_class.metadata.name] = priority_class
        self.mark_all_dirty()

    def forget_class(self, priority_class: PriorityClass) -> None:
        """Forget a PriorityClass that is gone."""
        self._classes.pop(priority_class.metadata.name, None)
        self.mark_all_dirty()

    def observe_parameters(self, parameters: UnstructuredObject) -> None:
        """Remember the parameters; another object of the kind has no effect."""
        self._parameters = parameters.content.get("spec") or {}
        self.mark_all_dirty()

    def forget_parameters(self, parameters: UnstructuredObject) -> None:  # noqa: ARG002 - there is one
        """Forget the parameters, which are gone."""
        self._parameters = None
        self.mark_all_dirty()

    def view(self) -> ProfilesView:
        """Return what is known now."""
        evaluation = evaluate(self._profiles.values(), priorities=priorities_of(self._classes.values()))
        return ProfilesView(evaluation=evaluation, parameters=self._parameters)
