"""The arguments of the plugins that judge pods one by one; the names are those of the community's descheduler 0.36.

What would be read and then do nothing is refused: an unknown state, an empty list of taints, a pattern instead of a
name. Times are in whole seconds.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from dra.api.descheduler.label_selector import Selector
from dra.api.descheduler.plugin_args import ArgsSection, Namespaces, PluginArgs
from dra.api.reservations.validation import is_label_key, is_label_value

_MAX_INT32: Final = 2**31 - 1

Seconds = Annotated[StrictInt, Field(ge=0)]
ExitCode = Annotated[StrictInt, Field(ge=-_MAX_INT32 - 1, le=_MAX_INT32)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=1024)]

PHASES: Final = ("Running", "Pending", "Succeeded", "Failed", "Unknown")
POD_REASONS: Final = ("NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
WAITING_REASONS: Final = (
    "PodInitializing",
    "ContainerCreating",
    "ImagePullBackOff",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "ErrImagePull",
    "CreateContainerError",
    "InvalidImageName",
)
TERMINATED_REASONS: Final = (
    "OOMKilled",
    "Error",
    "Completed",
    "DeadlineExceeded",
    "Evicted",
    "ContainerCannotRun",
    "StartError",
)
STATES: Final = (*PHASES, *POD_REASONS, *WAITING_REASONS, *TERMINATED_REASONS)
"""States of `PodLifeTimeArgs`: phases, reasons of the pod's status, reasons of its containers' states."""


def _state(given: str) -> str:
    if given not in STATES:
        raise ValueError(f"{given[:64]!r} is not a state; known are {', '.join(STATES)}")
    return given


class SelectedPodsArgs(PluginArgs):
    """The base of the arguments that select pods by namespace and labels."""

    namespaces: Namespaces = Namespaces()
    """The namespaces whose pods may be evicted; by default all."""

    label_selector: Selector | None = None
    """Labels of the pods that may be evicted; by default any."""


class OwnerKinds(ArgsSection):
    """The kinds of the owners of pods; at most one of the lists may be given."""

    include: tuple[Name, ...] = ()
    exclude: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.include and self.exclude:
            raise ValueError("give include or exclude, not both")
        return self

    def selects(self, kinds: Iterable[str]) -> bool:
        """Return whether a pod whose owners have these kinds is considered."""
        given = frozenset(kinds)
        return given.isdisjoint(self.exclude) and (not self.include or not given.isdisjoint(self.include))


class PodConditionFilter(ArgsSection):
    """A condition of a pod; the fields that are given must all match one condition."""

    type: Name | None = None
    status: Name | None = None
    reason: Name | None = None
    min_time_since_last_transition_seconds: Seconds | None = None
    """Minimum age of the condition's last transition; a condition without that time does not match."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("give at least one of type, status, reason, minTimeSinceLastTransitionSeconds")
        return self


class PodLifeTimeArgs(SelectedPodsArgs):
    """The arguments of PodLifeTime; a pod is evicted only if it meets every criterion that is given."""

    owner_kinds: OwnerKinds = OwnerKinds()

    max_pod_life_time_seconds: Seconds | None = None
    """Pods that are older are evicted."""

    states: tuple[Annotated[StrictStr, AfterValidator(_state)], ...] = ()
    """Phases, reasons of the pod's status, or reasons of its containers' states; one that is met is enough."""

    conditions: tuple[PodConditionFilter, ...] = ()
    """Conditions of the pod; one that is met is enough."""

    exit_codes: tuple[ExitCode, ...] = ()
    """Exit codes of ended containers; one that is met is enough."""

    including_init_containers: StrictBool = False
    """Whether states and exit codes of init containers count as well."""

    including_ephemeral_containers: StrictBool = False
    """Whether states of ephemeral containers count as well."""

    @model_validator(mode="after")
    def _some_criterion(self) -> Self:
        if self.max_pod_life_time_seconds is None and not (self.states or self.conditions or self.exit_codes):
            raise ValueError(
                "every pod would be evicted; give at least one of maxPodLifeTimeSeconds, states, conditions, exitCodes"
            )
        return self


