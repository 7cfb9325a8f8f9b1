"""Writes the pods of claims: removes this project's scheduling gate, and has kubelets look at the claim again."""

import asyncio
from typing import Final

from controller.metrics import ControllerMetrics
from controller.runtime import Runtime
from dra.engine.claims import live_reads, patches
from dra.engine.claims.actions import ResyncPod, Ungate
from dra.engine.claims.claim_cache import ClaimCache
from dra.kube.backoff import Backoff
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.clock import rfc3339_micro
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import PODS
from dra.model.meta import Key, PartialObjectMetadata, Uid
from dra.model.pods import Pod, claim_names

RESYNC_ATTEMPTS: Final = 3
"""Attempts to touch a pod; otherwise its kubelet re-reads the claim after a minute or more."""

RESYNC_RETRY_DELAY: Final = 0.5
"""Seconds before the second attempt."""


class ClaimPodWriter:
    """A writer of the pods that use claims."""

    def __init__(self, runtime: Runtime[ControllerMetrics], *, cache: ClaimCache) -> None:
        self._runtime = runtime
        self._cache = cache

    async def ungate(self, action: Ungate) -> None:
        """Remove the gate from the version of the pod that was decided on; raise ApiError."""
        try:
            pod = await self._runtime.client.merge_patch(
                PODS,
                action.pod,
                patches.ungate_patch(action.other_gates),
                model=Pod,
                resource_version=action.resource_version,
                uid=action.uid,
                priority=RequestPriority.URGENT,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except Conflict:
            names = await self._reread(action.pod, action.uid)
            self._cache.dirty.update((action.pod[0], name) for name in names)
        except NotFound as error:
            if not error.is_about(action.pod[1]):
                raise
            self._cache.forget_pod(action.uid)
        except ApiError as error:
            if not error.is_outcome_unknown or not await self._is_ungated(action):
                raise
            self._runtime.metrics.ungated.inc()
        else:
            self._runtime.metrics.ungated.inc()
            self._cache.observe_pod(pod, now=self._runtime.instant())

    async def _is_ungated(self, action: Ungate) -> bool:
        """Return whether the scheduling gate is gone from the pod although the write's outcome was unknown."""
        try:
            await self._reread(action.pod, action.uid)
        except ApiError:
            return False
        consumer = self._cache.consumer(action.uid)
        return consumer is None or not consumer.gated_by_us

    async def _reread(self, key: Key, uid: Uid) -> tuple[str, ...]:
        """Read a pod live into the cache and return its claims.

        A gated pod changes once more right after its creation: kube-scheduler writes its condition.
        """
        try:
            pod = await self._runtime.client.get(
                PODS, key, Pod, priority=RequestPriority.URGENT, timeout_seconds=WRITE_TIMEOUT
            )
        except NotFound as error:
            if not error.is_about(key[1]):
                raise
            self._cache.forget_pod(uid)
            return ()
        live_reads.observe_pod(self._cache, uid, pod, now=self._runtime.instant())
        return claim_names(pod)

    async def resync(self, action: ResyncPod) -> None:
        """Touch the pod so that its kubelet re-reads the claim; raise ApiError.

        Retried, unlike all other writes: no later plan contains this step.
        """
        stamp, backoff = rfc3339_micro(self._runtime.clock.wall()), Backoff(base=RESYNC_RETRY_DELAY)
        for left in reversed(range(RESYNC_ATTEMPTS)):
            try:
                await self._runtime.client.merge_patch(
                    PODS,
                    action.pod,
                    patches.resync_patch(stamp),
                    model=PartialObjectMetadata,
                    uid=action.uid,
                    priority=RequestPriority.URGENT,
                    timeout_seconds=self._runtime.write_timeout(),
                )
            except (Conflict, NotFound):
                return  # that pod is gone: no kubelet waits
            except ApiError:
                if not left:
                    raise
                await asyncio.sleep(backoff.next())
            else:
                self._runtime.metrics.resynced.inc()
                return
