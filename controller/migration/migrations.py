"""The loop of migrations: brings each PodMigrationJob one step further, until the job has ended.

A job has one worker at a time. The response to each write enters the cache before the next decision, and after a
conflict the job is read and decided about again.
"""

from typing import Final

from controller.migration.arbitration import Arbitration
from controller.migration.evictor import Evictor
from controller.migration.informers import MigrationInformers
from controller.migration.job_objects import JobObjects
from controller.migration.job_writer import JobWriter
from controller.migration.metrics import DeschedulerMetrics
from controller.reconciler import AGAIN, Reconciler, Settings
from controller.runtime import Runtime
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import PodMigrationJob
from dra.engine.instants import NEVER, Instant, Moment
from dra.engine.migration.decide import decide
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.limits import EvictionPace
from dra.engine.migration.plan import (
    CreateReservation,
    DeleteJob,
    DeleteReservation,
    EvictPod,
    MigrationAction,
    PatchJob,
    PatchJobStatus,
    ReadPod,
    ReadReservation,
)
from dra.kube.errors import Conflict
from dra.kube.store import Synced
from dra.model.meta import Uid

WORKERS: Final = 16
MAX_ROUNDS: Final = 24
"""Maximum number of decisions on one job in one reconciliation; a migration has about a dozen steps."""

RETRY: Final = (0.2, 30.0)
"""Seconds, minimum and maximum, before a job is decided about again after an error."""

RETRY_SECONDS: Final = 5.0
"""Seconds until a deletion is repeated that no watch has shown."""


class Migrations(Reconciler[Uid]):
    """The loop that carries out PodMigrationJobs."""

    settings = Settings(name="podmigrationjob", workers=WORKERS, retry=RETRY, rounds=MAX_ROUNDS, pause=RETRY_SECONDS)
    cache: JobCache

    def __init__(
        self,
        runtime: Runtime[DeschedulerMetrics],
        informers: MigrationInformers,
        *,
        cache: JobCache,
        args: MigrationControllerArgs,
        arbitration: Arbitration,
    ) -> None:
        """Create the loop, which wakes ``arbitration`` for as long as it acts."""
        super().__init__(runtime, informers, cache, needs=(informers,))
        self._informers = informers
        self._args = args
        self._arbitration = arbitration
        self._writer = JobWriter(runtime, cache=cache)
        self._objects = JobObjects(runtime, cache=cache)
        self.evictor: Final = Evictor(
            runtime, objects=self._objects, pace=EvictionPace(args.evict_qps, args.evict_burst)
        )
        informers.jobs.subscribe(cache.watch_job, cache.watch_job_end, listed=self._jobs_listed)
        informers.reservations.subscribe(
            cache.watch_reservation, cache.watch_reservation_end, listed=self._reservations_listed
        )
        informers.pods.subscribe(cache.observe_pod, cache.forget_pod)
        budgets = cache.arbitration
        informers.disruption_budgets.subscribe(budgets.observe_budget, budgets.forget_budget)
        informers.unavailable_budgets.subscribe(budgets.observe_budget, budgets.forget_budget)

    def _jobs_listed(self, listed: Synced) -> None:
        self.cache.jobs_listed(listed.resource_version)

    def _reservations_listed(self, listed: Synced) -> None:
        self.cache.reservations_listed(listed.resource_version)

    async def begin(self) -> None:
        """List all jobs and Reservations: watches may be behind the writes of another process."""
        await self._informers.catch_up(self.cache)

    def enqueue_dirty(self) -> None:
        """Enqueue what has changed, and wake arbitration, if this replica acts."""
        super().enqueue_dirty()
        if self._acting:
            self._arbitration.wake_if_due()

    def subject(self, key: Uid) -> str:
        """Return a job as log messages name it."""
        job = self.cache.job(key)
        return super().subject(key) if job is None else f"{self.settings.name} {job.metadata.name}"

    async def reconcile(self, key: Uid, now: Moment) -> Instant:
        """Bring one job a step further; return when to decide again, and raise ApiError."""
        reread_at = self.cache.drop_old_reads(key, now=now.instant)
        view = self.cache.view(key)
        if view is None:
            return NEVER
        plan = decide(view, args=self._args, now=now.wall)
        due = min(reread_at, now.instant_of(plan.wake_at_wall))
        for action in plan.actions:
            try:
                due = min(due, await self._apply(view.job, action))
            except Conflict:
                await self._writer.refresh(view.job)
                if self.cache.job(key) is view.job:
                    raise  # nobody was faster: the API server rejects the write itself
                return AGAIN
        return due

    async def _apply(self, job: PodMigrationJob, action: MigrationAction) -> Instant:
        """Apply one action; return when to decide again, later if the watch has to show the effect. Raises ApiError."""
        uid = Uid(job.metadata.uid)
        match action:
            case PatchJob() | PatchJobStatus():
                await self._writer.patch(job, action)
            case ReadPod():
                await self._objects.read_pod(uid, action.key)
            case ReadReservation():
                await self._objects.read_reservation(uid, action.name)
            case CreateReservation():
                await self._objects.create_reservation(uid, action)
            case EvictPod():
                return await self.evictor.evict(action, self.cache.live(uid))
            case DeleteReservation():
                await self._objects.delete_reservation(action)
                return self._runtime.instant() + RETRY_SECONDS
            case DeleteJob():
                await self._writer.delete(job)
                return self._runtime.instant() + RETRY_SECONDS
        return AGAIN
