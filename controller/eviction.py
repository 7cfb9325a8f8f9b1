"""Executes evictions as upstream does: live read, condition, deletion.

Each claim is decided about after the loop of claims has reconciled it, and again at the next deadline. Evictions run
beside the writes of the claim, not within them: neither may delay the other.
"""

from functools import partial

from controller.claim_events import ClaimEvents
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.parallel_requests import run_in_parallel
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.claims import eviction
from dra.engine.claims.actions import EvictPod
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.eviction import EvictionPlan
from dra.engine.claims.eviction_index import RETRY, EvictionIndex
from dra.engine.claims.policy import Policy
from dra.engine.instants import Instant, Moment
from dra.kube.clock import rfc3339
from dra.kube.errors import Conflict, NotFound
from dra.kube.resources import PODS
from dra.model.meta import Key, PartialObjectMetadata
from dra.model.pods import Pod


class Evictions(Reconciler[Key]):
    """The loop that evicts unlisted pods whose claims use tainted devices."""

    settings = Settings(name="evictions of claim", workers=16, retry=RETRY, batch_delay=0.0)
    cache: EvictionIndex
    _runtime: Runtime[ControllerMetrics]

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        cache: ClaimCache,
        events: ClaimEvents,
        policy: Policy,
    ) -> None:
        super().__init__(runtime, informers, cache.evictions)
        self._informers = informers
        self._claims = cache
        self._events = events
        self._policy = policy

    async def reconcile(self, key: Key, now: Moment) -> Instant:
        """Evict the pods of a claim that are due; return when further pods may be."""
        plan = self._decide(key, now)
        outcomes = await run_in_parallel([partial(self._evict, action) for action in plan.actions])
        failed = {action.uid: error for action, error in zip(plan.actions, outcomes, strict=True) if error}
        if not failed:
            self.cache.succeed(key, wake_at=plan.wake_at, now=now.instant)
            return plan.wake_at
        instant, first = self._runtime.instant(), next(iter(failed.values()))
        until = self.cache.postpone(key, failed, now=instant)
        self._log.warning("claim %s/%s: not all pods evicted, retrying in %.1f s: %s", *key, until - instant, first)
        return min(plan.wake_at, until)

    def reconciled(self, key: Key) -> None:  # noqa: ARG002 - whatever the claim
        """Have the loop of claims look at what live reads have shown."""
        self._informers.notify()

    def _decide(self, key: Key, now: Moment) -> EvictionPlan:
        view = self._claims.view(key, now=now.instant) if self.cache.is_tainted(key) else None
        if view is None:
            return EvictionPlan()
        return eviction.decide(
            view, policy=self._policy, now=now.instant, wall=now.wall, postponed=self.cache.postponed(key)
        )

    async def _evict(self, action: EvictPod) -> None:
        """Evict a pod; raise ApiError if the API server refuses."""
        client = self._runtime.client
        try:
            pod = await client.get(PODS, action.pod, Pod)
            if pod.metadata.uid != action.uid:
                self._claims.forget_pod(action.uid)
                return
            self._claims.observe_pod(pod, now=self._runtime.instant())
            if eviction.is_over(pod):
                return
            if eviction.lacks_condition(pod):
                await client.merge_patch(
                    PODS,
                    action.pod,
                    eviction.condition_patch(at=rfc3339(self._runtime.clock.wall())),
                    model=PartialObjectMetadata,
                    subresource="status",
                    strategic=True,
                    uid=action.uid,
                    timeout_seconds=self._runtime.write_timeout(),
                )
            await client.delete(PODS, action.pod, uid=action.uid, timeout_seconds=self._runtime.write_timeout())
        except (NotFound, Conflict):  # gone, or another pod has its name: the informer reports it
            return
        self._runtime.metrics.evicted.labels(action.source.value).inc()
        self._events.record(action.reason)
