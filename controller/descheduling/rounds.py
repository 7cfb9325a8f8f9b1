"""The loop of rounds: takes a snapshot, has the plugins of all profiles decide, and has the decisions carried out.

Only the leader runs rounds, once it has listed all jobs: writes of the leader before it have arrived, and the pods of
its jobs are in flight. A round of a large cluster takes seconds and runs in a thread, so that the lease is renewed.
A dry run decides the same, and writes nothing.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from controller.descheduling.executor import Executor, Outcome
from controller.descheduling.informers import DeschedulingInformers
from controller.descheduling.metrics import COMPLETED, FAILED
from controller.migration.metrics import DeschedulerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.engine.descheduling.cache import DeschedulingCache, cluster_objects
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.execution import executions, sources_by_plugin
from dra.engine.descheduling.job_fit import unfit_pods
from dra.engine.descheduling.profiles import Descheduling
from dra.engine.descheduling.round import RoundResult, run_round
from dra.engine.descheduling.round_texts import accepted_lines, refused_lines, summary_line
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.instants import Instant, Moment, WallTime
from dra.engine.migration.job_cache import JobCache
from dra.kube.clock import rfc3339
from dra.kube.errors import ServerError
from dra.kube.event_handlers import ignore
from dra.model.meta import Uid

INLINE_PODS: Final = 2000
"""Pods up to which a round takes a moment, and needs no thread."""

RETRY: Final = (5.0, 60.0)
"""Seconds, minimum and maximum, before a round is repeated that has failed."""

ERRORS_MAX: Final = 3
"""Errors of the API server that end a round; after fewer the other pods still have their turn, which might never come
if the first pod of each round meets an error that concerns it alone."""

T = TypeVar("T")


class Rounds(Reconciler[str]):
    """The loop that runs rounds of descheduling."""

    settings = Settings(name="descheduling", workers=1, retry=RETRY)
    cache: DeschedulingCache
    _runtime: Runtime[DeschedulerMetrics]

    def __init__(  # noqa: PLR0913 - keyword-only: what a round reads, and what carries it out
        self,
        runtime: Runtime[DeschedulerMetrics],
        informers: DeschedulingInformers,
        *,
        cache: DeschedulingCache,
        jobs: JobCache,
        descheduling: Descheduling,
        executor: Executor,
        inline_pods: int = INLINE_PODS,
    ) -> None:
        """Create the loop; a round of up to ``inline_pods`` pods runs without a thread."""
        super().__init__(runtime, informers, cache, needs=(informers,))
        self._informers = informers
        self._jobs = jobs
        self._descheduling = descheduling
        self._executor = executor
        self._inline_pods = inline_pods
        for profile in descheduling.profiles:
            runtime.metrics.rounds.expect(profile.plugin_names)
        self._server = ""
        """The version of the API server when the last round began; an upgrade is noticed by the next one."""

        informers.nodes.subscribe(cache.observe_node, cache.forget_node)
        informers.descheduling_pods.subscribe(cache.observe_pod, cache.forget_pod)
        informers.node_metrics.subscribe(cache.observe_node_metric, cache.forget_node_metric)
        for informer in informers.read_by_rounds:
            informer.subscribe(ignore)

    async def begin(self) -> None:
        """List all jobs and Reservations: watches may be behind the writes of the leader before."""
        await self._informers.catch_up(self._jobs)
        self._server = await self._runtime.client.git_version()

    async def reconcile(self, key: str, now: Moment) -> Instant:  # noqa: ARG002 - there is one key
        """Run a round if one is due; return when the next one is. Raises ApiError."""
        if now.instant < self.cache.rests_until:
            return self.cache.rests_until
        cause = self.cache.begin_round(now=now.instant)
        self._log.info("descheduling: round begins (%s)", cause or "interval")
        try:
            await self._run(now.wall)
        except Exception:
            self._runtime.metrics.rounds.rounds.labels(FAILED).inc()
            raise
        self._runtime.metrics.rounds.rounds.labels(COMPLETED).inc()
        return self.cache.end_round(now=self._runtime.instant())

    async def unfit_pods(self, args: MigrationControllerArgs) -> Mapping[Uid, str]:
        """Return the pods of unfinished jobs that fit on no other node, each with the reason (``nodeFit``)."""
        objects, now = self._objects(), self._runtime.moment().wall
        return await self._compute(lambda: unfit_pods(Snapshot(objects, now=now), args=args), size=len(objects.pods))

    async def _run(self, now: WallTime) -> None:
        """Decide and carry out one round. Raises ApiError."""
        metrics, descheduling = self._runtime.metrics.rounds, self._descheduling
        self._server = await self._runtime.client.git_version() or self._server
        began, objects = time.perf_counter(), self._objects()
        result, snapshot = await self._compute(lambda: self._decide(objects, now), size=len(objects.pods))
        metrics.count(result, seconds=time.perf_counter() - began)
        metrics.node_metrics_expired.set(self.cache.expired_metrics(now=now))
        self._report(result)
        self._jobs.round_ended(sources_by_plugin(result.decisions))
        errors: list[ServerError] = []
        for execution in executions(
            result.decisions,
            snapshot=snapshot,
            evictors={profile.name: profile.evictor for profile in descheduling.profiles},
            args=descheduling.migration,
            began=rfc3339(self._runtime.clock.wall()),
        ):
            try:
                outcome = Outcome.DRY_RUN if descheduling.dry_run else await self._executor.execute(execution)
            except ServerError as error:
                errors.append(error)
                if len(errors) == ERRORS_MAX:
                    raise
                continue
            metrics.count_executions([outcome.value])
        snapshot.forget_parts()
        if errors:
            raise errors[0]

    def _decide(self, objects: ClusterObjects, now: WallTime) -> tuple[RoundResult, Snapshot]:
        snapshot = Snapshot(objects, now=now, memory=self.cache.memory)
        profiles = self._descheduling.profiles_on(objects.nodes)
        return run_round(snapshot, profiles, limits=self._descheduling.limits), snapshot

    async def _compute(self, decide: Callable[[], T], *, size: int) -> T:
        return decide() if size <= self._inline_pods else await asyncio.to_thread(decide)

    def _objects(self) -> ClusterObjects:
        informers, arbitration = self._informers, self._jobs.arbitration_view()
        return cluster_objects(
            nodes=informers.nodes.objects.values(),
            pods=informers.descheduling_pods.objects.values(),
            reservations=informers.reservations.objects.values(),
            jobs=arbitration.jobs,
            disruption_budgets=arbitration.disruption_budgets,
            unavailable_budgets=arbitration.unavailable_budgets,
            node_metrics=self.cache.node_metrics.values(),
            namespaces=informers.namespaces.objects.values(),
            priority_classes=informers.priority_classes.objects.values(),
            volumes=informers.volumes.objects.values(),
            volume_claims=informers.volume_claims.objects.values(),
            claims=informers.claims.objects.values(),
            slices=informers.slices.objects.values(),
            device_classes=informers.device_classes.objects.values(),
            server=self._server,
        )

    def _report(self, result: RoundResult) -> None:
        prefix = "dry run: " if self._descheduling.dry_run else ""
        for line in accepted_lines(result):
            self._log.info("%s%s", prefix, line)
        for line in refused_lines(result):
            self._log.debug("%s%s", prefix, line)
        for note in result.notes:
            self._log.info("%s", note)
        for fault in result.faults:
            self._log.warning("%s", fault.message)
        self._log.info("descheduling: %sround ends, %s", prefix, summary_line(result))
