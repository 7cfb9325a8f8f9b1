"""The budgets of applications: PodDisruptionBudgets, and PodUnavailableBudgets of OpenKruise.

Budgets are looked at before a Reservation is made: the eviction API would refuse the eviction, and the Reservation
would hold capacity for as long. Jobs that have passed and whose pods are not evicted yet are subtracted from what a
budget allows. The rules are those of the eviction API (``pkg/registry/core/pod/storage/eviction.go``).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from dra.engine.migration.limits import Refusal, is_unavailable
from dra.engine.migration.pod_index import controller_of
from dra.engine.migration.reasons import MigrationReason
from dra.engine.migration.view import MigrationPod
from dra.model.meta import Key
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget

ANNOTATION_RELATED_BUDGET: Final = "kruise.io/related-pub"
"""Annotation, written by OpenKruise: name of the PodUnavailableBudget of a pod."""

_ALWAYS_ALLOW: Final = "AlwaysAllow"


class Budgets:
    """The budgets of a cluster, and how much of each is used by jobs that have passed."""

    def __init__(
        self, disruption_budgets: Iterable[PodDisruptionBudget], unavailable_budgets: Iterable[PodUnavailableBudget]
    ) -> None:
        self._disruption: defaultdict[str, list[PodDisruptionBudget]] = defaultdict(list)
        for each in disruption_budgets:
            self._disruption[each.metadata.namespace].append(each)
        self._unavailable: defaultdict[str, list[PodUnavailableBudget]] = defaultdict(list)
        for budget in unavailable_budgets:
            self._unavailable[budget.metadata.namespace].append(budget)
        self._used: Counter[tuple[type, Key]] = Counter()

    def add(self, pod: MigrationPod) -> None:
        """Count the pod of a job that has passed; once the pod is terminating, the budgets themselves count the pod."""
        if pod.metadata.deleting:
            return
        name = pod.metadata.name
        for each in self._covering(pod):
            if name not in each.status.disrupted_pods and _uses_budget(each, pod):
                self._used[(PodDisruptionBudget, each.metadata.key)] += 1
        for budget in self._unavailable_of(pod):
            if name not in budget.status.disrupted_pods:
                self._used[(PodUnavailableBudget, budget.metadata.key)] += 1

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
            name = f"poddisruptionbudget {'/'.join(each.metadata.key)}"
            if each.metadata.generation > each.status.observed_generation:
                text = f"{name}: its status is not up to date yet"
                return Refusal(reason=MigrationReason.POD_DISRUPTION_BUDGET, message=text)
            if not _uses_budget(each, pod):
                continue
            used = self._used[(PodDisruptionBudget, each.metadata.key)]
            if each.status.disruptions_allowed - used <= 0:
                text = f"{name}: allows {each.status.disruptions_allowed} disruptions" + _in_progress(used)
                return Refusal(reason=MigrationReason.POD_DISRUPTION_BUDGET, message=text)
        return None

    def unavailable_refusal(self, pod: MigrationPod) -> Refusal | None:
        """Return the PodUnavailableBudget that does not allow an unavailable pod now; None if none forbids."""
        for each in self._unavailable_of(pod):
            used = self._used[(PodUnavailableBudget, each.metadata.key)]
            if each.status.unavailable_allowed - used <= 0:
                name = f"podunavailablebudget {'/'.join(each.metadata.key)}"
                text = f"{name}: allows {each.status.unavailable_allowed} unavailable pods" + _in_progress(used)
                return Refusal(reason=MigrationReason.POD_UNAVAILABLE_BUDGET, message=text)
        return None

    def _covering(self, pod: MigrationPod) -> list[PodDisruptionBudget]:
        return [each for each in self._disruption.get(pod.metadata.namespace, ()) if each.covers(pod.metadata)]

    def _unavailable_of(self, pod: MigrationPod) -> list[PodUnavailableBudget]:
        related = pod.metadata.annotation(ANNOTATION_RELATED_BUDGET)
        return [
            each
            for each in self._unavailable.get(pod.metadata.namespace, ())
            if (each.metadata.name == related if related else _counts(each, pod))
        ]


def _is_held(pod: MigrationPod) -> bool:
    """Return whether budgets protect a pod: the API evicts pending, finished and terminating pods in any case."""
    return pod.status.phase not in ("Pending", "Succeeded", "Failed") and not pod.metadata.deleting


def _uses_budget(budget: PodDisruptionBudget, pod: MigrationPod) -> bool:
    """Return whether the eviction of a pod needs a disruption that the budget allows."""
    if not is_unavailable(pod):
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
        return True
    # A Deployment owns pods through a ReplicaSet, whose name is that of the Deployment and the hash of the template.
    template_hash = (pod.metadata.labels or {}).get("pod-template-hash", "")
    through_replica_set = target.kind == "Deployment" and owner.kind == "ReplicaSet"
    return through_replica_set and owner.name == f"{target.name}-{template_hash}"


def _in_progress(used: int) -> str:
    return f", and {used} pods of migrations in progress use them" if used else ""
