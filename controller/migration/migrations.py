"""The reconcile loop of migrations: arbitrates between jobs, and brings each job one step further.

A job has one worker at a time. The response to each write enters the cache before the next decision, and a conflict
makes the loop read the job and decide again.
"""

import asyncio
import logging
import time
from datetime import datetime
from typing import Final, NoReturn

import msgspec

from controller.leadership import Leadership
from controller.migration.evictor import ACTION, Evictor
from controller.migration.informers import MigrationInformers
from controller.migration.metrics import DeschedulerMetrics
from controller.migration.workload_replicas import WorkloadReplicas
from dra.api.descheduler_configuration import MigrationControllerArgs
from dra.api.migration.model import PodMigrationJob
from dra.engine.instants import NEVER, Instant, WallTime
from dra.engine.migration import arbitration, endings
from dra.engine.migration.decide import decide
from dra.engine.migration.device_claims import claim_reach, named_claims
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.plan import (
    CreateReservation,
    DeleteJob,
    DeleteReservation,
    EvictPod,
    MigrationAction,
    MigrationEvent,
    PatchJob,
    PatchJobStatus,
    ReadPod,
    ReadReservation,
)
from dra.engine.migration.view import ClaimReach, MigrationPod
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock
from dra.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.events import EventRecorder
from dra.kube.resources import CLAIMS, POD_MIGRATION_JOBS, RESERVATIONS
from dra.kube.store import ServerRestoredError
from dra.kube.workqueue import BATCH_DELAY, RetryPolicy, WorkQueue
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.event_type import EventType
from dra.model.meta import Key, Uid, UnstructuredObject
from dra.telemetry.logs import reconcile_id

WORKERS: Final = 16
MAX_ROUNDS: Final = 24
"""Maximum number of decisions on one job in one reconciliation; a migration has about a dozen steps."""

RETRY_BACKOFF: Final = (0.2, 30.0)
BAD_REQUEST: Final = 400
"""HTTP status for a Reservation that the API server cannot decode."""

ARBITRATION_INTERVAL: Final = 0.5
"""Minimum seconds between two arbitrations."""

RETRY_SECONDS: Final = 5.0
"""Seconds until a verdict that the API server rejected is written again, or a deletion that no watch has shown."""

MAX_SLEEP: Final = 600.0
"""Maximum seconds until a wall-clock deadline is checked again: the wall clock may jump."""

_log: Final = logging.getLogger(__name__)


