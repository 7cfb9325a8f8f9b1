"""The extender as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from typing import Final

from controller.extender.binder import Binder
from controller.extender.binding_limiter import BindingLimiter
from controller.extender.events import ACTION, ExtenderEvents
from controller.extender.handler import ExtenderHandler
from controller.extender.informers import SchedulerInformers
from controller.extender.metrics import ExtenderMetrics
from controller.extender.node_reservation_store import NodeReservationStore
from controller.extender.pod_requeuer import PodRequeuer
from controller.extender.resizer import ReservationResizer
from controller.extender.server import ExtenderServer
from controller.extender.unconfirmed_bindings import UnconfirmedBindings
from controller.extender.writer import ExtenderWriter
from controller.large_object_events import large_object_reporter
from controller.leadership import Leadership, leader_elector, process_identity, run_after_previous_writes
from dra.api.extender_configuration import ExtenderConfiguration
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.events import EventRecorder
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

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
        self.cache = SchedulerCache()
        self.metrics = ExtenderMetrics(self.cache.count_by_phase)
        self._clock = clock
        self._transport = transport
        self.is_binding = False
        """Whether this replica is the leader and may bind."""

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
        writer = ExtenderWriter(client, cache=self.cache, clock=clock, leadership=leadership)
        self._requeuer = PodRequeuer(cache=self.cache, writer=writer, clock=clock)
        self._node_reservations = NodeReservationStore(
            client,
            reservations=self.cache.node_reservations,
            namespace=configuration.leader_election.namespace,
        )
        self._recorder = EventRecorder(
            client,
            instance=identity,
            controller="reserve.dra/extender",
            clock=clock,
            on_discard=self.metrics.events_discarded.inc,
        )
        self.metrics.large_objects.report = large_object_reporter(self._recorder, action=ACTION)
        events = ExtenderEvents(self._recorder)
        self._informers = SchedulerInformers(client, cache=self.cache, clock=clock, events=events)
        seconds = configuration.bind_seconds
        self._unconfirmed = UnconfirmedBindings(cache=self.cache, writer=writer, clock=clock, seconds=seconds)
        self._limiter = BindingLimiter(clock=clock, seconds=seconds)
        self._binder = Binder(
            cache=self.cache,
            writer=writer,
            unconfirmed=self._unconfirmed,
            limiter=self._limiter,
            clock=clock,
            seconds=seconds,
        )
        self._resizer = ReservationResizer(cache=self.cache, writer=writer, clock=clock, events=events, seconds=seconds)
        self.handler = ExtenderHandler(
            cache=self.cache,
            binder=self._binder,
            metrics=self.metrics,
            clock=clock,
            limiter=self._limiter,
            not_ready_reasons=self._informers.not_ready_reasons,
            is_binding=lambda: self.is_binding,
            spread_reservations=configuration.spread_reservations,
            decisive_lead=configuration.decisive_lead,
            on_unschedulable=events.pod_unschedulable,
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
            self.is_binding = False
            await self._binder.close()

    async def _lead(self) -> None:
        await self._informers.wait_for_sync()
        await run_after_previous_writes(
            self._election,
            self._bind,
            previous_writes_seconds=self._previous_writes_seconds,
            clock=self._clock,
        )

    async def _bind(self) -> None:
        await self._informers.catch_up()
        self._unconfirmed.adopt_reserved_pods(self.cache.available())
        self.is_binding = True
        self.metrics.leading.set(1)
        _log.info("binding pods; %d reservations are available", len(list(self.cache.available())))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._unconfirmed.run(), name="unconfirmed bindings")
                group.create_task(self._requeuer.run(), name="unschedulable pods")
                group.create_task(self._resizer.run(), name="resizing")
                group.create_task(self._recorder.run(), name="events")
                group.create_task(self._node_reservations.run(), name="node reservations")
        finally:
            self.is_binding = False
            self.metrics.leading.set(0)

    async def _measure(self) -> None:
        while True:
            self.metrics.unconfirmed.set(len(self._unconfirmed))
            self.metrics.in_flight.set(self._limiter.in_flight)
            self.metrics.binding_limit.set(self._limiter.limit)
            self.metrics.faults.set(len(self.cache.node_reservations.errors))
            await asyncio.sleep(GAUGE_INTERVAL)

    def not_ready_reasons(self) -> list[str]:
        """Return why this replica is not ready.

        A replica that does not bind is not ready, so that the Service routes to the one that does.
        """
        return self._informers.not_ready_reasons() or (
            [] if self.is_binding else ["not the leader: another replica binds, or its last writes may still arrive"]
        )
