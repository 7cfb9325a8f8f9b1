"""The budgets of applications: PodDisruptionBudgets, and PodUnavailableBudgets of OpenKruise.

Budgets are looked at before a Reservation is made: the eviction API would refuse the eviction, and the Reservation
would hold capacity for as long. Jobs that have passed and whose pods are not evicted yet are subtracted from what a
budget allows. The rules are those of the eviction API (``pkg/registry/core/pod/storage/eviction.go``) and of the
webhook of OpenKruise (``pkg/control/pubcontrol``).

The status of a budget lags behind the pods: a pod that was evicted, by whomever, may be terminating or gone in the
cache while the status still counts it as healthy. So the healthy pods are counted here, too, as the budget's controller
will count them next, and a budget allows no more than these leave. No time has to pass and no eviction has to be
remembered: whatever makes the two numbers equal again, a pod that becomes ready or a newer status, is an event.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from dra.api.migration.model import EvictionPolicy
from dra.api.migration.well_known import (
    ANNOTATION_NOT_PROTECTED,
    ANNOTATION_PROTECTED_OPERATIONS,
    ANNOTATION_RELATED_BUDGET,
)
from dra.engine.migration.limits import Refusal
from dra.engine.migration.pod_index import (
    PodCounts,
    Trait,
    budget_trait,
    deployment_of,
    is_ready,
    is_unavailable,
    namespace_trait,
    workload_trait,
)
from dra.engine.migration.reasons import MigrationReason
from dra.engine.migration.view import MigrationPod
from dra.model.meta import Key
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget

_OPERATIONS: Final = {EvictionPolicy.EVICTION: "EVICT", EvictionPolicy.DELETE: "DELETE"}
_ALWAYS_ALLOW: Final = "AlwaysAllow"

_Label: TypeAlias = tuple[str, str]
_Identity: TypeAlias = tuple[type, Key]
_Budget = TypeVar("_Budget", PodDisruptionBudget, PodUnavailableBudget)


class _BudgetIndex(Generic[_Budget]):
    """Budgets by namespace and one label that their pods must have, so that few selectors are compared."""

    def __init__(self, budgets: Iterable[_Budget]) -> None:
        self._by_label: defaultdict[tuple[str, _Label | None], list[_Budget]] = defaultdict(list)
        self._by_key: dict[Key, _Budget] = {}
        for budget in sorted(budgets, key=lambda budget: budget.metadata.key):
            by_workload = getattr(budget.spec, "target_ref", None) is not None
            wanted = budget.spec.selector.match_labels if budget.spec.selector is not None and not by_workload else None
            self._by_label[budget.metadata.namespace, max(wanted.items()) if wanted else None].append(budget)
            self._by_key[budget.metadata.key] = budget

    def by_key(self, key: Key) -> _Budget | None:
        """Return the budget of a namespace and name."""
        return self._by_key.get(key)

    def candidates(self, pod: MigrationPod) -> list[_Budget]:
        """Return the budgets that may count a pod, by name."""
        labels: list[_Label | None] = [None, *(pod.metadata.labels or {}).items()]
        candidates = [budget for label in labels for budget in self._by_label.get((pod.metadata.namespace, label), ())]
        return sorted(candidates, key=lambda budget: budget.metadata.name)


class Budgets:
    """The budgets of a cluster, and how much of each is used by jobs that have passed."""

    def __init__(
        self,
        disruption_budgets: Iterable[PodDisruptionBudget],
        unavailable_budgets: Iterable[PodUnavailableBudget],
        *,
        pods: PodCounts,
    ) -> None:
        self._disruption = _BudgetIndex(disruption_budgets)
        self._unavailable = _BudgetIndex(unavailable_budgets)
        self._pods = pods
        self._used: Counter[_Identity] = Counter()
        self._healthy: dict[_Identity, int] = {}
        """Budget → its healthy pods, once counted."""

    def add(self, pod: MigrationPod) -> None:
        """Count the pod of a job that has passed; a pod whose eviction a budget has recorded, the budget counts."""
        for budget in self._covering(pod):
            if (
                _is_held(pod)
                and self._uses_budget(budget, pod)
                and pod.metadata.name not in budget.status.disrupted_pods
            ):
                self._used[PodDisruptionBudget, budget.metadata.key] += 1
        for unavailable in self._unavailable_of(pod):
            self._used[PodUnavailableBudget, unavailable.metadata.key] += 1

    def is_covered(self, pod: MigrationPod) -> bool:
        """Return whether a PodDisruptionBudget covers a pod, whatever its state."""
        return bool(self._covering(pod))

    def conflict(self, pod: MigrationPod) -> str:
        """Return why the API can never evict a pod: more than one budget; empty if it can."""
        covering = self._covering(pod)
        if len(covering) <= 1 or not _is_held(pod):
            return ""
        names = ", ".join("/".join(budget.metadata.key) for budget in covering)
        return (
            f"pod {'/'.join(pod.metadata.key)}: is covered by more than one PodDisruptionBudget ({names}), and the "
            "eviction API evicts no such pod; leave one of them"
        )

    def disruption_refusal(self, pod: MigrationPod) -> Refusal | None:
        """Return the PodDisruptionBudget that does not allow an eviction now; None if none forbids the eviction."""
        if not _is_held(pod):
            return None
        for budget in self._covering(pod):
            if not self._uses_budget(budget, pod):
                continue
            name, allowed = f"poddisruptionbudget {'/'.join(budget.metadata.key)}", budget.status.disruptions_allowed
            used = self._used[PodDisruptionBudget, budget.metadata.key]
            left = min(allowed, self._healthy_of(budget) - budget.status.desired_healthy)
            text = ""
            if budget.metadata.generation > budget.status.observed_generation:
                text = f"{name}: its status is not up to date yet"
            elif left - used <= 0:
                text = f"{name}: allows {allowed} disruptions" + _less(allowed, left) + _in_progress(used)
            if text:
                return Refusal(reason=MigrationReason.POD_DISRUPTION_BUDGET, message=text)
        return None

    def unavailable_refusal(self, pod: MigrationPod, policy: EvictionPolicy) -> Refusal | None:
        """Return the PodUnavailableBudget that does not allow an unavailable pod now; None if none forbids."""
        for budget in self._unavailable_of(pod):
            operations = budget.metadata.annotation(ANNOTATION_PROTECTED_OPERATIONS)
            if operations and _OPERATIONS.get(policy) not in operations.split(","):
                continue
            used, allowed = self._used[PodUnavailableBudget, budget.metadata.key], budget.status.unavailable_allowed
            left = min(allowed, self._available_of(budget) - (budget.status.desired_available or 0))
            if left - used <= 0:
                name = f"podunavailablebudget {'/'.join(budget.metadata.key)}"
                text = f"{name}: allows {allowed} unavailable pods" + _less(allowed, left) + _in_progress(used)
                return Refusal(reason=MigrationReason.POD_UNAVAILABLE_BUDGET, message=text)
        return None

    def _covering(self, pod: MigrationPod) -> list[PodDisruptionBudget]:
        return [budget for budget in self._disruption.candidates(pod) if budget.covers(pod.metadata)]

    def _unavailable_of(self, pod: MigrationPod) -> list[PodUnavailableBudget]:
        """Return the PodUnavailableBudgets that the eviction of a pod needs, and that do not count the pod yet."""
        if not (is_ready(pod) and _is_held(pod)) or pod.metadata.annotation(ANNOTATION_NOT_PROTECTED) == "true":
            return []
        if related := pod.metadata.annotation(ANNOTATION_RELATED_BUDGET):
            named = self._unavailable.by_key((pod.metadata.namespace, related))
            budgets = [] if named is None else [named]
        else:
            budgets = [budget for budget in self._unavailable.candidates(pod) if _counts(budget, pod)]
        return [
            budget
            for budget in budgets
            if budget.status.desired_available != 0 and not budget.status.records(pod.metadata)
        ]

    def _uses_budget(self, budget: PodDisruptionBudget, pod: MigrationPod) -> bool:
        """Return whether the eviction of a pod needs a disruption that the budget allows."""
        if is_ready(pod):
            return True
        if budget.spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW:
            return False
        healthy = min(budget.status.current_healthy, self._healthy_of(budget))
        return not healthy >= budget.status.desired_healthy > 0

    def _healthy_of(self, budget: PodDisruptionBudget) -> int:
        """Return the number of a budget's healthy pods, without those whose eviction the budget has recorded."""
        label = self._rarest_label(budget)
        return self._counted(
            budget, [label], matches=lambda pod: budget.covers(pod.metadata), recorded=budget.status.disrupted_pods
        )

    def _available_of(self, budget: PodUnavailableBudget) -> int:
        """Return the number of a budget's available pods, without those that the budget has recorded.

        A pod that OpenKruise relates to the budget counts in any case: it finds the pods of more kinds of workloads.
        """
        namespace, target = budget.metadata.namespace, budget.spec.target_ref
        trait = self._rarest_label(budget) if target is None else workload_trait(namespace, target.name)
        related = budget.metadata.name
        return self._counted(
            budget,
            [trait, budget_trait(namespace, related)],
            matches=lambda pod: pod.metadata.annotation(ANNOTATION_RELATED_BUDGET) == related or _counts(budget, pod),
            recorded={*budget.status.disrupted_pods, *budget.status.unavailable_pods},
        )

    def _rarest_label(self, budget: PodDisruptionBudget | PodUnavailableBudget) -> Trait:
        namespace, selector = budget.metadata.namespace, budget.spec.selector
        labels = (selector.match_labels if selector is not None else None) or {}
        traits = [(namespace, key, value) for key, value in labels.items()]
        return self._pods.healthy.rarest(traits) if traits else namespace_trait(namespace)

    def _counted(
        self,
        budget: PodDisruptionBudget | PodUnavailableBudget,
        traits: Sequence[Trait],
        *,
        matches: Callable[[MigrationPod], bool],
        recorded: Iterable[str],
    ) -> int:
        """Return the number of healthy pods that match, without the recorded ones; each budget is counted once."""
        identity = (type(budget), budget.metadata.key)
        if identity not in self._healthy:
            named = (self._pods.by_key((budget.metadata.namespace, name)) for name in recorded)
            without = sum(pod is not None and not is_unavailable(pod) and matches(pod) for pod in named)
            self._healthy[identity] = self._pods.healthy.count(traits, matches) - without
        return self._healthy[identity]


def _is_held(pod: MigrationPod) -> bool:
    """Return whether budgets protect a pod: the API evicts pending, finished and terminating pods in any case."""
    return pod.status.phase not in ("Pending", "Succeeded", "Failed") and not pod.metadata.deleting


def _counts(budget: PodUnavailableBudget, pod: MigrationPod) -> bool:
    target = budget.spec.target_ref
    if target is None:
        selector = budget.spec.selector
        return selector is not None and (selector.is_empty or selector.matches(pod.metadata.labels or {}))
    owner = pod.metadata.controller
    if owner is None:
        return False
    if (owner.kind, owner.name) == (target.kind, target.name):
        return owner.api_version.partition("/")[0] == target.api_version.partition("/")[0]
    return target.kind == "Deployment" and deployment_of(pod) == target.name


def _less(allowed: int, left: int) -> str:
    return f", of which the newest changes of its pods leave {max(left, 0)}" if left < allowed else ""


def _in_progress(used: int) -> str:
    return f", and {used} pods of migrations in progress use them" if used else ""
