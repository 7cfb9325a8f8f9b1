"""Live reads of pods, and of the claims that a migrated pod names."""

from controller.migration.metrics import DeschedulerMetrics
from controller.runtime import Runtime
from dra.engine.migration.device_claims import claim_reach, named_claims
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.live_reads import LookedAtPod
from dra.engine.migration.view import ClaimReach, MigrationPod
from dra.kube.errors import NotFound, UnreadableResponse
from dra.kube.resources import CLAIMS, PODS
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Key, Uid, UnstructuredObject


class PodReader:
    """Reads what no watch shows: the whole template of a pod, and that a pod is gone."""

    def __init__(self, runtime: Runtime[DeschedulerMetrics], *, cache: JobCache) -> None:
        self._runtime = runtime
        self._cache = cache

    async def look_at(self, key: Key) -> LookedAtPod | None:
        """Return a pod as the API server has it now; None if no pod has the name.

        Raises ApiError, also for a pod that is too large.
        """
        try:
            obj = await self._runtime.client.get(PODS, key, UnstructuredObject)
        except NotFound as error:
            if not error.is_about(key[1]):
                raise
            return None
        try:
            return LookedAtPod.of(obj)
        except ValueError as error:
            raise UnreadableResponse(PODS.describe(key), error) from error

    async def read(self, uid: Uid, key: Key) -> None:
        """Read the pod of a job, or the pod in the job's Reservation, into the cache."""
        was_watched = self._cache.pods.by_key(key) is not None
        looked_at = await self.look_at(key)
        is_own = self._cache.is_own_pod(uid, key)
        claims = await self._read_claims(looked_at.pod) if looked_at is not None and is_own else ()
        self._cache.observe_read_pod(
            uid, key, looked_at, claims=claims, was_watched=was_watched, now=self._runtime.instant()
        )

    async def _read_claims(self, pod: MigrationPod) -> tuple[ClaimReach, ...]:
        """Return the reach of the claims that a pod names; a Reservation has claims of its own from templates."""
        node = pod.spec.node_name
        return tuple([claim_reach(key, await self._find_claim(key), pod_node=node) for key in named_claims(pod)])

    async def _find_claim(self, key: Key) -> ResourceClaim | None:
        try:
            return await self._runtime.client.get(CLAIMS, key, WatchedClaim)
        except NotFound:
            return None