class RemoveFailedPodsArgs(SelectedPodsArgs):
    """The arguments of RemoveFailedPods; a failed pod is evicted only if it meets every criterion that is given."""

    exclude_owner_kinds: tuple[Name, ...] = ()
    """Kinds of owners whose pods stay: Job, so that its failed pods can be read."""

    min_pod_lifetime_seconds: Seconds = 3600
    """Pods that are younger stay."""

    reasons: tuple[Name, ...] = ()
    """Reasons of the pod's status or of its containers' states; one that is met is enough."""

    exit_codes: tuple[ExitCode, ...] = ()
    """Exit codes of containers; one that is met is enough."""

    including_init_containers: StrictBool = False
    """Whether reasons and exit codes of init containers count as well."""


class RestartState(StrEnum):
    """The state of a pod that RemovePodsHavingTooManyRestarts may require."""

    RUNNING = "Running"
    """Phase Running."""

    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    """A container waits to be restarted."""


class RemovePodsHavingTooManyRestartsArgs(SelectedPodsArgs):
    """The arguments of RemovePodsHavingTooManyRestarts."""

    pod_restart_threshold: Annotated[StrictInt, Field(ge=1, le=_MAX_INT32)]
    """Restarts of all containers of a pod together from which on the pod is evicted."""

    including_init_containers: StrictBool = False
    """Whether restarts and states of init containers count as well."""

    states: tuple[RestartState, ...] = ()
    """States of the pod, of which one must be met; by default any."""


class RemovePodsViolatingInterPodAntiAffinityArgs(SelectedPodsArgs):
    """The arguments of RemovePodsViolatingInterPodAntiAffinity."""


class NodeAffinityType(StrEnum):
    """A kind of node affinity."""

    REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
    PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class RemovePodsViolatingNodeAffinityArgs(SelectedPodsArgs):
    """The arguments of RemovePodsViolatingNodeAffinity."""

    node_affinity_type: tuple[NodeAffinityType, ...]
    """The kinds of node affinity that the plugin checks."""

    @field_validator("node_affinity_type")
    @classmethod
    def _some_type(cls, given: tuple[NodeAffinityType, ...]) -> tuple[NodeAffinityType, ...]:
        if not given:
            raise ValueError(f"no pod would be evicted; name at least one of {', '.join(NodeAffinityType)}")
        return given


def _taint(given: str) -> str:
    key, equals, value = given.partition("=")
    if not is_label_key(key) or not is_label_value(value) or (equals and not value):
        raise ValueError(f"{given[:128]!r} is not a taint; write KEY or KEY=VALUE, without an effect and in full")
    return given


TaintPattern = Annotated[StrictStr, AfterValidator(_taint)]
"""A taint, as ``key`` or ``key=value``."""


class RemovePodsViolatingNodeTaintsArgs(SelectedPodsArgs):
    """The arguments of RemovePodsViolatingNodeTaints; at most one of the lists of taints may be given."""

    include_prefer_no_schedule: StrictBool = False
    """Whether taints with effect PreferNoSchedule count as well."""

    excluded_taints: tuple[TaintPattern, ...] = ()
    """Taints that do not count."""

    included_taints: tuple[TaintPattern, ...] | None = None
    """The only taints that count; by default all."""

    @field_validator("included_taints")
    @classmethod
    def _some_taint(cls, given: tuple[TaintPattern, ...] | None) -> tuple[TaintPattern, ...] | None:
        if given == ():
            raise ValueError("no taint would count; name the taints that count, or leave the field out for all")
        return given

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.excluded_taints and self.included_taints is not None:
            raise ValueError("give includedTaints or excludedTaints, not both")
        return self


class RemovePodsViolatingNodeReservationArgs(SelectedPodsArgs):
    """The arguments of RemovePodsViolatingNodeReservation."""
