"""PriorityClasses and PodDisruptionBudgets: the inputs to preemption."""

from collections.abc import Mapping
from typing import Final

import msgspec

from dra.model.meta import BoundedObject, Key, ObjectMeta, Struct
from dra.model.nodes import NodeSelectorRequirement

PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
PREEMPT_NEVER: Final = "Never"


class PriorityClass(Struct, frozen=True):
    """A PriorityClass: a priority under a name; one class may be the default for pods that name none."""

    metadata: ObjectMeta
    value: int = 0
    global_default: bool = False
    preemption_policy: str = PREEMPT_LOWER_PRIORITY


class LabelSelector(Struct, frozen=True):
    """A selector of labels. What an empty selector matches depends on the field: see `matches` and `selects`."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[NodeSelectorRequirement] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the selector requires nothing."""
        return not (self.match_labels or self.match_expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Report whether a non-empty selector matches these labels."""
        return not self.is_empty and self.selects(labels)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Report whether the selector matches an object with these labels; an empty one matches every object."""
        wanted, more = self.match_labels or {}, self.match_expressions or ()
        return wanted.items() <= labels.items() and all(
            requirement.matches(labels.get(requirement.key)) for requirement in more
        )


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """``spec`` of a PodDisruptionBudget."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""
    """``AlwaysAllow``: pods that are not ready may always be evicted."""


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """``status`` of a PodDisruptionBudget, which the disruption controller writes."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, str] = msgspec.field(default_factory=dict)
    """Name of a pod → time of its eviction; ``disruptionsAllowed`` counts such a pod already."""


class PodDisruptionBudget(BoundedObject, frozen=True):
    """A PodDisruptionBudget: the number of pods of an application that may be evicted at a time."""

    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()

    def matches_pod(self, pod: Key, labels: Mapping[str, str], *, empty_matches: bool = True) -> bool:
        """Report whether kube-scheduler's preemption counts an eviction of the pod against the budget.

        ``empty_matches``: an empty selector covers the namespace, and pods without labels are covered, as since 1.38
        (k/k#141785). Up to 1.37 kube-scheduler passes over both.
        """
        namespace, name = pod
        selector = self.spec.selector
        return (
            self.metadata.namespace == namespace
            and selector is not None
            and (empty_matches or (bool(labels) and not selector.is_empty))
            and selector.selects(labels)
            and name not in self.status.disrupted_pods
        )

    def covers(self, pod: ObjectMeta) -> bool:
        """Report whether the eviction API checks the budget for the pod: an empty selector covers the namespace."""
        selector = self.spec.selector
        if self.metadata.namespace != pod.namespace or selector is None:
            return False
        return selector.is_empty or selector.matches(pod.labels or {})


class TargetReference(Struct, frozen=True):
    """``spec.targetRef`` of a PodUnavailableBudget: the workload whose pods are counted."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class PodUnavailableBudgetSpec(Struct, frozen=True):
    """``spec`` of a PodUnavailableBudget; ``targetRef`` takes precedence over the selector."""

    selector: LabelSelector | None = None
    target_ref: TargetReference | None = None


class PodUnavailableBudgetStatus(Struct, frozen=True):
    """``status`` of a PodUnavailableBudget, which OpenKruise writes."""

    unavailable_allowed: int = 0
    desired_available: int | None = None
    """0: the budget protects nothing."""
    disrupted_pods: dict[str, str] = msgspec.field(default_factory=dict)
    """Name of a pod → time of its eviction; ``unavailableAllowed`` counts such a pod already."""
    unavailable_pods: dict[str, str] = msgspec.field(default_factory=dict)
    """Name of a pod → time of its update in place; ``unavailableAllowed`` counts such a pod already."""

    def records(self, pod: ObjectMeta) -> bool:
        """Report whether ``unavailableAllowed`` counts a pod already."""
        return pod.name in self.disrupted_pods or pod.name in self.unavailable_pods


class PodUnavailableBudget(BoundedObject, frozen=True):
    """A PodUnavailableBudget of OpenKruise: the number of an application's pods that may be unavailable at a time."""

    metadata: ObjectMeta
    spec: PodUnavailableBudgetSpec = PodUnavailableBudgetSpec()
    status: PodUnavailableBudgetStatus = PodUnavailableBudgetStatus()
