"""The extender as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from typing import Final

from controller.extender.binder import Binder
from controller.extender.binding_limiter import BindingLimiter
from controller.extender.events import ExtenderEvents
from controller.extender.handler import ExtenderHandler
from controller.extender.informers import SchedulerInformers
from controller.extender.metrics import ExtenderMetrics
from controller.extender.node_reservation_store import NodeReservationStore
from controller.extender.resizer import ReservationResizer
from controller.extender.scheduler_cache import SchedulerCache
from controller.extender.server import ExtenderServer
from controller.extender.unconfirmed_bindings import UnconfirmedBindings
from controller.extender.unschedulable_pods import UnschedulablePods
from controller.extender.writer import ExtenderWriter
from controller.leadership import Leadership, leader_elector, process_identity, run_as_leader
from dra.api.extender_configuration import ExtenderConfiguration
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
        quiet: float = WRITE_TIMEOUT,
    ) -> None:
        """Create the extender; ``identity`` must be unique to this process (default: the host plus a random part).

        ``quiet``: without leader election, seconds for which writes of the previous process may still arrive.
        """
        self._quiet = quiet
        self.picture = SchedulerCache()
        self.metrics = ExtenderMetrics(self.picture.census)
        self._clock = clock
        self._transport = transport
        self.binds = False
        """Whether this replica is the leader and may bind."""

        limiter = RateLimiter(configuration.qps, configuration.burst, clock=clock)
        client = Client(transport, limiter, clock=clock, observer=self.metrics.request)
        identity = identity or process_identity()
        self._election = leader_elector(configuration.leader_election, client, identity=identity, clock=clock)
        leadership = Leadership(self._election)
        writing = ExtenderWriter(client, picture=self.picture, clock=clock, leadership=leadership)
        self._refused = UnschedulablePods(picture=self.picture, writing=writing, clock=clock)
        self._remembering = NodeReservationStore(
            client, picture=self.picture, namespace=configuration.leader_election.namespace
        )
        self._recorder = EventRecorder(
            client,
            instance=identity,
            controller="reserve.dra/extender",
            clock=clock,
            on_discard=self.metrics.events_discarded.inc,
        )
        reporting = ExtenderEvents(self._recorder)
        self._watching = SchedulerInformers(
            client, picture=self.picture, clock=clock, freed=self._refused.freed, reporting=reporting
        )
        seconds = configuration.bind_seconds
        self._doubts = UnconfirmedBindings(picture=self.picture, writing=writing, clock=clock, seconds=seconds)
        self._turns = BindingLimiter(clock=clock, seconds=seconds)
        self._binder = Binder(
            picture=self.picture, writing=writing, doubts=self._doubts, turns=self._turns, clock=clock, seconds=seconds
        )
        self._resizing = ReservationResizer(
            picture=self.picture, writing=writing, clock=clock, reporting=reporting, seconds=seconds
        )
        self.calls = ExtenderHandler(
            picture=self.picture,
            binder=self._binder,
            refused=self._refused,
            metrics=self.metrics,
            clock=clock,
            turns=self._turns,
            not_ready_reasons=self._watching.not_ready_reasons,
            binds=lambda: self.binds,
            spreads=configuration.spread_reservations,
            lead=configuration.decisive_lead,
            unfit=reporting.unfit,
        )
        self._server = ExtenderServer(configuration, self.calls, observer=self.metrics.dropped)
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
        await self._remembering.load()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watching.run(), name="watches")
                group.create_task(self._lead(), name="lead")
                group.create_task(self._measure(), name="gauges")
        finally:
            self.binds = False
            await self._binder.close()

    async def _lead(self) -> None:
        await self._watching.wait_for_sync()
        if self._election is None:
            await asyncio.sleep(self._quiet)  # writes of the previous process have ended by then
            await self._bind()
            return
        await run_as_leader(self._election, self._bind_after_previous_leader)

    async def _bind_after_previous_leader(self) -> None:
        """Start binding after the last write of the previous leader has arrived and has been read."""
        if self._election is not None:
            await asyncio.sleep(max(0.0, self._election.previous_writes_until - self._clock.now()))
        await self._bind()

    async def _bind(self) -> None:
        await self._watching.catch_up()
        self._doubts.adopt(self.picture.available())
        self._refused.adopt(self.picture.pending_pods())
        self.binds = True
        self.metrics.leading.set(1)
        _log.info("binding pods; %d reservations are available", len(list(self.picture.available())))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._doubts.run(), name="doubts")
                group.create_task(self._refused.run(), name="refused")
                group.create_task(self._resizing.run(), name="resizing")
                group.create_task(self._recorder.run(), name="events")
                group.create_task(self._remembering.run(), name="memory of nodes")
        finally:
            self.binds = False
            self.metrics.leading.set(0)

    async def _measure(self) -> None:
        while True:
            self.metrics.doubts.set(len(self._doubts))
            self.metrics.under_way.set(self._turns.under_way)
            self.metrics.turns.set(self._turns.limit)
            self.metrics.faults.set(len(self.picture.faults))
            await asyncio.sleep(GAUGE_INTERVAL)

    def not_ready_reasons(self) -> list[str]:
        """Return why this replica is not ready.

        A replica that does not bind is not ready, so that the Service routes to the one that does.
        """
        return self._watching.not_ready_reasons() or (
            [] if self.binds else ["not the leader: another replica binds, or its last writes may still arrive"]
        )