class MigrationLoop:
    """Decides on PodMigrationJobs, and writes."""

    def __init__(  # noqa: PLR0913 - keyword-only: the parts it works with
        self,
        client: Client,
        *,
        args: MigrationControllerArgs,
        cache: JobCache,
        informers: MigrationInformers,
        evictor: Evictor,
        recorder: EventRecorder,
        metrics: DeschedulerMetrics,
        clock: Clock,
        leadership: Leadership,
    ) -> None:
        """Create the loop; another task runs `informers`, which fill `cache`."""
        self._client = client
        self._args = args
        self._cache = cache
        self._informers = informers
        self._evictor = evictor
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._leadership = leadership
        self._replicas = WorkloadReplicas(client, clock=clock)
        self._acting = False
        self._queue: WorkQueue[Uid] = WorkQueue(clock, batch_delay=BATCH_DELAY)
        self._retry: RetryPolicy[Uid] = RetryPolicy(
            _log, subject=self._subject, bounds=RETRY_BACKOFF, on_internal_error=metrics.failures.inc
        )
        self._arbitration_wakeup = asyncio.Event()

    async def run(self) -> None:
        """Migrate until cancelled, once all caches are synced."""
        await self._informers.wait_for_sync()
        await self._informers.catch_up()
        self._acting = True
        self._cache.changed.update(self._cache.uids())
        self._cache.arbitration.is_due = True
        self.wake()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._queue.run(self._process, workers=WORKERS, retry=self._retry), name="jobs")
                group.create_task(self._arbitrate(), name="arbitration")
        finally:
            self._acting = False

    def wake(self) -> None:
        """Enqueue what has changed in the cache; called at the end of each batch of events."""
        changed = self._cache.changed
        if not self._acting:
            changed.clear()
            return
        for uid in sorted(changed):
            self._queue.add(uid)
        changed.clear()
        if self._cache.arbitration.is_due:
            self._arbitration_wakeup.set()

    # Arbitration

    async def _arbitrate(self) -> NoReturn:
        """Arbitrate after changes, and when a limit on the rate of evictions allows more."""
        while True:
            self._arbitration_wakeup.clear()
            try:
                delay = await self._arbitrate_once()
            except ServerRestoredError:
                raise
            except ApiError as error:
                _log.warning("arbitration failed, retrying: %s", error)
                delay = RETRY_SECONDS
                if error.is_outcome_unknown:  # a job that has passed must count before any other job passes
                    await asyncio.sleep(max(0.0, self._client.late_writes_until - self._clock.now()))
                    await self._informers.catch_up()
            except Exception:  # noqa: BLE001 - jobs that have begun must go on
                _log.exception("arbitration: internal error, retrying in %.0f s", RETRY_SECONDS)
                self._metrics.failures.inc()
                delay = RETRY_SECONDS
            await asyncio.sleep(ARBITRATION_INTERVAL)
            try:
                async with asyncio.timeout(min(delay, MAX_SLEEP)):
                    await self._arbitration_wakeup.wait()
            except TimeoutError:
                continue

    async def _arbitrate_once(self) -> float:
        """Arbitrate once; return the seconds until a verdict may change by itself. Raises ApiError.

        A verdict on an earlier state of a job is void.
        """
        self._cache.arbitration.is_due = False
        view = self._cache.arbitration_view()
        workloads = arbitration.workloads_to_read(view)
        if workloads:
            replicas = await self._replicas.read(sorted(workloads, key=lambda each: each[0].uid))
            view = msgspec.structs.replace(self._cache.arbitration_view(), replicas=replicas)
        wall = self._clock.wall().timestamp()
        started = time.perf_counter()
        verdicts = arbitration.arbitrate(view, args=self._args, now=wall)
        self._metrics.arbitration_seconds.observe(time.perf_counter() - started)
        due = arbitration.arbitrate_again_at(verdicts, reads_replicas=bool(workloads), now=wall)
        judged = {each.metadata.uid: each for each in view.jobs}
        for verdict in arbitration.in_order_of_writes(verdicts):
            uid = Uid(verdict.uid)
            job = self._cache.job(uid)
            if job is not judged.get(uid) or job is None:
                self._cache.arbitration.is_due = True
                continue
            for action in arbitration.verdict_plan(job, verdict, now=wall).actions:
                try:
                    await self._apply(uid, action)
                except (NotFound, Conflict):
                    await self._refresh(uid)
                    self._cache.arbitration.is_due = True
                except ApiError as error:
                    if error.is_outcome_unknown:
                        raise
                    _log.warning("podmigrationjob %s: verdict not written, retrying: %s", job.metadata.name, error)
                    due = min(due, wall + RETRY_SECONDS)
        self.wake()
        return NEVER if due == NEVER else max(due - self._clock.wall().timestamp(), 0.0) + 0.05

    # Reconciliation

    def _subject(self, uid: Uid) -> str:
        job = self._cache.job(uid)
        return f"podmigrationjob {job.metadata.name if job is not None else uid}"

    async def _process(self, uid: Uid) -> None:
        """Reconcile one job, and enqueue what has changed meanwhile."""
        reconcile_id.set(self._subject(uid))
        try:
            await self.reconcile(uid)
        finally:
            self.wake()

    async def reconcile(self, uid: Uid) -> None:
        """Bring one job as far as the engine decides. Raises ApiError."""
        for _ in range(MAX_ROUNDS):
            reread_at = self._cache.drop_old_reads(uid, now=self._clock.now())
            view = self._cache.view(uid)
            if view is None:
                return
            wall = self._clock.wall()
            plan = decide(view, args=self._args, now=wall.timestamp())
            if not plan.actions:
                self._queue.add_at(uid, reread_at)
            self._schedule(uid, plan.wake_at_wall, wall=wall)
            again = None
            for action in plan.actions:
                try:
                    again = await self._apply(uid, action)
                except Conflict:
                    await self._refresh(uid)
                    if self._cache.job(uid) is view.job:
                        raise  # nobody was faster: the API server rejects the write itself
            if again is not None:
                self._queue.add_at(uid, again)
            if again is not None or not plan.actions:
                return
        _log.warning("podmigrationjob with uid %s: %d decisions in a row, a pause follows", uid, MAX_ROUNDS)
        self._queue.add_at(uid, self._clock.now() + RETRY_SECONDS)

    def _schedule(self, uid: Uid, wake_at: WallTime, *, wall: datetime) -> None:
        if wake_at != NEVER and wake_at > wall.timestamp():
            delay = min(max(wake_at - wall.timestamp(), 0.0) + 0.05, MAX_SLEEP)
            self._queue.add_at(uid, self._clock.now() + delay)

    async def _apply(self, uid: Uid, action: MigrationAction) -> Instant | None:
        """Apply one action; return when to decide again if the watch has to show the effect. Raises ApiError."""
        match action:
            case PatchJob():
                await self._patch(uid, action, subresource=None)
            case PatchJobStatus():
                await self._patch(uid, action, subresource="status")
            case ReadPod():
                await self._read_pod(uid, action.key)
            case ReadReservation():
                await self._read_reservation(uid, action.name)
            case CreateReservation():
                await self._create_reservation(uid, action)
            case EvictPod():
                return await self._evictor.evict(action, self._cache.live(uid))
            case DeleteReservation():
                await self._delete_reservation(action)
                return self._clock.now() + RETRY_SECONDS
            case DeleteJob():
                await self._delete_job(uid)
                return self._clock.now() + RETRY_SECONDS
        return None

    async def _patch(self, uid: Uid, action: PatchJob | PatchJobStatus, *, subresource: str | None) -> None:
        before = self._cache.job(uid)
        if before is None:
            return
        try:
            answer = await self._client.merge_patch(
                POD_MIGRATION_JOBS,
                ("", before.metadata.name),
                action.body,
                model=UnstructuredObject,
                subresource=subresource,
                uid=uid,
                timeout_seconds=self._write_timeout(),
            )
        except NotFound as error:
            self._forget_job(uid, before, error)
            return
        self._cache.observe_job(answer)
        if isinstance(action, PatchJobStatus):
            for event in action.events:
                self._record_event(answer, event)
            self._count_end(uid, before)

    def _count_end(self, uid: Uid, before: PodMigrationJob) -> None:
        end = endings.ending(before, self._cache.job(uid), now=self._clock.wall().timestamp())
        if end is not None:
            self._metrics.migrations.labels(end.phase.value, end.reason).inc()
            if end.seconds is not None:
                self._metrics.migration_seconds.observe(end.seconds)

    async def _read_pod(self, uid: Uid, key: Key) -> None:
        """Read a pod live: the pod of the job, or the pod in the job's Reservation."""
        was_watched = self._cache.pods.by_key(key) is not None
        looked_at = await self._evictor.look_at_pod(key)
        claims = await self._read_claims(looked_at.pod) if looked_at and self._cache.is_own_pod(uid, key) else ()
        self._cache.observe_read_pod(uid, key, looked_at, claims=claims, was_watched=was_watched, now=self._clock.now())

    async def _read_claims(self, pod: MigrationPod) -> tuple[ClaimReach, ...]:
        """Return the reach of the claims that a pod names; a Reservation has claims of its own from templates."""
        node = pod.spec.node_name
        return tuple([claim_reach(key, await self._find_claim(key), pod_node=node) for key in named_claims(pod)])

    async def _find_claim(self, key: Key) -> ResourceClaim | None:
        try:
            return await self._client.get(CLAIMS, key, WatchedClaim)
        except NotFound:
            return None

    async def _read_reservation(self, uid: Uid, name: str) -> bool:
        """Read a Reservation live; return whether one exists that cannot be decoded, which counts as absent."""
        try:
            self._cache.observe_reservation(await self._client.get(RESERVATIONS, ("", name), UnstructuredObject))
        except NotFound as error:
            if not error.is_about(name):
                raise
            self._cache.live(uid).reservation_gone = True
            return False
        is_malformed = not self._cache.has_reservation(name)
        self._cache.live(uid).reservation_gone = is_malformed
        return is_malformed

    async def _create_reservation(self, uid: Uid, action: CreateReservation) -> None:
        name = action.manifest["metadata"]["name"]
        try:
            made = await self._client.create(
                RESERVATIONS, action.manifest, model=UnstructuredObject, timeout_seconds=self._write_timeout()
            )
        except AlreadyExists:
            if await self._read_reservation(uid, name):
                text = f'Reservation "{name}" exists already, and has fields that cannot be read'
                self._cache.live(uid).create_error = text
            return
        except ApiError as error:
            if not isinstance(error, Forbidden | Invalid | NotFound) and error.status != BAD_REQUEST:
                raise
            self._cache.live(uid).create_error = error.message or error.reason
            return
        self._cache.observe_reservation(made)

    async def _delete_reservation(self, action: DeleteReservation) -> None:
        try:
            await self._client.delete(
                RESERVATIONS,
                ("", action.name),
                uid=action.uid,
                resource_version=action.resource_version,
                timeout_seconds=self._write_timeout(),
            )
        except NotFound as error:
            self._forget_reservation(action, error)
        except Conflict:
            await self._reread_reservation(action)
        except Forbidden as error:
            self._cache.keep_reservation(action.uid)
            _log.warning("reservation %s: not deleted, and not tried again: %s", action.name, error)

    async def _reread_reservation(self, action: DeleteReservation) -> None:
        """Read a Reservation that changed before its deletion; a changed one makes its job due again."""
        try:
            found = await self._client.get(RESERVATIONS, ("", action.name), UnstructuredObject)
        except NotFound as error:
            self._forget_reservation(action, error)
        else:
            self._cache.observe_reservation(found)

    async def _delete_job(self, uid: Uid) -> None:
        job = self._cache.job(uid)
        if job is None:
            return
        try:
            await self._client.delete(
                POD_MIGRATION_JOBS, ("", job.metadata.name), uid=uid, timeout_seconds=self._write_timeout()
            )
        except NotFound as error:
            self._forget_job(uid, job, error)
        except Conflict:
            await self._refresh(uid)

    async def _refresh(self, uid: Uid) -> None:
        job = self._cache.job(uid)
        if job is None:
            return
        try:
            found = await self._client.get(POD_MIGRATION_JOBS, ("", job.metadata.name), UnstructuredObject)
        except NotFound as error:
            self._forget_job(uid, job, error)
            return
        if found.metadata.uid == uid:
            self._cache.observe_job(found)
        else:
            self._cache.forget_job(uid)

    def _forget_job(self, uid: Uid, job: PodMigrationJob, error: NotFound) -> None:
        """Forget a job that is gone; raise the error if the kind is not served, or not yet."""
        if not error.is_about(job.metadata.name):
            raise error
        self._cache.forget_job(uid)

    def _forget_reservation(self, action: DeleteReservation, error: NotFound) -> None:
        if not error.is_about(action.name):
            raise error
        self._cache.forget_reservation(action.name, action.uid)

    def _record_event(self, obj: UnstructuredObject, event: MigrationEvent) -> None:
        level = logging.WARNING if event.type is EventType.WARNING else logging.INFO
        name = obj.metadata.name
        _log.log(level, "podmigrationjob %s: %s", name, event.message, extra={"reason": event.reason.value})
        self._recorder.record(
            EventRecord(
                regarding=Regarding.of(POD_MIGRATION_JOBS, obj.metadata),
                reason=event.reason.value,
                action=ACTION,
                note=event.message,
                severity=event.type,
            )
        )

    def _write_timeout(self) -> float:
        return self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now())
