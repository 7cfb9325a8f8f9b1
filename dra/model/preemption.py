"""What decides who has to leave for whom: PriorityClasses and PodDisruptionBudgets."""

from collections.abc import Mapping
from typing import Final

import msgspec

from dra.model.meta import ObjectMeta, Struct
from dra.model.nodes import NodeSelectorRequirement

PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
PREEMPT_NEVER: Final = "Never"


class PriorityClass(Struct, frozen=True):
    """A name for a number; one of them may be that of pods which name none."""

    metadata: ObjectMeta
    value: int = 0
    global_default: bool = False
    preemption_policy: str = PREEMPT_LOWER_PRIORITY


class LabelSelector(Struct, frozen=True):
    """``selector``: one that says nothing is about no pod, in the version of budgets that there is."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[NodeSelectorRequirement] | None = None

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it is about something with these labels."""
        wanted, more = self.match_labels or {}, self.match_expressions or ()
        if not (wanted or more):
            return False
        return wanted.items() <= labels.items() and all(each.holds(labels.get(each.key)) for each in more)


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """``spec``."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """``status``, which the disruption controller writes."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = msgspec.field(default_factory=dict)
    """Pod → when its end was asked for: it is counted already."""


class PodDisruptionBudget(Struct, frozen=True):
    """How many pods of an application may be ended at a time."""

    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()

    def about(self, pod: ObjectMeta) -> bool:
        """Whether ending that pod is counted."""
        selector = self.spec.selector
        return (
            self.metadata.namespace == pod.namespace
            and selector is not None
            and bool(pod.labels)
            and selector.selects(pod.labels or {})
            and pod.name not in self.status.disrupted_pods
        )
