"""The descheduler as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from typing import Final

from controller.descheduling.application import Profiles
from controller.descheduling.informers import DeschedulingInformers
from controller.descheduling.user_plugins import UserPlugins
from controller.migration.arbitration import Arbitration
from controller.migration.informers import MigrationInformers
from controller.migration.job_writer import ACTION
from controller.migration.metrics import DeschedulerMetrics
from controller.migration.migrations import Migrations
from controller.process import Process
from controller.runtime import create_runtime
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.engine.descheduling.profiles import compile_descheduling
from dra.engine.migration.job_cache import JobCache
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.clock import SYSTEM, Clock
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

DESCHEDULER: Final = "reserve.dra/descheduler"
"""Reporting controller of the Events of the descheduler."""

NO_PLUGINS: Final = UserPlugins()

_log: Final = logging.getLogger(__name__)


class Descheduler(Process):
    """One descheduler process on one API server."""

    def __init__(  # noqa: PLR0913 - keyword-only: what tests and other processes replace
        self,
        configuration: DeschedulerProcessConfiguration,
        transport: Transport,
        *,
        clock: Clock = SYSTEM,
        identity: str = "",
        previous_writes_seconds: float = WRITE_TIMEOUT,
        lease_transport: Transport | None = None,
        plugins: UserPlugins = NO_PLUGINS,
    ) -> None:
        """Create the descheduler; ``identity`` must be unique to this process (default: the host plus a random part).

        ``previous_writes_seconds``: without leader election, seconds for which writes of the previous process may still
        arrive. With ``lease_transport`` the lease is renewed in a thread of its own. ``plugins`` are those of users.
        Raises MalformedDeschedulerConfigurationError.
        """
        self.cache = JobCache()
        self.metrics = DeschedulerMetrics(self.cache)
        self._previous_writes_seconds = previous_writes_seconds
        self._transport = transport
        runtime = create_runtime(
            configuration,
            transport,
            metrics=self.metrics,
            name=DESCHEDULER,
            action=ACTION,
            clock=clock,
            identity=identity,
            lease_transport=lease_transport,
        )
        self._runtime = runtime
        descheduling = compile_descheduling(configuration, plugins=plugins.by_name)
        args = configuration.migration if descheduling is None else descheduling.migration
        watches = MigrationInformers if descheduling is None else DeschedulingInformers
        self._informers = watches(runtime.client, clock=clock)
        self._arbitration = Arbitration(runtime, self._informers, cache=self.cache, args=args)
        self._migrations = Migrations(
            runtime, self._informers, cache=self.cache, args=args, arbitration=self._arbitration
        )
        self._profiles: Profiles | None = None
        if descheduling is not None and isinstance(self._informers, DeschedulingInformers):
            self._profiles = Profiles(
                runtime,
                self._informers,
                descheduling=descheduling,
                plugins=plugins,
                jobs=self.cache,
                evictor=self._migrations.evictor,
            )
            self._arbitration.node_fit = self._profiles.rounds
        self._endpoints = TelemetryServer(
            probes=configuration.probes,
            metrics=configuration.metrics,
            registry=self.metrics,
            not_ready_reasons=self._informers.not_ready_reasons,
            observer=self.metrics.dropped,
        )

    async def act(self) -> None:
        """Migrate pods, and run rounds if there are profiles, until cancelled."""
        self.metrics.leading.set(1)
        _log.info("migrating pods; %d jobs exist", len(list(self.cache.uids())))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._migrations.run(), name="jobs")
                group.create_task(self._arbitration.run(), name="arbitration")
                if self._profiles is not None:
                    group.create_task(self._profiles.run(), name="profiles")
        finally:
            self.metrics.leading.set(0)
