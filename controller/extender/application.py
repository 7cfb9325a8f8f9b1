"""The extender as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from typing import Final

from controller.extender.binder import Binder
from controller.extender.binding_confirmer import BindingConfirmer
from controller.extender.event_handlers import SchedulerEventHandlers
from controller.extender.events import ACTION
from controller.extender.handler import ExtenderHandler
from controller.extender.informers import ExtenderInformers
from controller.extender.metrics import ExtenderMetrics
from controller.extender.node_reservation_store import NodeReservationStore
from controller.extender.pod_requeuer import PodRequeuer
from controller.extender.resizer import ReservationResizer
from controller.extender.server import ExtenderServer
from controller.extender.writer import ExtenderWriter
from controller.leadership import run_after_previous_writes
from controller.runtime import create_runtime
from dra.api.extender_configuration import ExtenderConfiguration
from dra.engine.scheduling import bindings
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.scheduling.unconfirmed_bindings import UnconfirmedBindings
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.clock import SYSTEM, Clock
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

EXTENDER: Final = "reserve.dra/extender"
"""Value of ``reportingController`` in all Events of the extender."""

GAUGE_INTERVAL: Final = 5.0
"""Seconds between two updates of the gauges."""

_log: Final = logging.getLogger(__name__)


class Extender:
    """One extender process on one API server."""

    def __init__(
        self,
        configuration: ExtenderConfiguration,
        transport: Transport,
        *,
        clock: Clock = SYSTEM,
        identity: str = "",
        previous_writes_seconds: float = WRITE_TIMEOUT,
        lease_transport: Transport | None = None,
    ) -> None:
        """Create the extender; ``identity`` must be unique to this process (default: the host plus a random part).

        ``previous_writes_seconds``: without leader election, seconds for which writes of the previous process may still
        arrive. With ``lease_transport`` the lease is renewed in a thread of its own.
        """
        self._previous_writes_seconds = previous_writes_seconds
        self._configured_binding = configuration.bind_placeholders
        self._transport = transport
        self.cache = SchedulerCache()
        self.metrics = ExtenderMetrics(self.cache)
        self._runtime = runtime = create_runtime(
            configuration,
            transport,
            metrics=self.metrics,
            name=EXTENDER,
            action=ACTION,
            clock=clock,
            identity=identity,
            lease_transport=lease_transport,
        )
        self._informers = ExtenderInformers(runtime.client, clock=clock)
        self._handlers = SchedulerEventHandlers(runtime, self._informers, cache=self.cache)
        self._node_reservations = NodeReservationStore(
            runtime,
            self._informers,
            cache=self.cache.node_reservations,
            namespace=configuration.leader_election.namespace,
        )
        writer = ExtenderWriter(runtime, cache=self.cache, seconds=configuration.bind_seconds)
        self._confirmer = BindingConfirmer(
            runtime, self._informers, cache=UnconfirmedBindings(self.cache), writer=writer
        )
        self._binder = Binder(runtime, cache=self.cache, writer=writer, confirmer=self._confirmer)
        self._requeuer = PodRequeuer(runtime, cache=self.cache, writer=writer)
        self._resizer = ReservationResizer(runtime, self._informers, cache=self.cache, writer=writer)
        self.handler = ExtenderHandler(
            runtime, self._informers, cache=self.cache, binder=self._binder, configuration=configuration
        )
        self._server = ExtenderServer(configuration, self.handler, observer=self.metrics.dropped)
        self.metrics.observe_certificates(self._server.certificate_expiries)
        self._endpoints = TelemetryServer(
            probes=configuration.probes,
            metrics=configuration.metrics,
            registry=self.metrics,
            not_ready_reasons=self.not_ready_reasons,
            observer=self.metrics.dropped,
        )

    @property
    def is_binding(self) -> bool:
        """Whether this replica is the leader and binds pods."""
        return self._binder.is_active

    async def wait_for_sync(self) -> None:
        """Wait until all objects of all kinds are listed."""
        await self._informers.wait_for_sync()

    async def run(self) -> None:
        """Run the extender until cancelled.

        Raises LeadershipLostError and ServerRestoredError: the process must end.
        """
        async with self._endpoints as endpoints, self._server as server:
            for name, address in endpoints.addresses.items():
                _log.info("%s on http://%s", name, address)
            _log.info("filter, prioritize, preempt and bind on %s", server.address)
            try:
                await self.work()
            finally:
                await self._transport.close()
                _log.info("stopped")

    async def work(self) -> None:
        """Run everything except the listeners."""
        await self._node_reservations.load()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informers.run(), name="watches")
                group.create_task(self._lead(), name="lead")
                group.create_task(self._measure(), name="gauges")
        finally:
            self._binder.is_active = False
            await self._binder.close()

    async def _lead(self) -> None:
        await self._informers.wait_for_sync()
        await run_after_previous_writes(
            self._runtime.leadership.election,
            self._bind,
            previous_writes_seconds=self._previous_writes_seconds,
            clock=self._runtime.clock,
        )

    async def _bind(self) -> None:
        await self._handlers.catch_up()
        self._binder.binds_placeholders = await self._must_bind_placeholders()
        self._confirmer.adopt_reserved_pods()
        self._binder.is_active = True
        self.metrics.leading.set(1)
        _log.info("binding pods; %d reservations are available", len(list(self.cache.available())))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._confirmer.run(), name="unconfirmed bindings")
                group.create_task(self._requeuer.run(), name="unschedulable pods")
                group.create_task(self._resizer.run(), name="resizing")
                group.create_task(self._runtime.recorder.run(), name="events")
                group.create_task(self._node_reservations.run(), name="node reservations")
        finally:
            self._binder.is_active = False
            self.metrics.leading.set(0)

    async def _must_bind_placeholders(self) -> bool:
        if self._configured_binding is not None:
            return self._configured_binding
        return not bindings.forgets_deleted_pods(await self._runtime.client.git_version())

    async def _measure(self) -> None:
        while True:
            self.metrics.unconfirmed.set(len(self._confirmer.cache))
            self.metrics.in_flight.set(self._binder.limiter.in_flight)
            self.metrics.binding_limit.set(self._binder.limiter.limit)
            self.metrics.faults.set(len(self.cache.node_reservations.errors))
            await asyncio.sleep(GAUGE_INTERVAL)

    def not_ready_reasons(self) -> list[str]:
        """Return why this replica is not ready.

        A replica that does not bind is not ready, so that the Service routes to the one that does.
        """
        return self._informers.not_ready_reasons() or (
            [] if self.is_binding else ["not the leader: another replica binds, or its last writes may still arrive"]
        )
