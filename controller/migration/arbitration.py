"""The loop of arbitration: decides which of the waiting jobs may begin, and writes the verdicts.

Each decision is one about all jobs, and each verdict has errors of its own: this is no loop over keys.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Final, NoReturn, Protocol

import msgspec

from controller.migration.informers import MigrationInformers
from controller.migration.job_writer import JobWriter
from controller.migration.metrics import DeschedulerMetrics
from controller.migration.priority_threshold import PriorityThresholdReader
from controller.runtime import Runtime
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.durations import SECOND
from dra.api.migration.model import PodMigrationJob
from dra.engine.instants import MAX_SLEEP, NEVER, WallTime
from dra.engine.migration import arbitration
from dra.engine.migration.arbitration import ArbitrationVerdict
from dra.engine.migration.job_cache import JobCache
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.store import ServerRestoredError
from dra.model.meta import Uid
from dra.requests.workload_replicas import WorkloadReplicas

RETRY_SECONDS: Final = 5.0
"""Seconds until arbitration is repeated after an error, and a verdict written again that the API server rejected."""

_log: Final = logging.getLogger(__name__)


class NodeFit(Protocol):
    """Answers which pods of jobs fit on no other node."""

    async def unfit_pods(self, args: MigrationControllerArgs) -> Mapping[Uid, str]:
        """Return these pods, each with the reason."""
        ...


class Arbitration:
    """Arbitrates between the jobs that wait, from the first call of `wake_if_due` on."""

    def __init__(
        self,
        runtime: Runtime[DeschedulerMetrics],
        informers: MigrationInformers,
        *,
        cache: JobCache,
        args: MigrationControllerArgs,
    ) -> None:
        self._runtime = runtime
        self._informers = informers
        self._cache = cache
        self._args = args
        self._replicas = WorkloadReplicas(runtime.client, clock=runtime.clock)
        self._threshold = PriorityThresholdReader(runtime.client, clock=runtime.clock)
        self._writer = JobWriter(runtime, cache=cache)
        self._wakeup = asyncio.Event()
        self.node_fit: NodeFit | None = None
        """The answers to ``nodeFit``; None where the nodes are not watched, since there are no profiles."""

    def wake_if_due(self) -> None:
        """Arbitrate if something has changed that arbitration reads."""
        if self._cache.arbitration.is_due:
            self._wakeup.set()

    async def run(self) -> NoReturn:
        """Arbitrate after changes, and when a limit on the rate of evictions allows more, until cancelled."""
        await self._wakeup.wait()
        while True:
            self._wakeup.clear()
            delay = await self._arbitrate_or_back_off()
            await asyncio.sleep(self._args.arbitration_args.interval / SECOND)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(delay, MAX_SLEEP)):
                    await self._wakeup.wait()

    async def _arbitrate_or_back_off(self) -> float:
        """Arbitrate once; return the seconds until the next time if nothing changes."""
        try:
            return await self._arbitrate()
        except ServerRestoredError:
            raise
        except ApiError as error:
            _log.warning("arbitration failed, retrying: %s", error)
            if error.is_outcome_unknown:  # a job that has passed must count before any other job passes
                late_writes_until = self._runtime.client.late_writes_until
                await asyncio.sleep(max(0.0, late_writes_until - self._runtime.instant()))
                await self._informers.catch_up(self._cache)
        except Exception:  # noqa: BLE001 - jobs that have begun must go on
            _log.exception("arbitration: internal error, retrying in %.0f s", RETRY_SECONDS)
            self._runtime.metrics.failures.inc()
        return RETRY_SECONDS

    async def _arbitrate(self) -> float:
        """Arbitrate once; return the seconds until a verdict may change by itself. Raises ApiError.

        A verdict on an earlier state of a job is void.
        """
        args = await self._threshold.resolve(self._args)
        unfit = await self._unfit_pods(args)
        self._cache.arbitration.is_due = False
        view = msgspec.structs.replace(self._cache.arbitration_view(), unfit=unfit)
        workloads = arbitration.workloads_to_read(view)
        if workloads:
            replicas = await self._replicas.read(sorted(workloads, key=lambda workload: workload[0].uid))
            view = msgspec.structs.replace(self._cache.arbitration_view(), replicas=replicas, unfit=unfit)
        now = self._runtime.moment().wall
        started = time.perf_counter()
        verdicts = arbitration.arbitrate(view, args=args, now=now)
        self._runtime.metrics.arbitration_seconds.observe(time.perf_counter() - started)
        due = arbitration.arbitrate_again_at(verdicts, reads_replicas=bool(workloads), now=now)
        judged = {job.metadata.uid: job for job in view.jobs}
        for verdict in arbitration.in_order_of_writes(verdicts):
            job = self._cache.job(Uid(verdict.uid))
            if job is None or job is not judged.get(verdict.uid):
                self._cache.arbitration.is_due = True
                continue
            due = min(due, await self._write(job, verdict, now=now))
        self._informers.notify()
        moment = self._runtime.moment()
        return moment.instant_of(due) - moment.instant

    async def _unfit_pods(self, args: MigrationControllerArgs) -> Mapping[Uid, str]:
        """Return the pods that fit on no other node, if that matters, and the nodes are watched."""
        if self.node_fit is None or not args.node_fit or not self._cache.has_waiting_jobs:
            return {}
        return await self.node_fit.unfit_pods(args)

    async def _write(self, job: PodMigrationJob, verdict: ArbitrationVerdict, *, now: WallTime) -> WallTime:
        """Write a verdict; return when to write it again. Raises ApiError if the outcome is unknown."""
        action = arbitration.verdict_write(job, verdict, now=now)
        if action is None:
            return NEVER
        try:
            await self._writer.patch(job, action)
        except (NotFound, Conflict):
            await self._writer.refresh(job)
            self._cache.arbitration.is_due = True
        except ApiError as error:
            if error.is_outcome_unknown:
                raise
            _log.warning("podmigrationjob %s: verdict not written, retrying: %s", job.metadata.name, error)
            return now + RETRY_SECONDS
        return NEVER
