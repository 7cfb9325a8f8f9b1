"""Our controller: processes one after the other, each with a world of its own that its watches feed.

A process that dies leaves the request that it was about to make on the way: it may arrive much later, when the next
process has long decided something else.
"""

from collections import Counter
from collections.abc import Iterable

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import NEVER, Instant
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import Node
from dra.model.pods import Pod
from dra.model.references import POD_GROUPS
from dra.model.templates import PodGroup
from tests.dra.engine.simulation import reservations
from tests.dra.engine.simulation.binding_observations import BindingObservations
from tests.dra.engine.simulation.claim_sync import ClaimSync, FindPlacements
from tests.dra.engine.simulation.clock import Clock
from tests.dra.engine.simulation.lagging_watches import LaggingWatch
from tests.dra.engine.simulation.objects import JOBS, Job, Reservation
from tests.dra.engine.simulation.requests import RequestFate, RequestProcess, resume_process, start_process
from tests.dra.engine.simulation.server import Server


class ControllerReplica:
    """One process: watches, world, turns."""

    def __init__(
        self, server: Server, clock: Clock, policy: Policy, *, places: FindPlacements, told: Counter[str]
    ) -> None:
        self.began = clock.now
        self.world = ClaimCache()
        self.sights = BindingObservations()
        self.listed: set[Uid] = set()
        """The uids of all entries that the watch of claims ever showed."""

        self._told = told
        self.turns: dict[Key, RequestProcess[None]] = {}
        self.ready = False
        """Whether everything has been listed: nothing is decided before."""

        self.wakes: dict[Key, Instant] = {}
        self._server = server
        self._clock = clock
        self._policy = policy
        self._places = places
        self._running: dict[Key, ClaimSync] = {}
        self.nodes = LaggingWatch(
            server, Node, upserted=self._node, deleted=lambda n: self.world.forget_node(n.metadata.name)
        )
        self.claims = LaggingWatch(server, ResourceClaim, upserted=self._claim, deleted=self._claim_gone)
        self.pods = LaggingWatch(
            server, Pod, upserted=self._pod, deleted=lambda pod: self.world.forget_pod(pod.metadata.uid)
        )
        self.jobs = LaggingWatch(server, Job, upserted=self._job, deleted=self._job_gone)
        self.groups = LaggingWatch(server, PodGroup, upserted=self._group, deleted=self._group_gone)
        self.reservations = LaggingWatch(
            server, Reservation, upserted=self._reservation, deleted=self._reservation_gone
        )
        self.feeds = (self.nodes, self.claims, self.pods, self.jobs, self.groups, self.reservations)
        self.world.watch_reservations()

    def deliver(self, which: int, count: int) -> None:
        """Deliver events of one watch; decisions begin when all of them have listed."""
        self._disturb(None)
        self.feeds[which].deliver(count)
        if not self.ready and all(feed.listed for feed in self.feeds):
            self.world.observe_kind(JOBS, WorkloadPhase.ABSENT)
            self.world.observe_kind(POD_GROUPS, WorkloadPhase.ABSENT)
            self.world.mark_synced(now=self._clock.now)
            self.ready = True

    def relist(self, which: int) -> None:
        """Lose a watch (410), and with it the states between the last event and now."""
        if self.ready:
            self._disturb(None)
            self.feeds[which].list()
            self._reconcile(which)

    def _reconcile(self, which: int) -> None:
        """Tell the world all that the list of one kind has shown."""
        version = str(self._server.version)
        match which:
            case 0:
                self.world.nodes_listed({name for _, name in self.nodes.seen}, version)
            case 1:
                self.world.claims_listed({key: c.metadata.uid for key, c in self.claims.seen.items()}, version)
            case 2:
                self.world.pods_listed({pod.metadata.uid for pod in self.pods.seen.values()}, version)
            case 3:
                self.world.workloads_listed(JOBS, self.jobs.seen.keys())
            case 4:
                self.world.workloads_listed(POD_GROUPS, self.groups.seen.keys())
            case _:
                pass

    def catch_up(self) -> None:
        """Deliver everything that has arrived."""
        for which, feed in enumerate(self.feeds):
            if feed.arrived or not feed.listed:
                self.deliver(which, feed.arrived)

    def due(self) -> list[Key]:
        """Return the claims that wait for a decision, in order."""
        if not self.ready:
            return []
        woken = {key for key, when in self.wakes.items() if when <= self._clock.now}
        return sorted((self.world.dirty | woken) - self.turns.keys())

    def begin(self, key: Key) -> None:
        """Begin a turn, up to its first request."""
        if not self.ready or key in self.turns:
            return
        self.world.dirty.discard(key)
        self.wakes.pop(key, None)
        turn = ClaimSync(
            key,
            world=self.world,
            policy=self._policy,
            server=self._server,
            clock=self._clock,
            wake=self._wake_at,
            places=self._places,
            told=self._told,
            sights=self.sights,
            nodes=self.nodes.seen,
            pods=self.pods.seen,
        )
        process = turn.run()
        if start_process(process):
            self.turns[key], self._running[key] = process, turn

    def step(self, key: Key, fate: RequestFate) -> None:
        """Let a turn make its next request."""
        self._disturb(key)
        if not resume_process(self.turns[key], fate):
            del self.turns[key], self._running[key]

    def finish(self, key: Key, fate: RequestFate = RequestFate.DONE) -> None:
        """Let a turn make all its requests; the first may have another fate."""
        while key in self.turns:
            self.step(key, fate)
            fate = RequestFate.DONE

    def _wake_at(self, key: Key, when: Instant) -> None:
        if when != NEVER:
            self.wakes[key] = min(when, self.wakes.get(key, NEVER))

    def _disturb(self, mover: Key | None) -> None:
        for key, turn in self._running.items():
            if key != mover:
                turn.disturbed = True

    # What the watches tell the world:

    def _node(self, node: Node) -> None:
        self.world.observe_node(node, now=self._clock.now)

    def _claim(self, claim: ResourceClaim) -> None:
        self.sights.claim(claim, now=self._clock.now)
        self.listed.update(entry.uid for entry in claim.entries)
        self.world.observe_claim(claim, now=self._clock.now)

    def _claim_gone(self, claim: ResourceClaim) -> None:
        self.world.forget_claim(claim.metadata.key, claim.metadata.uid)

    def _pod(self, pod: Pod) -> None:
        self.sights.pod(pod, now=self._clock.now)
        self.world.observe_pod(pod, now=self._clock.now)

    def _job(self, job: Job) -> None:
        self.world.observe_workload(WorkloadKey(JOBS, *job.metadata.key), uid=job.metadata.uid, finished=job.finished)

    def _group(self, group: PodGroup) -> None:
        key = WorkloadKey(POD_GROUPS, *group.metadata.key)
        self.world.observe_workload(key, uid=group.metadata.uid, finished=False)

    def _group_gone(self, group: PodGroup) -> None:
        self.world.forget_workload(WorkloadKey(POD_GROUPS, *group.metadata.key), group.metadata.uid)

    def _reservation(self, found: Reservation) -> None:
        meta = found.metadata
        self.world.observe_reservation(
            meta.uid, reservations.reservation_object(meta.name, meta.uid, found.phase, found.node)
        )

    def _reservation_gone(self, found: Reservation) -> None:
        self.world.forget_reservation(found.metadata.uid)

    def _job_gone(self, job: Job) -> None:
        self.world.forget_workload(WorkloadKey(JOBS, *job.metadata.key), job.metadata.uid)


