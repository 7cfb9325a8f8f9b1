"""The budgets of applications: PodDisruptionBudgets, and PodUnavailableBudgets of OpenKruise.

Budgets are looked at before a Reservation is made: the eviction API would refuse the eviction, and the Reservation
would hold capacity for as long. Jobs that have passed and whose pods are not evicted yet are subtracted from what a
budget allows. The rules are those of the eviction API (``pkg/registry/core/pod/storage/eviction.go``) and of the
webhook of OpenKruise (``pkg/control/pubcontrol``).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final, Generic, TypeAlias, TypeVar

from dra.api.migration.model import EvictionPolicy
from dra.engine.migration.limits import Refusal
from dra.engine.migration.pod_index import controller_of, is_ready
from dra.engine.migration.reasons import MigrationReason
from dra.engine.migration.view import MigrationPod
from dra.model.meta import Key
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget

ANNOTATION_RELATED_BUDGET: Final = "kruise.io/related-pub"
"""Annotation, written by OpenKruise: name of the PodUnavailableBudget of a pod."""
ANNOTATION_NOT_PROTECTED: Final = "pub.kruise.io/no-protect"
"""Annotation: ``true`` on a pod that no PodUnavailableBudget protects."""
ANNOTATION_PROTECTED_OPERATIONS: Final = "kruise.io/pub-protect-operations"
"""Annotation of a PodUnavailableBudget: the operations that the budget forbids, such as ``EVICT,DELETE``."""

_OPERATIONS: Final = {EvictionPolicy.EVICTION: "EVICT", EvictionPolicy.DELETE: "DELETE"}
_ALWAYS_ALLOW: Final = "AlwaysAllow"

_Label: TypeAlias = tuple[str, str]
_Budget = TypeVar("_Budget", PodDisruptionBudget, PodUnavailableBudget)


class _BudgetIndex(Generic[_Budget]):
    """Budgets by namespace and one label that their pods must have, so that few selectors are compared."""

    def __init__(self, budgets: Iterable[_Budget]) -> None:
        self._by_label: defaultdict[tuple[str, _Label | None], list[_Budget]] = defaultdict(list)
        self._by_key: dict[Key, _Budget] = {}
        for each in sorted(budgets, key=lambda budget: budget.metadata.key):
            by_workload = getattr(each.spec, "target_ref", None) is not None
            wanted = each.spec.selector.match_labels if each.spec.selector is not None and not by_workload else None
            self._by_label[each.metadata.namespace, max(wanted.items()) if wanted else None].append(each)
            self._by_key[each.metadata.key] = each

    def by_key(self, key: Key) -> _Budget | None:
        """Return the budget of a namespace and name."""
        return self._by_key.get(key)

    def candidates(self, pod: MigrationPod) -> list[_Budget]:
        """Return the budgets that may count a pod, by name."""
        labels: list[_Label | None] = [None, *(pod.metadata.labels or {}).items()]
        found = [each for label in labels for each in self._by_label.get((pod.metadata.namespace, label), ())]
        return sorted(found, key=lambda budget: budget.metadata.name)


class Budgets:
    """The budgets of a cluster, and how much of each is used by jobs that have passed."""

    def __init__(
        self, disruption_budgets: Iterable[PodDisruptionBudget], unavailable_budgets: Iterable[PodUnavailableBudget]
    ) -> None:
        self._disruption = _BudgetIndex(disruption_budgets)
        self._unavailable = _BudgetIndex(unavailable_budgets)
        self._used: Counter[tuple[type, Key]] = Counter()

    def add(self, pod: MigrationPod) -> None:
        """Count the pod of a job that has passed; a pod whose eviction a budget has recorded, the budget counts."""
        for each in self._covering(pod):
            if _is_held(pod) and _uses_budget(each, pod) and pod.metadata.name not in each.status.disrupted_pods:
                self._used[PodDisruptionBudget, each.metadata.key] += 1
        for budget in self._unavailable_of(pod):
            self._used[PodUnavailableBudget, budget.metadata.key] += 1

    def conflict(self, pod: MigrationPod) -> str:
        """Return why the API can never evict a pod: more than one budget; empty if it can."""
        found = self._covering(pod)
        if len(found) <= 1 or not _is_held(pod):
            return ""
        names = ", ".join("/".join(each.metadata.key) for each in found)
        return (
            f"pod {'/'.join(pod.metadata.key)}: is covered by more than one PodDisruptionBudget ({names}), and the "
            "eviction API evicts no such pod; leave one of them"
        )

    def disruption_refusal(self, pod: MigrationPod) -> Refusal | None:
        """Return the PodDisruptionBudget that does not allow an eviction now; None if none forbids the eviction."""
        if not _is_held(pod):
            return None
        for each in self._covering(pod):
            if not _uses_budget(each, pod):
                continue
            name = f"poddisruptionbudget {'/'.join(each.metadata.key)}"
            used = self._used[PodDisruptionBudget, each.metadata.key]
            text = ""
            if each.metadata.generation > each.status.observed_generation:
                text = f"{name}: its status is not up to date yet"
            elif each.status.disruptions_allowed - used <= 0:
                text = f"{name}: allows {each.status.disruptions_allowed} disruptions" + _in_progress(used)
            if text:
                return Refusal(reason=MigrationReason.POD_DISRUPTION_BUDGET, message=text)
        return None

    def unavailable_refusal(self, pod: MigrationPod, policy: EvictionPolicy) -> Refusal | None:
        """Return the PodUnavailableBudget that does not allow an unavailable pod now; None if none forbids."""
        for each in self._unavailable_of(pod):
            operations = each.metadata.annotation(ANNOTATION_PROTECTED_OPERATIONS)
            if operations and _OPERATIONS.get(policy) not in operations.split(","):
                continue
            used = self._used[PodUnavailableBudget, each.metadata.key]
            if each.status.unavailable_allowed - used <= 0:
                name = f"podunavailablebudget {'/'.join(each.metadata.key)}"
                text = f"{name}: allows {each.status.unavailable_allowed} unavailable pods" + _in_progress(used)
                return Refusal(reason=MigrationReason.POD_UNAVAILABLE_BUDGET, message=text)
        return None

    def _covering(self, pod: MigrationPod) -> list[PodDisruptionBudget]:
        return [each for each in self._disruption.candidates(pod) if each.covers(pod.metadata)]

    def _unavailable_of(self, pod: MigrationPod) -> list[PodUnavailableBudget]:
        """Return the PodUnavailableBudgets that the eviction of a pod needs, and that do not count the pod yet."""
        if not is_ready(pod) or pod.metadata.annotation(ANNOTATION_NOT_PROTECTED) == "true":
            return []
        if related := pod.metadata.annotation(ANNOTATION_RELATED_BUDGET):
            named = self._unavailable.by_key((pod.metadata.namespace, related))
            found = [] if named is None else [named]
        else:
            found = [each for each in self._unavailable.candidates(pod) if _counts(each, pod)]
        return [each for each in found if each.status.desired_available != 0 and not each.status.records(pod.metadata)]


def _is_held(pod: MigrationPod) -> bool:
    """Return whether budgets protect a pod: the API evicts pending, finished and terminating pods in any case."""
    return pod.status.phase not in ("Pending", "Succeeded", "Failed") and not pod.metadata.deleting


def _uses_budget(budget: PodDisruptionBudget, pod: MigrationPod) -> bool:
    """Return whether the eviction of a pod needs a disruption that the budget allows."""
    if is_ready(pod):
        return True
    if budget.spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW:
        return False
    return not budget.status.current_healthy >= budget.status.desired_healthy > 0


def _counts(budget: PodUnavailableBudget, pod: MigrationPod) -> bool:
    target = budget.spec.target_ref
    if target is None:
        selector = budget.spec.selector
        return selector is not None and (selector.is_empty or selector.matches(pod.metadata.labels or {}))
    owner = controller_of(pod)
    if owner is None:
        return False
    if (owner.kind, owner.name) == (target.kind, target.name):
        return owner.api_version.partition("/")[0] == target.api_version.partition("/")[0]
    # A Deployment owns pods through a ReplicaSet, whose name is that of the Deployment and the hash of the template.
    template_hash = (pod.metadata.labels or {}).get("pod-template-hash", "")
    through_replica_set = target.kind == "Deployment" and owner.kind == "ReplicaSet"
    return through_replica_set and owner.name == f"{target.name}-{template_hash}"


def _in_progress(used: int) -> str:
    return f", and {used} pods of migrations in progress use them" if used else ""
