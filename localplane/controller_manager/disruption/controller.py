"""The disruption controller: writes into each PodDisruptionBudget how many of its pods may be evicted."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from dra.kube.client import Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.workqueue import WorkQueue
from dra.model.meta import Key
from localplane.controller_manager.api_types import Pod, ReplicaSet, parse_time
from localplane.controller_manager.deployments.deployment_types import Deployment
from localplane.controller_manager.disruption.budget_types import PodDisruptionBudget
from localplane.controller_manager.disruption.decision import DisruptionCounts, count_disruptions
from localplane.controller_manager.disruption.scale import ScaleFinder, UnknownScaleError
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.object_control import ObjectControl
from localplane.kinds.pod_disruption_budgets import INSUFFICIENT_PODS, SUFFICIENT_PODS, SYNC_FAILED, with_condition

BATCH_SECONDS: Final = 0.1
"""Seconds that changes of pods are batched."""

MIN_RECHECK_SECONDS: Final = 1.0
"""Minimum number of seconds until a budget with disrupted pods is counted again."""


class DisruptionController:
    """Keeps the status of PodDisruptionBudgets."""

    def __init__(
        self,
        client: Client,
        *,
        budgets: Informer[PodDisruptionBudget],
        pods: Informer[Pod],
        sets: Informer[ReplicaSet],
        deployments: Informer[Deployment],
        clock: Clock,
    ) -> None:
        self._budgets = budgets
        self._pods = pods
        self._scales = ScaleFinder(sets=sets, deployments=deployments)
        self._control = ObjectControl(client, budgets, clock=clock)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        budgets.add_event_handler(self._budget_changed)
        pods.add_event_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile PodDisruptionBudgets until cancelled; start this when the informers have synced."""
        await self._queue.run(self._sync)

    def _budget_changed(self, budget: PodDisruptionBudget, *, deleted: bool) -> None:
        if not deleted:
            self._queue.add(budget.metadata.key)

    def _pod_changed(self, pod: Pod, *, deleted: bool) -> None:
        del deleted
        for budget in self._budgets.objects.values():
            if _selects(budget, pod):
                self._queue.add_at(budget.metadata.key, self._clock.now() + BATCH_SECONDS)

    async def _sync(self, key: Key) -> float | None:
        budget = self._budgets.get(key)
        if budget is None or budget.metadata.deleting:
            return None
        now = self._clock.wall()
        pods = [pod for pod in self._pods.objects.values() if _selects(budget, pod)]
        try:
            counts = self._count(budget, pods)
        except UnknownScaleError as error:
            await self._write(budget, self._failed_status(budget, str(error)))
            return None
        await self._write(budget, self._counted_status(budget, counts))
        if counts.recheck_at is None:
            return None
        return self._clock.now() + max((counts.recheck_at - now).total_seconds(), MIN_RECHECK_SECONDS)

    def _count(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> DisruptionCounts:
        spec, disrupted = budget.spec, budget.status.disrupted_pods
        by_scale = spec.max_unavailable is not None or isinstance(spec.min_available, str)
        return count_disruptions(
            pods,
            min_available=spec.min_available,
            max_unavailable=spec.max_unavailable,
            scale=self._scales.total(pods) if by_scale else 0,
            disrupted_pods={name: at for name, text in disrupted.items() if (at := parse_time(text)) is not None},
            now=self._clock.wall(),
        )

    def _counted_status(self, budget: PodDisruptionBudget, counts: DisruptionCounts) -> dict[str, Any]:
        status: dict[str, Any] = {
            "observedGeneration": budget.metadata.generation,
            "disruptionsAllowed": counts.disruptions_allowed,
            "currentHealthy": counts.current_healthy,
            "desiredHealthy": counts.desired_healthy,
            "expectedPods": counts.expected_pods,
            "disruptedPods": {name: rfc3339(at) for name, at in counts.disrupted_pods.items()},
        }
        reason = SUFFICIENT_PODS if counts.disruptions_allowed > 0 else INSUFFICIENT_PODS
        before = {"conditions": budget.status.conditions, "observedGeneration": budget.metadata.generation}
        return {**status, "conditions": with_condition(before, reason=reason, now=self._clock.wall())}

    def _failed_status(self, budget: PodDisruptionBudget, message: str) -> dict[str, Any]:
        """Return a status that allows no disruption, with the counts of the last success."""
        before = _plain_status(budget)
        conditions = with_condition(before, reason=SYNC_FAILED, message=message, now=self._clock.wall())
        return {**before, "disruptionsAllowed": 0, "conditions": conditions}

    async def _write(self, budget: PodDisruptionBudget, status: dict[str, Any]) -> None:
        """Write a status unless it is there already; a merge patch removes disrupted pods by null."""
        known = _plain_status(budget)
        if status == known:
            return
        gone: Iterable[str] = known["disruptedPods"].keys() - status["disruptedPods"].keys()
        patch = {**status, "disruptedPods": {**status["disruptedPods"], **dict.fromkeys(sorted(gone))}}
        await self._control.patch(budget.metadata, {"status": patch}, subresource="status")


def _plain_status(budget: PodDisruptionBudget) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(budget.status)
    return {**content, **{name: content.get(name) or kind() for name, kind in _DEFAULTS.items()}}


_DEFAULTS: Final[dict[str, type[Any]]] = {
    "observedGeneration": int,
    "disruptionsAllowed": int,
    "currentHealthy": int,
    "desiredHealthy": int,
    "expectedPods": int,
    "disruptedPods": dict,
    "conditions": list,
}
"""Fields of the status; `msgspec` may leave out the empty ones."""


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return (
        selector is not None
        and budget.metadata.namespace == pod.metadata.namespace
        and selector.selects(pod.metadata.labels or {})
    )
