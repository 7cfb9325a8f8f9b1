"""The base of a process of which one replica acts: serves probes and metrics, watches, leads, and stops in order."""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Final

from controller.leadership import run_after_previous_writes
from controller.reconciler import ReconcilerMetrics
from controller.runtime import Runtime
from dra.kube.shared_informers import SharedInformers
from dra.kube.tasks import background_task
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

_log: Final = logging.getLogger(__name__)


class Process(ABC):
    """A process on one API server. A subclass assembles the parts, and says what the replica that leads does."""

    _runtime: Runtime[ReconcilerMetrics]
    _informers: SharedInformers
    """What the process watches; it acts once all of these are listed."""
    _transport: Transport
    _endpoints: TelemetryServer
    _previous_writes_seconds: float
    """Without leader election, seconds for which writes of the previous process may still arrive."""

    @abstractmethod
    async def act(self) -> None:
        """Act until cancelled, as the only replica."""

    async def wait_for_sync(self) -> None:
        """Wait until all objects of all kinds are listed."""
        await self._informers.wait_for_sync()

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
            self.act,
            previous_writes_seconds=self._previous_writes_seconds,
            clock=self._runtime.clock,
        )
