"""The controller as a whole: puts the parts together, runs them, and stops them in order."""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from controller.claims import ClaimLoop
from controller.eviction import Evictor
from controller.generation import GenerationLoop
from controller.leadership import Leadership
from controller.metrics import Metrics
from controller.placements import PlacementReader
from controller.publisher import Publisher
from controller.queue import Queue
from controller.reservations.loop import ReservationLoop
from controller.taints import TaintWatches
from controller.templates import TemplateWatches
from controller.watches import Watches
from controller.workloads import Workloads
from controller.writer import Writer
from dra.api.configuration import Configuration, Mode
from dra.cel.rules import MalformedRuleError, Rule
from dra.engine import census
from dra.engine.claims import policy
from dra.engine.claims.policy import Policy
from dra.engine.reasons import Reason
from dra.engine.world import World
from dra.kube import series
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.election import Terms
from dra.kube.events import Recorder
from dra.kube.lease import Election
from dra.kube.limits import Limiter
from dra.kube.resources import CLAIMS, POD_GROUPS, PODS
from dra.kube.series import Fact, Regarding
from dra.kube.tasks import beside
from dra.kube.transport import Transport
from dra.model.references import GroupResource, MalformedReferenceError
from dra.telemetry.endpoints import Endpoints

ACTION: Final = "Reserve"
"""What all our Events are about, in the field that tells."""

_log: Final = logging.getLogger(__name__)


class MalformedConfigurationError(ValueError):
    """A configuration that is well-formed but cannot be meant."""


def policy_of(configuration: Configuration) -> Policy:
    """Return the policy of a configuration: modes are values, not branches."""
    chosen = policy.REPLACE if configuration.mode is Mode.REPLACE else policy.ALONGSIDE
    return msgspec.structs.replace(
        chosen, release_finished=configuration.release_finished, evict=configuration.device_taint_eviction
    )


def rules_of(configuration: Configuration) -> Mapping[GroupResource, Rule]:
    """Return the compiled release rules; raises MalformedConfigurationError naming the rule."""
    rules = {}
    for resource, expression in configuration.rules().items():
        try:
            rules[GroupResource.parse(resource)] = Rule(expression)
        except (MalformedReferenceError, MalformedRuleError) as error:
            raise MalformedConfigurationError(f"releaseRules: {resource}: {error}") from error
    return rules