class SimulatedController:
    """The present process, and what the ones before it have left."""

    def __init__(self, server: Server, clock: Clock, policy: Policy, places: FindPlacements) -> None:
        self.late: list[RequestProcess[None]] = []
        """Turns of processes that died: their next request may still arrive."""

        self._server = server
        self._clock = clock
        self._policy = policy
        self._places = places
        self.told: Counter[str] = Counter()
        """How often each reason was given."""

        self.replica = self._fresh()

    def restart(self) -> None:
        """Die in the middle of whatever is under way, and begin with an empty memory; the network stays as slow."""
        self.late.extend(self.replica.turns.values())
        lags = [feed.lag for feed in self.replica.feeds]
        self.replica = self._fresh()
        self.lag(lags)

    def _fresh(self) -> ControllerReplica:
        return ControllerReplica(self._server, self._clock, self._policy, places=self._places, told=self.told)

    def lag(self, seconds: Iterable[float]) -> None:
        """Let the watches be behind by so much, in the order of the replica's."""
        for feed, lag in zip(self.replica.feeds, seconds, strict=True):
            feed.lag = lag

    def arrive(self, index: int) -> None:
        """Let a request of a process that is no more reach the server. Nobody hears the answer."""
        process = self.late.pop(index)
        resume_process(process, RequestFate.LOST)
        process.close()
