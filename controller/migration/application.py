"""The descheduler as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from typing import Final

from controller.large_object_events import large_object_reporter
from controller.leadership import Leadership, leader_elector, process_identity, run_after_previous_writes
from controller.migration.evictor import ACTION, Evictor
from controller.migration.informers import MigrationInformers
from controller.migration.metrics import DeschedulerMetrics
from controller.migration.migrations import MigrationLoop
from dra.api.descheduler_configuration import DeschedulerConfiguration
from dra.engine.migration.eviction_pace import EvictionPace
from dra.engine.migration.job_cache import JobCache
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.events import EventRecorder
from dra.kube.rate_limiter import RateLimiter
from dra.kube.tasks import background_task
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

_log: Final = logging.getLogger(__name__)


class Descheduler:
    """One descheduler process on one API server."""

    def __init__(
        self,
        configuration: DeschedulerConfiguration,
        transport: Transport,
        *,
        clock: Clock = SYSTEM,
        identity: str = "",
        previous_writes_seconds: float = WRITE_TIMEOUT,
        lease_transport: Transport | None = None,
    ) -> None:
        """Create the descheduler; ``identity`` must be unique to this process (default: the host plus a random part).

        ``previous_writes_seconds``: without leader election, seconds for which writes of the previous process may still
        arrive. With ``lease_transport`` the lease is renewed in a thread of its own.
        """
        self.cache = JobCache()
        self.metrics = DeschedulerMetrics(self.cache.count_by_phase)
        self._previous_writes_seconds = previous_writes_seconds
        self._clock = clock
        self._transport = transport
        limiter = RateLimiter(configuration.qps, configuration.burst, clock=clock)
        client = Client(
            transport,
            limiter,
            clock=clock,
            observer=self.metrics.request,
            large_objects=self.metrics.large_objects,
        )
        identity = identity or process_identity()
        self._election = leader_elector(
            configuration.leader_election,
            client,
            identity=identity,
            clock=clock,
            lease_transport=lease_transport,
            observer=self.metrics.request,
        )
        leadership = Leadership(self._election)
        self._recorder = EventRecorder(
            client,
            instance=identity,
            controller="reserve.dra/descheduler",
            clock=clock,
            on_discard=self.metrics.events_discarded.inc,
        )
        self.metrics.large_objects.report = large_object_reporter(self._recorder, action=ACTION)
        args = configuration.migration
        self._informers = MigrationInformers(client, cache=self.cache, clock=clock, on_change=self._on_change)
        self._loop = MigrationLoop(
            client,
            args=args,
            cache=self.cache,
            informers=self._informers,
            evictor=Evictor(
                client,
                cache=self.cache,
                pace=EvictionPace(args.evict_qps, args.evict_burst),
                recorder=self._recorder,
                metrics=self.metrics,
                clock=clock,
                leadership=leadership,
            ),
            recorder=self._recorder,
            metrics=self.metrics,
            clock=clock,
            leadership=leadership,
        )
        self._endpoints = TelemetryServer(
            probes=configuration.probes,
            metrics=configuration.metrics,
            registry=self.metrics,
            not_ready_reasons=self._informers.not_ready_reasons,
            observer=self.metrics.dropped,
        )

    async def run(self) -> None:
        """Run the descheduler until cancelled.

        Raises LeadershipLostError and ServerRestoredError: the process must end.
        """
        async with self._endpoints as endpoints:
            for name, address in endpoints.addresses.items():
                _log.info("%s on http://%s", name, address)
            try:
                async with background_task(self._recorder.run(), name="events"):
                    await self._work()
            finally:
                await self._recorder.close()
                await self._transport.close()
                _log.info("stopped")

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="watches")
            group.create_task(self._lead(), name="lead")

    async def _lead(self) -> None:
        await self._informers.wait_for_sync()
        await run_after_previous_writes(
            self._election,
            self._migrate,
            previous_writes_seconds=self._previous_writes_seconds,
            clock=self._clock,
        )

    async def _migrate(self) -> None:
        self.metrics.leading.set(1)
        _log.info("migrating pods; %d jobs exist", len(list(self.cache.uids())))
        try:
            await self._loop.run()
        finally:
            self.metrics.leading.set(0)

    def _on_change(self) -> None:
        self._loop.wake()
