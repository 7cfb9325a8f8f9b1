"""The process of ``dra-reserve colocation-profiles``: assembles its one loop, runs it, and stops it."""

import logging
from typing import Final

from controller.colocation.profiles import ProfileInformers, Profiles
from controller.colocation.profiles_metrics import ProfilesMetrics
from controller.process import Process
from controller.runtime import create_runtime
from dra.api.profiles_configuration import ProfilesConfiguration
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.clock import SYSTEM, Clock
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

CONTROLLER: Final = "reserve.dra/colocation-profiles"
"""Reporting controller of the Events of the process."""
ACTION: Final = "Apply"

_log: Final = logging.getLogger(__name__)


class ProfilesApplication(Process):
    """One process on one API server."""

    _informers: ProfileInformers

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

    async def act(self) -> None:
        """Apply the profiles until cancelled."""
        self.metrics.leading.set(1)
        _log.info("applying %d profiles", len(self._informers.profiles.objects))
        try:
            await self._profiles.run()
        finally:
            self.metrics.leading.set(0)
