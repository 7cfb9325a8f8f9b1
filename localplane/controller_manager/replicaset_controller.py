"""The ReplicaSet controller: keeps the desired number of pods of a template.

Orphans that match the selector are not adopted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.resources import REPLICA_SETS
from dra.kube.workqueue import WorkQueue
from dra.model.meta import Key
from localplane.controller_manager.api_types import (
    Pod,
    ReplicaSet,
    controller_references,
    parse_time,
    pod_from_template,
)
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.object_control import ObjectControl, slow_start_batch

BATCH_SECONDS: Final = 0.1
"""Seconds that changes of pods are batched."""

BURST_REPLICAS: Final = 500
"""Maximum number of pods that are created or deleted between two syncs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetPlan:
    """The next changes for a ReplicaSet; `status` is a merge patch."""

    create: int = 0
    delete: tuple[Pod, ...] = ()
    status: dict[str, Any] | None = None
    requeue_after: float | None = None


def decide(replicas: ReplicaSet, pods: Sequence[Pod], *, now: datetime) -> ReplicaSetPlan:
    """Return the next changes for a ReplicaSet."""
    active = [pod for pod in pods if pod.active]
    missing = replicas.spec.replicas - len(active)
    if not replicas.metadata.deleting:
        if missing > 0:
            return ReplicaSetPlan(create=min(missing, BURST_REPLICAS))
        if missing < 0:
            return ReplicaSetPlan(delete=tuple(sorted(active, key=deletion_rank)[:-missing][:BURST_REPLICAS]))
    ready = [pod for pod in active if pod.ready]
    left = [seconds_to_available(pod, replicas.spec.min_ready_seconds, now=now) for pod in ready]
    wanted = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active) or None,
        "readyReplicas": len(ready) or None,
        "availableReplicas": sum(seconds <= 0.0 for seconds in left) or None,
        "observedGeneration": replicas.metadata.generation,
    }
    current = replicas.status
    known = {
        "replicas": current.replicas,
        "fullyLabeledReplicas": current.fully_labeled_replicas or None,
        "readyReplicas": current.ready_replicas or None,
        "availableReplicas": current.available_replicas or None,
        "observedGeneration": current.observed_generation,
    }
    requeue_after = min((seconds for seconds in left if seconds > 0.0), default=None)
    return ReplicaSetPlan(status={"status": wanted} if wanted != known else None, requeue_after=requeue_after)


def seconds_to_available(pod: Pod, min_ready_seconds: int, *, now: datetime) -> float:
    """Return the seconds that a ready pod has to stay ready until it counts as available."""
    since = parse_time(pod.ready_since)
    if not min_ready_seconds or since is None:
        return 0.0
    return (since + timedelta(seconds=min_ready_seconds) - now).total_seconds()


def deletion_rank(pod: Pod) -> tuple[bool, bool, bool, int, float]:
    """Return the sort key for deletion: the least progressed pod first, then the most restarts, then the youngest.

    Upstream: kube-controller-manager's ActivePodsWithRanks, without the ranks.
    """
    young = -(parse_time(pod.metadata.creation_timestamp) or _EPOCH).timestamp()
    running = pod.status.phase == "Running"
    return (bool(pod.spec.node_name), running, pod.ready, -pod.restarts, young)


_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00Z")


class ReplicaSetController:
    """Keeps the pods of ReplicaSets at the desired number."""

    def __init__(self, client: Client, *, sets: Informer[ReplicaSet], pods: Informer[Pod], clock: Clock) -> None:
        self._sets = sets
        self._pods = pods
        self._set_control = ObjectControl(client, sets, clock=clock)
        self._pod_control = ObjectControl(client, pods, clock=clock)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        sets.add_event_handler(self._set_changed)
        pods.add_event_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile ReplicaSets until cancelled; start this when both informers have synced."""
        await self._queue.run(self._sync)

    def _set_changed(self, replicas: ReplicaSet, *, deleted: bool) -> None:
        if not deleted:
            self._queue.add(replicas.metadata.key)

    def _pod_changed(self, pod: Pod, *, deleted: bool) -> None:
        del deleted
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "ReplicaSet":
            self._queue.add_at((pod.metadata.namespace, owner.name), self._clock.now() + BATCH_SECONDS)

    async def _sync(self, key: Key) -> float | None:
        while (replicas := self._sets.get(key)) is not None:
            pods = tuple(self._pods.controlled_by(replicas.metadata.uid))
            plan = decide(replicas, pods, now=self._clock.wall())
            await slow_start_batch(range(plan.create), partial(self._create, replicas))
            await slow_start_batch(plan.delete, self._pod_control.delete)
            written = plan.status is not None and await self._set_control.patch(
                replicas.metadata, plan.status, subresource="status"
            )
            if not (plan.create or plan.delete or written):
                return None if plan.requeue_after is None else self._clock.now() + plan.requeue_after
        return None

    async def _create(self, replicas: ReplicaSet, number: int) -> None:
        del number
        owners = controller_references(REPLICA_SETS, replicas.metadata)
        body = pod_from_template(replicas.spec.template, name=f"{replicas.metadata.name}-", owners=owners)
        await self._pod_control.create(body, namespace=replicas.metadata.namespace)
