"""The budgets of applications during a round: asked before a pod is accepted, with all pods that move taken off.

A budget that leaves nothing costs one look in memory for each of its pods, and no request: neither a job nor an
eviction is tried that the API server would refuse (a budget of 990 of 1,000 pods with a long grace period otherwise
means a thousand refused evictions in each round).
"""

from collections.abc import Iterator
from functools import cached_property

from dra.api.migration.model import EvictionPolicy
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.migration.budgets import Budgets
from dra.engine.migration.pod_index import PodCounts, PodIndex
from dra.model.meta import Key


class CountedPods(PodCounts):
    """The pods of a snapshot by workload and by what budgets tell apart."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._all = snapshot.objects.pods
        self.count_all(self._all)

    def by_key(self, key: Key) -> DeschedulingPod | None:
        """Return the pod of a namespace and name."""
        return self._by_key.get(key)

    @cached_property
    def _by_key(self) -> dict[Key, DeschedulingPod]:
        """The pods by namespace and name; hardly ever asked for."""
        return {pod.metadata.key: pod for pod in self._all}


class RoundBudgets:
    """The PodDisruptionBudgets and PodUnavailableBudgets of a snapshot, less what moves."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        objects = snapshot.objects
        self._namespaces = {budget.metadata.namespace for budget in objects.disruption_budgets}
        self._namespaces |= {budget.metadata.namespace for budget in objects.unavailable_budgets}
        pods = snapshot.part(CountedPods) if self._namespaces else PodIndex()
        self._budgets = Budgets(objects.disruption_budgets, objects.unavailable_budgets, pods=pods)
        self._counted = 0

    def refusal(self, pod: DeschedulingPod, policy: EvictionPolicy) -> str:
        """Return why budgets do not allow one more pod to go now; empty if they do."""
        if pod.metadata.namespace not in self._namespaces:
            return ""
        self._count_moves()
        return next(filter(None, self._refusals(pod, policy)), "")

    def is_covered(self, pod: DeschedulingPod) -> bool:
        """Return whether a PodDisruptionBudget covers a pod."""
        return pod.metadata.namespace in self._namespaces and self._budgets.is_covered(pod)

    def _refusals(self, pod: DeschedulingPod, policy: EvictionPolicy) -> Iterator[str]:
        if policy is EvictionPolicy.EVICTION:
            yield self._budgets.conflict(pod)
            refusal = self._budgets.disruption_refusal(pod)
            yield "" if refusal is None else refusal.message
        if policy is not EvictionPolicy.SOFT_EVICTION:
            refusal = self._budgets.unavailable_refusal(pod, policy)
            yield "" if refusal is None else refusal.message

    def _count_moves(self) -> None:
        for pod in self._snapshot.moves_since(self._counted):
            if pod.metadata.namespace in self._namespaces:
                self._budgets.add(pod)
        self._counted = len(self._snapshot.moved)
