"""Evicts pods whose node refuses to prepare their claims (``koordinator: true``).

`dra.engine.prepare_refusals` decides. The driver reports a refusal in the status of the claim; the time is measured
from when this controller first sees the report, by its own clock, so a restart begins anew. Claim and pod are read live
before each decision, and the eviction names the version of the pod that was read: a pod that has started since stays.
"""

import logging
from collections.abc import Callable
from typing import Final

from controller.claim_events import ClaimEvents
from controller.enabled_namespaces import EnabledNamespaces
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from controller.optional_part import OptionalPart
from dra.engine.instants import Instant
from dra.engine.prepare_refusals.decide import PodEviction, RefusedClaimView, StartingPod, decide, refused_pod
from dra.engine.prepare_refusals.eviction_history import PATIENCE, EvictionHistory
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason, refusal_reason
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock
from dra.kube.errors import NotFound
from dra.kube.resources import CLAIMS, PODS
from dra.kube.workqueue import RetryPolicy, WorkQueue
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Key, PartialObjectMetadata, Struct, Uid

WORKERS: Final = 4
"""Number of claims looked at at the same time."""

RETRY: Final = (2.0, 120.0)
"""Seconds, minimum and maximum, before an eviction that failed is requested again."""

RECHECK: Final = 30.0
"""Seconds until a claim is looked at again whose pod is not evicted."""

_log: Final = logging.getLogger(__name__)


class _Refusal(Struct, frozen=True):
    """A refusal as this controller has seen it."""

    claim: Uid
    reason: PrepareRefusalReason
    since: Instant


class UnpreparedPodEvictor(OptionalPart):
    """The loop that evicts pods with refused claims."""

    def __init__(  # noqa: PLR0913 - keyword-only: what is read of other parts, and what every loop needs
        self,
        client: Client,
        *,
        claim: Callable[[Key], ResourceClaim | None],
        namespaces: EnabledNamespaces,
        events: ClaimEvents,
        metrics: ControllerMetrics,
        clock: Clock,
        leadership: Leadership,
    ) -> None:
        """Create the loop; ``claim`` finds claims by key.

        ``events`` must be the loop's own: what it has published about a claim is no other loop's affair.
        """
        self._client = client
        self._claim = claim
        self._namespaces = namespaces
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._leadership = leadership
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._retry: RetryPolicy[Key] = RetryPolicy(
            _log,
            subject=lambda key: f"eviction for claim {key[0]}/{key[1]}",
            bounds=RETRY,
            on_internal_error=metrics.failures.inc,
        )
        self._refusals: dict[Key, _Refusal] = {}
        self._history = EvictionHistory()

    def claim_changed(self, key: Key, /) -> None:
        """Record whether a claim is refused, and decide on the claim when it is due."""
        claim = self._claim(key)
        reason = refusal_reason(claim) if claim is not None else None
        if claim is None or reason is None:
            self.claim_deleted(key)
            return
        known = self._refusals.get(key)
        if known is None or (known.claim, known.reason) != (claim.metadata.uid, reason):
            now = self._clock.now()
            self._refusals[key] = _Refusal(claim=claim.metadata.uid, reason=reason, since=now)
            self._queue.add_at(key, now + PATIENCE)

    def claim_deleted(self, key: Key, /) -> None:
        """Forget a claim that is deleted, deallocated or prepared."""
        if self._refusals.pop(key, None) is not None:
            self._events.forget(key)
            self._retry.succeeded(key)

    async def run(self) -> None:
        """Evict pods until cancelled."""
        await self._namespaces.wait_for_sync()
        await self._queue.run(self.reconcile, workers=WORKERS, retry=self._retry)

    def overdue_reasons(self) -> list[PrepareRefusalReason]:
        """Return the reasons of the claims that have been refused for `PATIENCE` or longer."""
        now = self._clock.now()
        return [each.reason for each in self._refusals.values() if now - each.since >= PATIENCE]

    async def reconcile(self, key: Key) -> Instant | None:
        """Evict the pod of a refused claim if the pod is due; return when to look again, and raise ApiError."""
        refusal, now = self._refusals.get(key), self._clock.now()
        if refusal is None:
            return None
        if now < refusal.since + PATIENCE:
            return refusal.since + PATIENCE
        view = await self._read(key, refusal.claim)
        if view is None:
            return now + RECHECK
        plan = decide(view, refused_seconds=now - refusal.since)
        self._events.publish(key, plan.reasons, now=now)
        if plan.eviction is None:
            return now + RECHECK
        due = refusal.since + self._history.patience(plan.eviction.owner, plan.eviction.node, now=now)
        if now < due:
            return due
        await self._evict(plan.eviction)
        return self._clock.now() + RECHECK

    async def _read(self, key: Key, uid: Uid) -> RefusedClaimView | None:
        """Return a claim and its pod as they are now; None if the claim is gone."""
        try:
            claim = await self._client.get(CLAIMS, key, WatchedClaim)
        except NotFound:
            return None
        if claim.metadata.uid != uid:
            return None
        pod: StartingPod | None = None
        if (named := refused_pod(claim)) is not None:
            try:
                pod = await self._client.get(PODS, (key[0], named[0]), StartingPod)
            except NotFound:
                pod = None
            if pod is not None and pod.metadata.uid != named[1]:
                pod = None
        return RefusedClaimView(claim=claim, pod=pod, is_enabled=key[0] in self._namespaces)

    async def _evict(self, eviction: PodEviction) -> None:
        namespace, name = eviction.key
        preconditions = {"uid": eviction.uid, "resourceVersion": eviction.resource_version}
        try:
            await self._client.create(
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
                timeout_seconds=self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now()),
            )
        except NotFound:
            return
        self._history.record(eviction.owner, eviction.node, now=self._clock.now())
        self._metrics.evicted_unprepared.labels(eviction.cause.value).inc()
        self._events.record(eviction.reason)