class EventRecorder:
    """Turns reasons into the facts of the event recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def record(self, reason: Reason) -> None:
        """Post an Event for the reason, sometime."""
        resource = next(kind for kind in (CLAIMS, PODS, POD_GROUPS) if kind.kind == reason.subject.kind)
        namespace, name = reason.subject.key
        regarding = Regarding(
            api_version=resource.api_version,
            kind=resource.kind,
            namespace=namespace,
            name=name,
            uid=reason.subject.uid,
        )
        self._recorder.record(
            Fact(
                regarding=regarding,
                reason=reason.code.value,
                action=ACTION,
                note=reason.note,
                severity=series.Severity(reason.severity.value),
            )
        )


class Told:
    """Takes what is seen of reservations to those who keep their claims."""

    def __init__(self, world: World, woken: Callable[[], None], *, holds_devices: bool) -> None:
        self.holds_devices = holds_devices
        self.observe_reservation = world.observe_reservation
        self.reservation_unreadable = world.reservation_unreadable
        self.forget_reservation = world.forget_reservation
        self.woken = woken


class Application:
    """One controller process on one API server."""

    def __init__(
        self, configuration: Configuration, transport: Transport, *, clock: Clock = SYSTEM, identity: str = ""
    ) -> None:
        """``identity`` tells this process from all others; without one, it is the host with something random."""
        self.metrics = Metrics()
        self.world = World()
        if configuration.reservations:
            self.world.follow_reservations()
        self._acting = False
        self._clock = clock
        self._transport = transport
        limiter = Limiter(configuration.qps, configuration.burst, clock=clock)
        client = Client(transport, limiter, clock=clock, observer=self.metrics.request)
        identity = identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._election = _election(configuration, client, identity, clock)
        leadership = Leadership(self._election)
        self._recorder = Recorder(client, instance=identity, clock=clock, discarding=self.metrics.events_discarded.inc)
        rules = rules_of(configuration)
        self.world.always_follow(frozenset(rules))
        self._workloads = Workloads(client, world=self.world, rules=rules, woken=self._wake, clock=clock)
        self._watches = Watches(client, world=self.world, clock=clock, woken=self._wake)
        self._taints = TaintWatches(client, world=self.world, clock=clock, woken=self._wake)
        self._templates = TemplateWatches(client, owners=self.world.owners, clock=clock, woken=self._wake)
        self._policy = policy_of(configuration)
        publisher = Publisher(EventRecorder(self._recorder), self.metrics)
        self._placements = PlacementReader(client, world=self.world, clock=clock, woken=self._wake)
        writer = Writer(
            client,
            world=self.world,
            clock=clock,
            workloads=self._workloads,
            metrics=self.metrics,
            leadership=leadership,
            placements=self._placements.ask,
        )
        self._loop = ClaimLoop(
            world=self.world,
            queue=Queue(clock),
            writer=writer,
            publisher=publisher,
            metrics=self.metrics,
            policy=self._policy,
            clock=clock,
            leadership=leadership,
            evictor=Evictor(
                client,
                world=self.world,
                publisher=publisher,
                metrics=self.metrics,
                policy=self._policy,
                clock=clock,
                leadership=leadership,
            ),
        )
        self._generation = GenerationLoop(
            client,
            world=self.world,
            publisher=publisher,
            metrics=self.metrics,
            clock=clock,
            leadership=leadership,
        )
        self._reservations = (
            ReservationLoop(
                client,
                recorder=self._recorder,
                nodes=self._watches.nodes,
                clock=clock,
                leadership=leadership,
                listener=Told(self.world, self._wake, holds_devices=self._policy.generate_claims),
                placeholders=configuration.placeholders,
            )
            if configuration.reservations
            else None
        )
        self.metrics.count_devices(lambda: census.count(self.world) if self._acting else None)
        if self._policy.generate_claims:  # beside the stock controller, these are its own to tell
            self.metrics.count_claims(lambda: self.world.claims() if self._acting else ())
        self._endpoints = Endpoints(
            probes=configuration.probes,
            metrics=configuration.metrics,
            registry=self.metrics,
            troubles=self._troubles,
            observer=self.metrics.dropped,
        )

    async def run(self) -> None:
        """Work until cancelled, then stop: nothing new, then the lease, then what is left to tell.

        Raises LeadershipLostError when somebody else took over, and RewoundError when the API server was restored from
        a backup: the process must end, its view of the world is stale.
        """
        async with self._endpoints as endpoints:
            for name, address in endpoints.addresses.items():
                _log.info("%s on http://%s", name, address)
            try:
                async with beside(self._recorder.run(), name="events"):
                    await self._work()
            finally:
                await self._recorder.close()
                await self._transport.close()
                _log.info("stopped")

    async def _work(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watches.run(), name="watches")
                if self._policy.evict:
                    group.create_task(self._taints.run(), name="taints")
                if self._policy.generate_claims:
                    group.create_task(self._templates.run(), name="templates")
                if self._reservations is not None:
                    group.create_task(self._reservations.watch(), name="reservations")
                group.create_task(self._lead(), name="lead")
        finally:
            await self._workloads.close()

    async def _lead(self) -> None:
        """Know the cluster, then act on it for as long as we hold the lease."""
        await self._watches.synced()
        if self._election is None:
            await self._act()
            return
        await self._election.acquire()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._election.hold(), name="lease")
                group.create_task(self._act(), name="act")
        finally:
            self.metrics.leading.set(0)
            await asyncio.shield(self._election.release())

    async def _act(self) -> None:
        self.world.started_watching(now=self._clock.now())
        self._acting = True
        self.metrics.leading.set(1)
        self._workloads.follow()
        self._loop.wake()
        _log.info("acting on %d claims", sum(1 for _ in self.world.claims()))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run(), name="claims")
            group.create_task(self._placements.run(), name="placements")
            if self._policy.generate_claims:
                group.create_task(self._generate(), name="generation")
            if self._reservations is not None:
                group.create_task(self._reservations.run(), name="reservations")

    async def _generate(self) -> None:
        """Only when all templates are known: one that is not to be seen is then missing.

        And all reservations: what one of them holds for a pod is not made anew.
        """
        await self._templates.synced()
        if self._reservations is not None:
            await self._reservations.synced()
        self.world.owners.start_over()
        self._generation.wake()
        await self._generation.run()

    def _troubles(self) -> list[str]:
        found = self._watches.troubles()
        if self._policy.evict:
            found += self._taints.troubles()
        if self._policy.generate_claims:
            found += self._templates.troubles()
        if self._reservations is not None:
            found += self._reservations.troubles()
        return found

    def _wake(self) -> None:
        """A standby only keeps its world warm; as soon as it acts it looks at everything."""
        if not self._acting:
            self.world.dirty.clear()
            self.world.owners.dirty.clear()
            return
        self._workloads.follow()
        self._loop.wake()
        if self._policy.generate_claims:
            self._generation.wake()
        else:
            self.world.owners.dirty.clear()


def _election(configuration: Configuration, client: Client, identity: str, clock: Clock) -> Election | None:
    settings = configuration.leader_election
    if not settings.enabled:
        return None
    try:
        terms = Terms(
            duration=settings.lease_seconds, renew_within=settings.renew_seconds, retry=settings.retry_seconds
        )
    except ValueError as error:
        raise MalformedConfigurationError(f"leaderElection: {error}") from error
    key = (settings.namespace, settings.name)
    return Election(client, key=key, identity=identity, terms=terms, clock=clock)
