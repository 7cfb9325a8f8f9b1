"""The descheduler as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from typing import Final

from controller.leadership import run_after_previous_writes
from controller.migration.arbitration import Arbitration
from controller.migration.informers import MigrationInformers
from controller.migration.job_writer import ACTION
from controller.migration.metrics import DeschedulerMetrics
from controller.migration.migrations import Migrations
from controller.runtime import create_runtime
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.engine.migration.job_cache import JobCache
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.clock import SYSTEM, Clock
from dra.kube.tasks import background_task
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

DESCHEDULER: Final = "reserve.dra/descheduler"
"""Reporting controller of the Events of the descheduler."""

_log: Final = logging.getLogger(__name__)


class Descheduler:
    """One descheduler process on one API server."""

    def __init__(
        self,
        configuration: DeschedulerProcessConfiguration,
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
        self.metrics = DeschedulerMetrics(self.cache)
        self._previous_writes_seconds = previous_writes_seconds
        self._transport = transport
        self._runtime = create_runtime(
            configuration,
            transport,
            metrics=self.metrics,
            name=DESCHEDULER,
            action=ACTION,
            clock=clock,
            identity=identity,
            lease_transport=lease_transport,
        )
        args = configuration.migration
        self._informers = MigrationInformers(self._runtime.client, clock=clock)
        self._arbitration = Arbitration(self._runtime, self._informers, cache=self.cache, args=args)
        self._migrations = Migrations(
            self._runtime, self._informers, cache=self.cache, args=args, arbitration=self._arbitration
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
                async with background_task(self._runtime.recorder.run(), name="events"), asyncio.TaskGroup() as group:
                    group.create_task(self._informers.run(), name="watches")
                    group.create_task(self._lead(), name="lead")
            finally:
                await self._runtime.recorder.close()
                await self._transport.close()
                _log.info("stopped")

    async def _lead(self) -> None:
        await self._informers.wait_for_sync()
        await run_after_previous_writes(
            self._runtime.leadership.election,
            self._migrate,
            previous_writes_seconds=self._previous_writes_seconds,
            clock=self._runtime.clock,
        )

    async def _migrate(self) -> None:
        self.metrics.leading.set(1)
        _log.info("migrating pods; %d jobs exist", len(list(self.cache.uids())))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._migrations.run(), name="jobs")
                group.create_task(self._arbitration.run(), name="arbitration")
        finally:
            self.metrics.leading.set(0)
