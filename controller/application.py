"""The controller as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from controller.claim_event_handlers import ClaimEventHandlers
from controller.claim_events import ACTION, ClaimEvents, ReasonEventRecorder
from controller.claim_generation import ClaimGeneration
from controller.claim_lookups import ClaimLookups
from controller.claims import Claims
from controller.eviction import Evictions
from controller.informers import ControllerInformers
from controller.leadership import run_as_leader
from controller.metrics import ControllerMetrics
from controller.node_annotations import NodeAnnotations
from controller.optional_part import OptionalPart
from controller.placement_reader import PlacementReader
from controller.pod_group_informer import PodGroupInformer
from controller.pod_reports import PodReports
from controller.reconciler import Reconciler, run_all
from controller.reservations.loop import ReservationLoop
from controller.runtime import Runtime, create_runtime
from controller.taint_informers import TaintInformers
from controller.translation.request_notices import RequestNotices
from controller.translation.templates import Templates
from controller.unprepared_pods import UnpreparedPods
from controller.workload_informers import WorkloadInformers
from dra.api.configuration import ControllerConfiguration, ControllerMode, MalformedConfigurationError
from dra.cel.object_rules import MalformedRuleError, WorkloadRules, compile_workload_rules
from dra.engine.claims import device_counts, policy
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.device_counts import DeviceCounts
from dra.engine.claims.policy import Policy
from dra.kube.clock import SYSTEM, Clock
from dra.kube.events import CONTROLLER
from dra.kube.tasks import background_task
from dra.kube.transport import Transport
from dra.model.claims import ResourceClaim
from dra.model.references import GroupResource
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


def compiled_rules(configuration: ControllerConfiguration) -> Mapping[GroupResource, WorkloadRules]:
    """Return the compiled rules of each kind; raise MalformedConfigurationError, which names the rule."""
    try:
        return compile_workload_rules(
            configuration.release_rules_by_resource(), configuration.suspended_rules_by_resource()
        )
    except MalformedRuleError as error:
        raise MalformedConfigurationError(f"releaseRules: {error}") from error


class ReservationListener:
    """A listener that passes observed Reservations to the cache of claims."""

    def __init__(self, cache: ClaimCache, flush: Callable[[], None], *, supports_claims: bool) -> None:
        self.supports_claims = supports_claims
        self.observe_reservation = cache.observe_reservation
        self.reservation_unreadable = cache.reservation_unreadable
        self.forget_reservation = cache.forget_reservation
        self.flush = flush


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
        if configuration.reservations:
            self.cache.watch_reservations()
        self._acting = False
        self._clock = clock
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
        client, leadership, self._recorder = runtime.client, runtime.leadership, runtime.recorder
        self._election = leadership.election
        self._policy = policy_from(configuration)
        self._informers = ControllerInformers(client, clock=clock, generates_claims=self._policy.generate_claims)
        rules = compiled_rules(configuration)
        self.cache.always_watch(frozenset(rules))
        self._workloads = WorkloadInformers(runtime, self._informers, cache=self.cache, rules=rules)
        events = ClaimEvents(ReasonEventRecorder(self._recorder), self.metrics)
        handlers = ClaimEventHandlers(self.cache, self._informers, clock=clock)
        if self._policy.generate_claims:
            handlers.watch_templates()
        self._informers.claims.subscribe(
            lambda claim: self._tell(lambda part: part.claim_changed(claim.metadata.key)),
            lambda claim: self._tell(lambda part: part.claim_deleted(claim.metadata.key)),
        )
        self._taints = TaintInformers(runtime, self._informers, cache=self.cache)
        self._groups = PodGroupInformer(runtime, self._informers, owners=self.cache.owners)
        self._placements = PlacementReader(runtime, self._informers, cache=self.cache)
        lookups = ClaimLookups(runtime, cache=self.cache, workloads=self._workloads.reader, placements=self._placements)
        self._reconcilers: list[Reconciler[Any]] = [
            Claims(runtime, self._informers, cache=self.cache, lookups=lookups, policy=self._policy),
            Evictions(runtime, self._informers, cache=self.cache, events=events, policy=self._policy),
            NodeAnnotations(runtime, self._informers, cache=self.cache.kept_nodes),
        ]
        self._reservations = (
            ReservationLoop(
                client,
                recorder=self._recorder,
                nodes=self._informers.nodes.reflector,
                clock=clock,
                leadership=leadership,
                listener=ReservationListener(
                    self.cache, self._informers.notify, supports_claims=self._policy.generate_claims
                ),
                placeholders=configuration.placeholders,
                placeholder_image=configuration.placeholder_image,
                translates_requests=configuration.koordinator,
                claim_exists=lambda key: self.cache.claim(key) is not None,
                on_internal_error=self.metrics.failures.inc,
            )
            if configuration.reservations
            else None
        )
        self._reconcilers += self._claim_generation(runtime, events)
        self._parts: list[OptionalPart] = [self._reservations] if self._reservations is not None else []
        self._notices: RequestNotices | None = None
        if configuration.koordinator:
            self._add_koordinator(runtime, events)
        else:
            self.metrics.count_refused_claims(tuple)
        self.metrics.count_devices(self._count_devices)
        if self._policy.generate_claims:  # otherwise the stock controller exports these metrics
            self.metrics.count_claims(self._counted_claims)
        self._endpoints = TelemetryServer(
            probes=configuration.probes,
            metrics=configuration.metrics,
            registry=self.metrics,
            not_ready_reasons=self._not_ready_reasons,
            observer=self.metrics.dropped,
        )

    def _claim_generation(self, runtime: Runtime[ControllerMetrics], events: ClaimEvents) -> list[ClaimGeneration]:
        """Return the loop that generates claims, if this is not the stock controller's duty."""
        if not self._policy.generate_claims:
            self._informers.on_batch_end(self.cache.owners.discard_dirty)
            return []
        # A claim that a Reservation holds for a pod is not created again.
        needs = [] if self._reservations is None else [self._reservations]
        return [ClaimGeneration(runtime, self._informers, cache=self.cache, events=events, needs=needs)]

    def _add_koordinator(self, runtime: Runtime[ControllerMetrics], events: ClaimEvents) -> None:
        """Add the parts that serve requests in Koordinator's form."""
        templates = Templates(runtime, self._informers, events=events, generates_claims=self._policy.generate_claims)
        own_events = ClaimEvents(ReasonEventRecorder(self._recorder), self.metrics)
        unprepared = UnpreparedPods(runtime, self._informers, events=own_events)
        self._reconcilers += [templates, PodReports(runtime, self._informers), unprepared]
        self._notices = RequestNotices(runtime, self._informers, events=events)
        self.metrics.count_refused_claims(unprepared.overdue_reasons)

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
                if self._policy.evict:
                    group.create_task(self._taints.run(), name="taints")
                if self._policy.generate_claims:
                    group.create_task(self._groups.run(), name="pod groups")
                for part in self._parts:
                    group.create_task(part.watch(), name=f"informers of {type(part).__name__}")
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
                for part in self._parts:
                    group.create_task(part.run(), name=type(part).__name__)
        finally:
            self.metrics.leading.set(0)

    def _count_devices(self) -> DeviceCounts | None:
        return device_counts.count_devices(self.cache) if self._acting else None

    def _counted_claims(self) -> Iterable[ResourceClaim]:
        return self.cache.claims() if self._acting else ()

    def _not_ready_reasons(self) -> list[str]:
        found = self._informers.not_ready_reasons()
        if self._policy.evict:
            found += self._taints.not_ready_reasons()
        return found + [reason for part in self._parts for reason in part.not_ready_reasons()]

    def _tell(self, hook: Callable[[OptionalPart], None]) -> None:
        for part in self._parts:
            hook(part)
