"""Executes evictions as upstream does: live read, condition, deletion.

Evictions run beside the writes of the claim, not within them: neither may delay the other.
"""

import logging
from functools import partial
from typing import Final

from controller.claim_events import ClaimEvents
from controller.claim_writer import PartialFailureError, run_in_parallel
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from dra.engine.claims import eviction
from dra.engine.claims.actions import ClaimPlan, EvictPod
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.policy import Policy
from dra.engine.instants import NEVER, Instant
from dra.kube.backoff import Backoff
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.resources import PODS
from dra.model.meta import Key, PartialObjectMetadata, Uid
from dra.model.pods import DISRUPTION_TARGET, Pod, PodCondition

CONDITION: Final = PodCondition(
    type=DISRUPTION_TARGET,
    status="True",
    reason="DeletionByDeviceTaintManager",
    message="Device Taint manager: deleting due to NoExecute taint",
)
"""Verbatim copy of upstream's condition: pod failure policies and dashboards that match it need no change."""

RETRY: Final = (0.5, 60.0)
"""Seconds, minimum and maximum, before a failed eviction is retried."""

_log: Final = logging.getLogger(__name__)


class Evictor:
    """An evictor of unlisted pods whose claims use tainted devices."""

    def __init__(  # noqa: PLR0913 - keyword-only: the parts it puts together
        self,
        client: Client,
        *,
        cache: ClaimCache,
        events: ClaimEvents,
        metrics: ControllerMetrics,
        policy: Policy,
        clock: Clock,
        leadership: Leadership,
    ) -> None:
        self._client = client
        self._cache = cache
        self._events = events
        self._metrics = metrics
        self._policy = policy
        self._clock = clock
        self._leadership = leadership
        self._backoffs: dict[Key, Backoff] = {}
        self._failed: dict[Key, tuple[Instant, frozenset[Uid]]] = {}
        """Claim → until when the pods whose eviction failed are left alone, whatever happens to the claim meanwhile."""

    async def reconcile(self, key: Key) -> Instant:
        """Evict the pods of a claim that are due; return when to reconcile again. Failures are logged, not raised."""
        until, waiting = self._failed.pop(key, (-NEVER, frozenset()))
        if until <= self._clock.now():
            until, waiting = NEVER, frozenset()
        failed: set[Uid] = set()
        try:
            plan = self._decide(key)
            evictions = [action for action in plan.actions if isinstance(action, EvictPod)]
            waiting &= {action.uid for action in evictions}
            await run_in_parallel(
                [partial(self._evict, action, failed) for action in evictions if action.uid not in waiting]
            )
        except (ApiError, PartialFailureError) as error:
            delay = self._next_delay(key)
            _log.warning("claim %s/%s: not all pods evicted, retrying in %.1f s: %s", *key, delay, error)
        except Exception:  # noqa: BLE001 - one claim must not stop all others
            delay = self._next_delay(key)
            _log.exception("claim %s/%s: internal error in evictions, retrying in %.1f s", *key, delay)
            self._metrics.failures.inc()
        else:
            if not waiting:
                self._backoffs.pop(key, None)
                return plan.wake_at
            self._failed[key] = (until, waiting)
            return min(plan.wake_at, until)
        again = min(until, self._clock.now() + delay)
        self._failed[key] = (again, waiting | failed)
        return again

    def _next_delay(self, key: Key) -> float:
        """Return the delay after one more failure in a row."""
        return self._backoffs.setdefault(key, Backoff(*RETRY)).next()

    def _decide(self, key: Key) -> ClaimPlan:
        claim, now = self._cache.claim(key), self._clock.now()
        if claim is None or not self._cache.taints.taints_of(claim.status.allocation):
            return ClaimPlan()  # the usual case; building a view is expensive
        view = self._cache.view(key, now=now)
        if view is None:
            return ClaimPlan()
        return eviction.decide(view, policy=self._policy, now=now, wall=self._clock.wall().timestamp())

    async def _evict(self, action: EvictPod, failed: set[Uid]) -> None:
        """Evict a pod; add the pod to ``failed`` and raise ApiError if the API server refuses."""
        try:
            pod = await self._client.get(PODS, action.pod, Pod)
            if pod.metadata.uid != action.uid:
                self._cache.forget_pod(action.uid)
                return
            self._cache.observe_pod(pod, now=self._clock.now())
            if pod.terminal or pod.metadata.deleting:
                return
            await self._set_disruption_condition(pod)
            await self._client.delete(PODS, action.pod, uid=action.uid, timeout_seconds=self._write_timeout())
        except (NotFound, Conflict):  # gone, or another pod has its name: the informer reports it
            return
        except ApiError:
            failed.add(action.uid)
            raise
        self._metrics.evicted.labels(action.source.value).inc()
        self._events.record(action.reason)

    async def _set_disruption_condition(self, pod: Pod) -> None:
        """Set the DisruptionTarget condition before the deletion: the pod's owner may count disruptions differently."""
        found = pod.condition(CONDITION.type)
        if found is not None and (found.status, found.reason) == (CONDITION.status, CONDITION.reason):
            return
        condition = {
            "type": CONDITION.type,
            "status": CONDITION.status,
            "reason": CONDITION.reason,
            "message": CONDITION.message,
            "lastTransitionTime": rfc3339(self._clock.wall()),
        }
        await self._client.merge_patch(
            PODS,
            pod.metadata.key,
            {"status": {"conditions": [condition]}},
            model=PartialObjectMetadata,
            subresource="status",
            strategic=True,
            uid=pod.metadata.uid,
            timeout_seconds=self._write_timeout(),
        )

    def _write_timeout(self) -> float:
        return self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now())
