"""Evictions: the last look at pod and Reservation, the request, and its outcome."""

import logging
from typing import Final

import msgspec

from controller.migration.job_objects import JobObjects
from controller.migration.job_writer import event_record
from controller.migration.metrics import DeschedulerMetrics
from controller.reconciler import AGAIN
from controller.runtime import Runtime
from dra.api.migration.model import EvictionPolicy
from dra.api.migration.well_known import ANNOTATION_SOFT_EVICTION
from dra.engine.instants import Instant
from dra.engine.migration.device_claims import has_template_claims, unheld_devices
from dra.engine.migration.limits import EvictionPace
from dra.engine.migration.live_reads import LiveReads, LookedAtPod
from dra.engine.migration.plan import EvictPod, MigrationEvent
from dra.engine.migration.reasons import MigrationReason
from dra.engine.migration.refusals import is_requested_already
from dra.engine.migration.reservation_fit import holds_room
from dra.engine.migration.view import MigrationPod
from dra.kube.client import Selection
from dra.kube.clock import rfc3339
from dra.kube.errors import ApiError, Conflict, NotFound, Unauthorized
from dra.kube.resources import CLAIMS, PODS
from dra.model.claims import WatchedClaim
from dra.model.meta import PartialObjectMetadata, Uid

INITIATOR: Final = "dra-reserve-descheduler"

RECHECK_SECONDS: Final = 1.0
"""Seconds until an eviction is decided again whose last look did not show what the decision read."""

_CLIENT_ERRORS: Final = range(400, 500)

_log: Final = logging.getLogger(__name__)


class Evictor:
    """Ends pods on condition of a last live look: the pod is the same, and the Reservation still free for the pod."""

    def __init__(self, runtime: Runtime[DeschedulerMetrics], *, objects: JobObjects, pace: EvictionPace) -> None:
        """Create the evictor; `pace` limits the evictions per second."""
        self._runtime = runtime
        self._objects = objects
        self._pace = pace

    async def evict(self, action: EvictPod, live: LiveReads) -> Instant:
        """Request one eviction and record the outcome in `live`. Raises ApiError if the outcome is unknown.

        Returns `AGAIN` once the outcome is recorded, and the job can be decided on at once; otherwise when to decide
        again: the eviction's turn has not come, or the watch has to show first what the last look showed.
        """
        now = self._runtime.instant()
        turn = live.take_turn(self._pace, now=now)
        if now < turn:
            return turn
        looked_at = live.record_last_look(action, await self._objects.look_at_pod(action.key))
        if looked_at is None:
            return AGAIN
        if action.reservation and not await self._is_held(action, looked_at, live):
            return now + RECHECK_SECONDS
        return await self._request_and_record(action, looked_at.pod, live)

    async def _request_and_record(self, action: EvictPod, pod: MigrationPod, live: LiveReads) -> Instant:
        """Request an eviction; return what `evict` returns."""
        recheck_at = self._runtime.instant() + RECHECK_SECONDS
        if is_requested_already(action.eviction_policy, pod):
            return recheck_at
        try:
            await self._request(action)
        except (NotFound, Conflict) as error:
            _log.info("pod %s/%s: gone before its eviction: %s", *action.key, error.message)
            return recheck_at
        except ApiError as error:
            refused = error.status in _CLIENT_ERRORS and not isinstance(error, Unauthorized)
            self._runtime.metrics.evictions.labels(
                action.eviction_policy.value, "refused" if refused else "unknown"
            ).inc()
            if not refused:
                raise
            live.record_refusal(error.message or error.reason, at=self._runtime.moment().wall)
            return AGAIN
        self._runtime.metrics.evictions.labels(action.eviction_policy.value, "granted").inc()
        self._record_event(action, pod)
        return recheck_at if live.record_eviction(action) else AGAIN

    async def _is_held(self, action: EvictPod, looked_at: LookedAtPod, live: LiveReads) -> bool:
        """Return whether the Reservation holds what the replacement needs, by live reads."""
        reservation = await self._objects.look_at_reservation(action.reservation)
        if reservation is None or not holds_room(reservation, looked_at):
            _log.info("pod %s/%s: not evicted: Reservation %s is not free", *action.key, action.reservation)
            return False
        text = await self._unheld_devices(looked_at.pod, Uid(reservation.metadata.uid))
        if text:
            live.record_refusal(text, at=self._runtime.moment().wall)
        return not text

    async def _unheld_devices(self, pod: MigrationPod, reservation: Uid) -> str:
        if not has_template_claims(pod):
            return ""
        claims = []
        within = Selection(namespace=pod.metadata.namespace)
        async for page in self._runtime.client.list_pages(CLAIMS, WatchedClaim, selection=within):
            claims += page.items
        return unheld_devices(pod, claims, reservation=reservation)

    async def _request(self, action: EvictPod) -> None:
        client, timeout = self._runtime.client, self._runtime.write_timeout()
        options = dict(action.delete_options)
        match action.eviction_policy:
            case EvictionPolicy.EVICTION:
                namespace, name = action.key
                metadata = {"namespace": namespace, "name": name}
                await client.create(
                    PODS,
                    {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options},
                    model=PartialObjectMetadata,
                    namespace=namespace,
                    name=name,
                    subresource="eviction",
                    timeout_seconds=timeout,
                )
            case EvictionPolicy.DELETE:
                await client.delete(
                    PODS,
                    action.key,
                    uid=action.uid,
                    grace_seconds=action.grace_seconds,
                    propagation=action.propagation,
                    timeout_seconds=timeout,
                )
            case EvictionPolicy.SOFT_EVICTION:
                now = rfc3339(self._runtime.clock.wall())
                request = {"timestamp": now, "deleteOptions": options, "initiator": INITIATOR, "reason": action.reason}
                annotations = {ANNOTATION_SOFT_EVICTION: msgspec.json.encode(request).decode()}
                body = {"metadata": {"annotations": annotations}}
                await client.merge_patch(
                    PODS, action.key, body, model=PartialObjectMetadata, uid=action.uid, timeout_seconds=timeout
                )

    def _record_event(self, action: EvictPod, pod: MigrationPod) -> None:
        text = f'Pod evicted from node "{pod.spec.node_name}" by the reason "{action.reason}"'
        event = MigrationEvent(reason=MigrationReason.DESCHEDULED, message=text)
        self._runtime.recorder.record(event_record(PODS, pod.metadata, event))
