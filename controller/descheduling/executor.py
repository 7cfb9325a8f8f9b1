"""Carries out what a round has decided: PodMigrationJobs and direct evictions."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

from controller.descheduling.plugin_handle import PluginHandle, call_plugin
from controller.migration.evictor import Evictor
from controller.migration.metrics import DeschedulerMetrics
from controller.runtime import Runtime
from dra.engine.descheduling.execution import AskEvictor, CreateJob, EvictNow, Execution
from dra.engine.descheduling.round import Decision
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.live_reads import LiveReads
from dra.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid
from dra.kube.resources import POD_MIGRATION_JOBS
from dra.model.meta import UnstructuredObject

BAD_REQUEST: Final = 400
"""HTTP status for a job that the API server cannot decode."""

EVICTOR_SECONDS: Final = 10.0
"""Maximum seconds for one call of a user's evictor."""

_log: Final = logging.getLogger(__name__)


class Outcome(StrEnum):
    """The outcome of carrying out one accepted candidate."""

    JOB_CREATED = "JobCreated"
    JOB_EXISTS = "JobExists"
    EVICTED = "Evicted"
    REFUSED = "Refused"
    """The API server refused the job or the eviction; the log has its answer."""
    EVICTOR_FAILED = "EvictorFailed"
    DRY_RUN = "DryRun"


class UserEvictor(Protocol):
    """The evictor of a user."""

    def evict(self, decision: Decision, handle: PluginHandle) -> Coroutine[Any, Any, None]:
        """End or move the pod of an accepted decision."""


class Executor:
    """Creates jobs and evicts pods, one after the other."""

    def __init__(
        self,
        runtime: Runtime[DeschedulerMetrics],
        *,
        cache: JobCache,
        evictor: Evictor,
        evictors: Mapping[str, UserEvictor],
        handle: PluginHandle,
    ) -> None:
        """Create the executor; ``evictor`` keeps the pace of all evictions of the process."""
        self._runtime = runtime
        self._cache = cache
        self._evictor = evictor
        self._evictors = evictors
        self._handle = handle

    async def execute(self, execution: Execution) -> Outcome:
        """Carry out one decision. Raises ApiError if the API server does not work now: the rest can wait."""
        match execution:
            case CreateJob():
                return await self._create(execution)
            case EvictNow():
                return await self._evict(execution)
            case AskEvictor():
                return await self._ask(execution)

    async def _create(self, execution: CreateJob) -> Outcome:
        """Create a job; the answer enters the cache, so that the next round sees the pod in flight."""
        name = execution.manifest["metadata"]["name"]
        try:
            job = await self._runtime.client.create(
                POD_MIGRATION_JOBS,
                execution.manifest,
                model=UnstructuredObject,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except AlreadyExists:
            return Outcome.JOB_EXISTS
        except ApiError as error:
            if not isinstance(error, Forbidden | Invalid) and error.status != BAD_REQUEST:
                raise
            _log.warning("podmigrationjob %s: not created, and the pod stays: %s", name, error)
            return Outcome.REFUSED
        self._cache.observe_job(job)
        return Outcome.JOB_CREATED

    async def _evict(self, execution: EvictNow) -> Outcome:
        live, name = LiveReads(), "/".join(execution.eviction.key)
        while True:
            due = await self._evictor.evict(execution.eviction, live)
            if live.eviction_turn is None:
                break
            await asyncio.sleep(max(0.0, due - self._runtime.instant()))
        if live.evict_error:
            _log.warning("pod %s: not evicted: %s", name, live.evict_error)
            return Outcome.REFUSED
        return Outcome.EVICTED

    async def _ask(self, execution: AskEvictor) -> Outcome:
        """Ask a user's evictor: one that ignores its cancellation must not hold up the round."""
        name, evictor = "/".join(execution.decision.pod.metadata.key), f"evictor {execution.evictor}"
        call = self._evictors[execution.evictor].evict(execution.decision, self._handle)
        error = await call_plugin(evictor, call, within=EVICTOR_SECONDS)
        if error is None:
            return Outcome.EVICTED
        _log.error("pod %s: %s failed, and the pod stays", name, evictor, exc_info=error)
        return Outcome.EVICTOR_FAILED
