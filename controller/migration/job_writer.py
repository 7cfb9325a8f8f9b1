"""Writes of PodMigrationJobs; each response enters the cache, so that the next decision sees it."""

import logging
from typing import Final

from controller.migration.metrics import DeschedulerMetrics
from controller.runtime import Runtime
from dra.api.migration.model import PodMigrationJob
from dra.engine.migration.conditions import ending
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.plan import MigrationEvent, PatchJob, PatchJobStatus
from dra.kube.errors import Conflict, NotFound
from dra.kube.event_correlator import EventRecord, Regarding, log_level
from dra.kube.resources import POD_MIGRATION_JOBS, Resource
from dra.model.meta import ObjectMeta, Uid, UnstructuredObject

ACTION: Final = "Migrate"
"""Value of the ``action`` field in all Events of the descheduler."""

_log: Final = logging.getLogger(__name__)


class JobWriter:
    """Writes PodMigrationJobs as they were decided on."""

    def __init__(self, runtime: Runtime[DeschedulerMetrics], *, cache: JobCache) -> None:
        self._runtime = runtime
        self._cache = cache

    async def patch(self, job: PodMigrationJob, action: PatchJob | PatchJobStatus) -> None:
        """Patch a job or its status, record the Events of the action, and count the end. Raises ApiError."""
        try:
            answer = await self._runtime.client.merge_patch(
                POD_MIGRATION_JOBS,
                ("", job.metadata.name),
                action.body,
                model=UnstructuredObject,
                subresource="status" if isinstance(action, PatchJobStatus) else None,
                uid=Uid(job.metadata.uid),
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound as error:
            self._forget(job, error)
            return
        self._cache.observe_job(answer)
        if isinstance(action, PatchJobStatus):
            for event in action.events:
                self._record_event(answer, event)
            self._count_end(job)

    async def delete(self, job: PodMigrationJob) -> None:
        """Delete a job that ended long ago. Raises ApiError."""
        try:
            key, uid = ("", job.metadata.name), Uid(job.metadata.uid)
            await self._runtime.client.delete(
                POD_MIGRATION_JOBS, key, uid=uid, timeout_seconds=self._runtime.write_timeout()
            )
        except NotFound as error:
            self._forget(job, error)
        except Conflict:
            await self.refresh(job)

    async def refresh(self, job: PodMigrationJob) -> None:
        """Read a job live into the cache. Raises ApiError."""
        uid = Uid(job.metadata.uid)
        try:
            live = await self._runtime.client.get(POD_MIGRATION_JOBS, ("", job.metadata.name), UnstructuredObject)
        except NotFound as error:
            self._forget(job, error)
            return
        if live.metadata.uid == uid:
            self._cache.observe_job(live)
        else:
            self._cache.forget_job(uid)

    def _forget(self, job: PodMigrationJob, error: NotFound) -> None:
        """Forget a job that is gone; raise the error if the kind is not served, or not yet."""
        if not error.is_about(job.metadata.name):
            raise error
        self._cache.forget_job(Uid(job.metadata.uid))

    def _count_end(self, before: PodMigrationJob) -> None:
        metrics, now = self._runtime.metrics, self._runtime.moment()
        end = ending(before, self._cache.job(Uid(before.metadata.uid)), now=now.wall)
        if end is not None:
            metrics.migrations.labels(end.phase.value, end.reason).inc()
            if end.seconds is not None:
                metrics.migration_seconds.observe(end.seconds)

    def _record_event(self, obj: UnstructuredObject, event: MigrationEvent) -> None:
        level, name = log_level(event.type), obj.metadata.name
        _log.log(level, "podmigrationjob %s: %s", name, event.message, extra={"reason": event.reason.value})
        self._runtime.recorder.record(event_record(POD_MIGRATION_JOBS, obj.metadata, event))


def event_record(resource: Resource, metadata: ObjectMeta, event: MigrationEvent) -> EventRecord:
    """Return an Event about an object as the recorder takes it."""
    regarding, reason = Regarding.of(resource, metadata), event.reason.value
    return EventRecord(regarding=regarding, reason=reason, action=ACTION, note=event.message, severity=event.type)
