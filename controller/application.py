"""The controller as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from controller.claim_event_handlers import ClaimEventHandlers
from controller.claim_events import ACTION, ClaimEvents
from controller.claim_generation import ClaimGeneration
from controller.claim_lookups import ClaimLookups
from controller.claims import Claims
from controller.colocation.loops import colocation_loops
from controller.device_usage import DeviceUsage
from controller.eviction import Evictions
from controller.idle_claims import IdleClaimEvents
from controller.informers import ControllerInformers
from controller.leadership import run_as_leader
from controller.metrics import ControllerMetrics
from controller.node_annotations import NodeAnnotations
from controller.node_reads import NodeReads
from controller.placement_reader import PlacementReader
from controller.pod_group_informer import PodGroupInformer
from controller.pod_reports import PodReports
from controller.reconciler import Reconciler, run_all
from controller.reservations.reservations import Reservations
from controller.reservations.scheduling_gates import SchedulingGates
from controller.runtime import Runtime, create_runtime
from controller.taint_informers import TaintInformers
from controller.translation.request_notices import RequestNotices
from controller.translation.templates import Templates
from controller.unprepared_pods import UnpreparedPods
from controller.workload_informers import WorkloadInformers
from dra.api.configuration import ControllerConfiguration, ControllerMode, PlaceholderMode
from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.cel.configured_rules import compiled_rules
from dra.engine.claims import device_counts, policy
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.device_counts import DeviceCounts
from dra.engine.claims.policy import Policy
from dra.engine.device_usage.groups import DeviceNumbers, UsageGroup
from dra.engine.reservations.view import ReservationPolicy
from dra.kube.clock import SYSTEM, Clock
from dra.kube.events import CONTROLLER
from dra.kube.tasks import background_task
from dra.kube.transport import Transport
from dra.model.claims import ResourceClaim
from dra.telemetry.telemetry_server import TelemetryServer

_log: Final = logging.getLogger(__name__)


def policy_from(configuration: ControllerConfiguration) -> Policy:
    """Return the policy of a configuration: modes are values, not branches."""
    chosen = policy.REPLACE if configuration.mode is ControllerMode.REPLACE else policy.ALONGSIDE
    return msgspec.structs.replace(
        chosen,
        release_finished=configuration.release_finished,
        release_suspended=configuration.release_suspended,
        evict=configuration.device_taint_eviction,
    )


def reservation_policy_from(configuration: ControllerConfiguration) -> ReservationPolicy:
    """Return the policy for reservations of a configuration."""
    return ReservationPolicy(
        placeholders=configuration.placeholders,
        placeholder_image=configuration.placeholder_image,
        supports_claims=policy_from(configuration).generate_claims,
        translates_requests=configuration.koordinator,
    )


class Application:
    """One controller process on one API server."""

    def __init__(
        self,
        configuration: ControllerConfiguration,
        transport: Transport,
        *,
        clock: Clock = SYSTEM,
        identity: str = "",
        lease_transport: Transport | None = None,
    ) -> None:
        """Create the controller; ``identity`` must be unique to this process (default: the host plus a random part).

        With ``lease_transport`` the lease is renewed in a thread of its own.
        """
        self.metrics = ControllerMetrics()
        self.cache = ClaimCache(annotates_nodes=configuration.annotate_nodes)
        self._acting = False
        self._transport = transport
        runtime = create_runtime(
            configuration,
            transport,
            metrics=self.metrics,
            name=CONTROLLER,
            action=ACTION,
            clock=clock,
            identity=identity,
            lease_transport=lease_transport,
        )
        self._recorder, self._election = runtime.recorder, runtime.leadership.election
        self._policy = policy_from(configuration)
        self._informers = ControllerInformers(
            runtime.client,
            clock=clock,
            generates_claims=self._policy.generate_claims,
            placeholders=configuration.placeholders,
        )
        rules = compiled_rules(configuration)
        self.cache.workloads.watched_kinds.exempt(frozenset(rules))
        handlers = ClaimEventHandlers(self.cache, self._informers, clock=clock)
        if self._policy.generate_claims:
            handlers.watch_templates()
        if configuration.reservations:
            handlers.watch_reservations()
        self._workloads = WorkloadInformers(runtime, self._informers, cache=self.cache, rules=rules)
        self._taints = TaintInformers(runtime, self._informers, cache=self.cache) if self._policy.evict else None
        self._groups = PodGroupInformer(runtime, self._informers, owners=self.cache.owners)
        self._placements = PlacementReader(runtime, self._informers, cache=self.cache)
        events = ClaimEvents(runtime.recorder, self.metrics)
        self._reconcilers: list[Reconciler[Any]] = []
        self._add_claims(runtime, events)
        if configuration.reservations:
            self._add_reservations(runtime, reservation_policy_from(configuration))
        self._notices: RequestNotices | None = None
        if configuration.koordinator:
            self._add_koordinator(runtime, events, default_policy=configuration.default_cpu_bind_policy)
        else:
            self.metrics.count_refused_claims(tuple)
        if configuration.colocation:
            self._reconcilers += colocation_loops(runtime, self._informers)
        self._usage = DeviceUsage(runtime, self._informers, cache=self.cache)
        if configuration.colocation and self._policy.evict:  # what may be read: NodeMetrics, and ResourceSlices
            self._usage.watch_gpus()
        if configuration.idle_claim_hours:
            self._reconcilers.append(
                IdleClaimEvents(
                    runtime,
                    self._informers,
                    usage=self._usage,
                    events=ClaimEvents(runtime.recorder, self.metrics),
                    hours=configuration.idle_claim_hours,
                )
            )
        self.metrics.count_devices(self._count_devices)
        self.metrics.count_workload_devices(self._count_workload_devices)
        self._endpoints = TelemetryServer(
            probes=configuration.probes,
            metrics=configuration.metrics,
            registry=self.metrics,
            not_ready_reasons=self._informers.not_ready_reasons,
            observer=self.metrics.dropped,
            before_scrape=self.before_scrape,
        )

    def _add_claims(self, runtime: Runtime[ControllerMetrics], events: ClaimEvents) -> None:
        """Add the loops that work on claims; generating them may be the stock controller's duty, with its metrics."""
        nodes = NodeReads(runtime, self._informers, claims=self.cache)
        lookups = ClaimLookups(
            runtime,
            self._informers,
            claims=self.cache,
            workloads=self._workloads.reader,
            placements=self._placements,
            nodes=nodes,
        )
        self._reconcilers += [
            nodes,
            lookups,
            Claims(runtime, self._informers, cache=self.cache, lookups=lookups, policy=self._policy),
            Evictions(runtime, self._informers, cache=self.cache, events=events, policy=self._policy),
            NodeAnnotations(runtime, self._informers, cache=self.cache.kept_nodes),
        ]
        if self._policy.generate_claims:
            self._reconcilers.append(ClaimGeneration(runtime, self._informers, cache=self.cache, events=events))
            self.metrics.count_claims(self._counted_claims)
        else:
            self._informers.on_batch_end(self.cache.owners.discard_dirty)

    def _add_reservations(self, runtime: Runtime[ControllerMetrics], policy: ReservationPolicy) -> None:
        """Add the loops that work on reservations."""
        reservations = Reservations(runtime, self._informers, policy=policy)
        self._reconcilers.append(reservations)
        if policy.placeholders is PlaceholderMode.YIELDING:
            self._reconcilers.append(SchedulingGates(runtime, self._informers, cache=reservations.cache))

    def _add_koordinator(
        self, runtime: Runtime[ControllerMetrics], events: ClaimEvents, *, default_policy: CpuBindPolicy
    ) -> None:
        """Add the parts that serve requests in Koordinator's form."""
        templates = Templates(
            runtime,
            self._informers,
            events=events,
            generates_claims=self._policy.generate_claims,
            default_policy=default_policy,
        )
        unprepared = UnpreparedPods(runtime, self._informers, events=ClaimEvents(self._recorder, self.metrics))
        self._reconcilers += [templates, PodReports(runtime, self._informers), unprepared]
        self._notices = RequestNotices(runtime, self._informers, events=events)
        self.metrics.count_refused_claims(unprepared.overdue_reasons)

    async def wait_for_sync(self) -> None:
        """Wait until all objects of all kinds are listed."""
        await self._informers.wait_for_sync()

    async def run(self) -> None:
        """Run until cancelled, then stop in order: new work, the lease, remaining Events.

        Raises LeadershipLostError when another replica took over, and ServerRestoredError when the API server was
        restored from a backup: the process must end, because its cache is stale.
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
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informers.run(), name="watches")
                if self._taints is not None:
                    group.create_task(self._taints.run(), name="taint rules")
                if self._policy.generate_claims:
                    group.create_task(self._groups.run(), name="pod groups")
                group.create_task(self._lead(), name="lead")
        finally:
            await self._workloads.close()

    async def _lead(self) -> None:
        """Wait for the informers to sync, then act for as long as this process holds the lease."""
        for informer in (self._informers.nodes, self._informers.claims, self._informers.pods):
            await informer.wait_for_sync()
        if self._election is None:
            await self._run_as_leader()
            return
        await run_as_leader(self._election, self._run_as_leader)

    async def _run_as_leader(self) -> None:
        self._acting = True
        self.metrics.leading.set(1)
        self._workloads.start()
        _log.info("acting on %d claims", sum(1 for _ in self.cache.claims()))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._placements.run(), name="placements")
                group.create_task(run_all(self._reconcilers), name="reconcilers")
                if self._notices is not None:
                    group.create_task(self._notices.run(), name="request notices")
        finally:
            self.metrics.leading.set(0)

    async def before_scrape(self) -> None:
        """Count what takes too long to be counted while the metrics are rendered."""
        if self._acting:
            await self._usage.count()

    def _count_devices(self) -> DeviceCounts | None:
        return device_counts.count_devices(self.cache) if self._acting else None

    def _count_workload_devices(self) -> Mapping[UsageGroup, DeviceNumbers]:
        return self._usage.numbers if self._acting else {}

    def _counted_claims(self) -> Iterable[ResourceClaim]:
        return self.cache.claims() if self._acting else ()
