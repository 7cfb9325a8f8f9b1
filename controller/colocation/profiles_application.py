"""The process of ``dra-reserve colocation-profiles``: assembles its one loop, runs it, and stops it."""

import asyncio
import logging
from typing import Final

from controller.colocation.profiles import ProfileInformers, Profiles
from controller.colocation.profiles_metrics import ProfilesMetrics
from controller.leadership import run_after_previous_writes
from controller.runtime import create_runtime
from dra.api.profiles_configuration import ProfilesConfiguration
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.clock import SYSTEM, Clock
from dra.kube.tasks import background_task
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

CONTROLLER: Final = "reserve.dra/colocation-profiles"
"""Reporting controller of the Events of the process."""
ACTION: Final = "Apply"

_log: Final = logging.getLogger(__name__)


class ProfilesApplication:
    """One process on one API server."""

    def __init__(
        self,
        configuration: ProfilesConfiguration,
        transport: Transport,
        *,
        clock: Clock = SYSTEM,
        identity: str = "",
        previous_writes_seconds: float = WRITE_TIMEOUT,
        lease_transport: Transport | None = None,
    ) -> None:
        """Create the process; the arguments are those of `controller.migration.application.Descheduler`."""
        self.metrics = ProfilesMetrics()
        self._previous_writes_seconds = previous_writes_seconds
        self._transport = transport
        self._runtime = create_runtime(
            configuration,
            transport,
            metrics=self.metrics,
            name=CONTROLLER,
            action=ACTION,
            clock=clock,
            identity=identity,
            lease_transport=lease_transport,
        )
        self._informers = ProfileInformers(self._runtime.client, clock=clock)
        self._profiles = Profiles(self._runtime, self._informers)
        self._endpoints = TelemetryServer(
            probes=configuration.probes,
            metrics=configuration.metrics,
            registry=self.metrics,
            not_ready_reasons=self._informers.not_ready_reasons,
            observer=self.metrics.dropped,
        )

    async def run(self) -> None:
        """Run the process until cancelled.

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
            self._act,
            previous_writes_seconds=self._previous_writes_seconds,
            clock=self._runtime.clock,
        )

    async def _act(self) -> None:
        self.metrics.leading.set(1)
        _log.info("applying %d profiles", len(self._informers.profiles.objects))
        try:
            await self._profiles.run()
        finally:
            self.metrics.leading.set(0)
