"""The loop of gated pods that no reservation will admit: our scheduling gate is removed from such pods.

The gate of a pod that a reservation admits is removed by that reservation's loop, once the capacity is there. All other
gated pods are checked here when a pod is added or a reservation changes.
"""

from typing import Final

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.reservations.pod_writer import PodWriter
from controller.runtime import Runtime
from dra.engine.instants import NEVER, Instant, Moment
from dra.engine.reservations.pending_pods import PendingPods
from dra.engine.reservations.reservation_cache import ReservationCache
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.model.meta import Uid

RETRY: Final = 5.0
"""Seconds until a gate is tried again that could not be removed."""


class SchedulingGates(Reconciler[Uid]):
    """The loop of gated pods; mode yielding only."""

    settings = Settings(
        name="scheduling gate of pod",
        workers=1,
        retry=(RETRY, RETRY),
        batch_delay=0.1,  # reservations name their owner pods first
    )
    cache: PendingPods

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers, *, cache: ReservationCache
    ) -> None:
        """Create the loop; ``cache`` is the cache of the loop of reservations, which must have been created before."""
        needs = (informers.nodes, informers.reservations, informers.scheduler_pods)
        super().__init__(runtime, informers, cache.pending_pods, needs=needs)
        self._cache = cache
        self._nodes = informers.nodes.objects
        self._writer = PodWriter(runtime, cache)

    def subject(self, key: Uid) -> str:
        """Return the name of a pod."""
        pod = self._cache.pending_pods.gated_pod(key)
        return super().subject(key) if pod is None else "scheduling gate of pod {}/{}".format(*pod.metadata.key)

    async def reconcile(self, key: Uid, now: Moment) -> Instant:
        """Remove the gate of one pod, unless a reservation may admit the pod. Raises ApiError."""
        removal = self._cache.gate_to_remove(key, nodes=self._nodes)
        if removal is None:
            return NEVER
        try:
            await self._writer.remove_gate(removal)
        except (NotFound, Conflict):
            return NEVER  # the watch delivers the change
        except ApiError:
            self.cache.postpone(key, until=now.instant + RETRY)
            raise
        return NEVER
