"""The arguments of the plugins that spread pods; the names are those of the community's descheduler 0.36."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StrictBool, StrictStr, field_validator

from dra.api.descheduler.label_selector import LabelSelector
from dra.api.descheduler.plugin_args import Namespaces, PluginArgs


class RemoveDuplicatesArgs(PluginArgs):
    """The arguments of RemoveDuplicates."""

    namespaces: Namespaces = Namespaces()
    """The namespaces whose pods are considered; by default all."""

    exclude_owner_kinds: tuple[Annotated[StrictStr, Field(min_length=1, max_length=1024)], ...] = ()
    """Kinds of owners whose pods may share a node: ReplicaSet."""


class UnsatisfiableConstraintAction(StrEnum):
    """The action of kube-scheduler on a pod whose topology spread constraint no node satisfies."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


_DEFAULT_CONSTRAINTS: Final = (UnsatisfiableConstraintAction.DO_NOT_SCHEDULE,)


class RemovePodsViolatingTopologySpreadConstraintArgs(PluginArgs):
    """The arguments of RemovePodsViolatingTopologySpreadConstraint."""

    namespaces: Namespaces = Namespaces()
    """The namespaces whose pods are considered; by default all."""

    label_selector: LabelSelector | None = None
    """Labels of the pods that may be evicted; pods that lack the labels still count. By default any."""

    constraints: tuple[UnsatisfiableConstraintAction, ...] = _DEFAULT_CONSTRAINTS
    """Which constraints count, by their ``whenUnsatisfiable``; an empty list stands for the default."""

    topology_balance_node_fit: StrictBool = True
    """Whether a pod is a candidate only if it fits on a node of a domain with fewer pods than the average. The
    ``nodeFit`` of the profile is another check, which the round makes on each candidate."""

    @field_validator("constraints")
    @classmethod
    def _some(cls, given: tuple[UnsatisfiableConstraintAction, ...]) -> tuple[UnsatisfiableConstraintAction, ...]:
        return given or _DEFAULT_CONSTRAINTS
