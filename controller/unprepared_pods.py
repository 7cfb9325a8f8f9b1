"""Evicts pods whose node refuses to prepare their claims (``koordinator: true``).

`dra.engine.prepare_refusals` decides. Claim and pod are read live before each decision, and the eviction names the
version of the pod that was read: a pod that has started since stays.
"""

from typing import TypeVar

from controller.claim_events import ClaimEvents
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.instants import NEVER, Instant, Moment
from dra.engine.prepare_refusals.cache import RefusalCache
from dra.engine.prepare_refusals.decide import PodEviction, Refusal, RefusedClaimView, StartingPod, decide, refused_pod
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.kube.codec import ApiObject
from dra.kube.errors import NotFound
from dra.kube.event_handlers import ignore
from dra.kube.resources import CLAIMS, PODS, Resource
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Key, PartialObjectMetadata

T = TypeVar("T", bound=ApiObject)


class UnpreparedPods(Reconciler[Key]):
    """The loop that evicts pods with refused claims."""

    settings = Settings(name="eviction for claim", workers=4, retry=(2.0, 120.0), batch_delay=0.0)
    cache: RefusalCache
    _runtime: Runtime[ControllerMetrics]

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers, *, events: ClaimEvents
    ) -> None:
        """Create the loop; ``events`` must be its own: what it published about a claim is no other loop's affair."""
        super().__init__(runtime, informers, RefusalCache(), needs=(informers.enabled_namespaces,))
        self._events = events
        self._namespaces = informers.enabled_namespaces
        informers.enabled_namespaces.subscribe(ignore, restored=ignore)
        informers.claims.subscribe(self._observe_claim, self.cache.forget_claim)

    def overdue_reasons(self) -> list[PrepareRefusalReason]:
        """Return the reasons of the claims that have been refused for long."""
        return self.cache.overdue_reasons(now=self._runtime.instant())

    async def reconcile(self, key: Key, now: Moment) -> Instant:
        """Read a refused claim and its pod, and evict the pod if it is due; raise ApiError."""
        refusal = self.cache.refusal(key)
        if refusal is None:
            self._events.forget(key)
            return NEVER
        if now.instant < refusal.due:
            return refusal.due
        plan = decide(await self._read(key, refusal), now=now.instant)
        for eviction in plan.actions:
            await self._evict(eviction)
        self._events.publish(key, plan.reasons, now=now.instant)
        return plan.wake_at

    def _observe_claim(self, claim: ResourceClaim) -> None:
        self.cache.observe_claim(claim, now=self._runtime.instant())

    async def _read(self, key: Key, refusal: Refusal) -> RefusedClaimView:
        """Return a claim and its pod as they are now."""
        claim = await self._get(CLAIMS, key, WatchedClaim)
        pod = refused_pod(claim) if claim is not None else None
        return RefusedClaimView(
            refusal=refusal,
            claim=claim,
            pod=await self._get(PODS, (key[0], pod[0]), StartingPod) if pod is not None else None,
            is_enabled=("", key[0]) in self._namespaces.objects,
            history=self.cache.history,
        )

    async def _get(self, resource: Resource, key: Key, model: type[T]) -> T | None:
        try:
            return await self._runtime.client.get(resource, key, model)
        except NotFound:
            return None

    async def _evict(self, eviction: PodEviction) -> None:
        namespace, name = eviction.key
        preconditions = {"uid": eviction.uid, "resourceVersion": eviction.resource_version}
        try:
            await self._runtime.client.create(
                PODS,
                {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"namespace": namespace, "name": name},
                    "deleteOptions": {"preconditions": preconditions},
                },
                model=PartialObjectMetadata,
                namespace=namespace,
                name=name,
                subresource="eviction",
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound:
            return
        self.cache.history.record(eviction.owner, eviction.node, now=self._runtime.instant())
        self._runtime.metrics.evicted_unprepared.labels(eviction.cause.value).inc()
        self._events.record(eviction.reason)
