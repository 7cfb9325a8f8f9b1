"""Our controller: processes one after the other, each with a claim cache of its own that its watches fill.

A process that dies leaves the request that it was about to make on the way: it may arrive much later, when the next
process has long decided something else.
"""

from collections import Counter
from collections.abc import Iterable

from dra.engine.claims.actions import Lookup
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
from tests.dra.engine.simulation.claim_reads import ClaimRead, FindPlacements
from tests.dra.engine.simulation.claim_sync import ClaimSync
from tests.dra.engine.simulation.lagging_watches import LaggingWatch
from tests.dra.engine.simulation.objects import JOBS, Job, Reservation
from tests.dra.engine.simulation.requests import RequestOutcome, RequestProcess, resume_process, start_process
from tests.dra.engine.simulation.server import Clock, Server


class ControllerReplica:
    """One process: watches, claim cache, syncs."""

    def __init__(
        self, server: Server, clock: Clock, policy: Policy, *, find_placements: FindPlacements, reasons: Counter[str]
    ) -> None:
        self.started_at = clock.now
        self.claim_cache = ClaimCache()
        self.bindings = BindingObservations()
        self.listed: set[Uid] = set()
        """The uids of all entries that the watch of claims ever showed."""

        self._reasons = reasons
        self.syncs: dict[Key | tuple[Key, Lookup], RequestProcess[None]] = {}
        """By the claim, and live reads by the claim that asks and its question."""

        self.ready = False
        """Whether everything has been listed: nothing is decided before."""

        self.due_times: dict[Key, Instant] = {}
        self._server = server
        self._clock = clock
        self._policy = policy
        self._find_placements = find_placements
        self._running: dict[Key, ClaimSync] = {}
        self.nodes = LaggingWatch(
            server, Node, upserted=self._observe_node, deleted=lambda n: self.claim_cache.forget_node(n.metadata.name)
        )
        self.claims = LaggingWatch(server, ResourceClaim, upserted=self._observe_claim, deleted=self._forget_claim)
        self.pods = LaggingWatch(
            server, Pod, upserted=self._observe_pod, deleted=lambda pod: self.claim_cache.forget_pod(pod.metadata.uid)
        )
        self.jobs = LaggingWatch(server, Job, upserted=self._observe_job, deleted=self._forget_job)
        self.groups = LaggingWatch(server, PodGroup, upserted=self._observe_group, deleted=self._forget_group)
        self.reservations = LaggingWatch(
            server, Reservation, upserted=self._observe_reservation, deleted=self._forget_reservation
        )
        self.watches = (self.nodes, self.claims, self.pods, self.jobs, self.groups, self.reservations)
        self.claim_cache.watch_reservations()

    def deliver(self, which: int, count: int) -> None:
        """Deliver events of one watch; decisions begin when all of them have listed."""
        self._mark_stale(None)
        self.watches[which].deliver(count)
        if not self.ready and all(watch.listed for watch in self.watches):
            self.claim_cache.workloads.observe_kind(JOBS, WorkloadPhase.ABSENT)
            self.claim_cache.workloads.observe_kind(POD_GROUPS, WorkloadPhase.ABSENT)
            self.claim_cache.mark_synced(now=self._clock.now)
            self.claim_cache.mark_all_dirty()
            self.ready = True

    def relist(self, which: int) -> None:
        """Lose a watch (410), and with it the states between the last event and now."""
        if self.ready:
            self._mark_stale(None)
            self.watches[which].list()
            self._reconcile(which)

    def _reconcile(self, which: int) -> None:
        """Tell the claim cache all that the list of one kind has shown."""
        version = str(self._server.version)
        match which:
            case 0:
                self.claim_cache.nodes_listed({name for _, name in self.nodes.seen}, version)
            case 1:
                self.claim_cache.claims_listed({key: c.metadata.uid for key, c in self.claims.seen.items()}, version)
            case 2:
                self.claim_cache.pods_listed({pod.metadata.uid for pod in self.pods.seen.values()}, version)
            case 3:
                self.claim_cache.workloads.listed(JOBS, self.jobs.seen.keys())
            case 4:
                self.claim_cache.workloads.listed(POD_GROUPS, self.groups.seen.keys())
            case _:
                pass

    def catch_up(self) -> None:
        """Deliver everything that has arrived."""
        for which, watch in enumerate(self.watches):
            if watch.due_events or not watch.listed:
                self.deliver(which, watch.due_events)

    def due(self) -> list[Key]:
        """Return the claims that wait for a decision, in order."""
        if not self.ready:
            return []
        due = {key for key, when in self.due_times.items() if when <= self._clock.now}
        return sorted(({*self.claim_cache.dirty} | due) - self.syncs.keys())

    def begin(self, key: Key) -> None:
        """Begin a sync, up to its first request."""
        if not self.ready or key in self.syncs:
            return
        self.claim_cache.dirty.discard(key)
        self.due_times.pop(key, None)
        sync = ClaimSync(
            key,
            claim_cache=self.claim_cache,
            policy=self._policy,
            server=self._server,
            clock=self._clock,
            requeue_at=self._wake_at,
            ask=self._begin_read,
            reasons=self._reasons,
            bindings=self.bindings,
            nodes=self.nodes.seen,
            pods=self.pods.seen,
        )
        process = sync.run()
        if start_process(process):
            self.syncs[key], self._running[key] = process, sync

    def _begin_read(self, key: Key, question: Lookup) -> None:
        """Begin a live read, unless it is under way."""
        if (key, question) in self.syncs:
            return
        read = ClaimRead(
            key,
            claim_cache=self.claim_cache,
            server=self._server,
            clock=self._clock,
            requeue_at=self._wake_at,
            find_placements=self._find_placements,
        )
        process = read.run(question)
        if start_process(process):
            self.syncs[key, question] = process

    def step(self, key: Key | tuple[Key, Lookup], outcome: RequestOutcome) -> None:
        """Let a sync or a read make its next request."""
        self._mark_stale(key)
        if not resume_process(self.syncs[key], outcome):
            del self.syncs[key]
            self._running.pop(key, None)  # type: ignore[call-overload]

    def finish(self, key: Key | tuple[Key, Lookup], outcome: RequestOutcome = RequestOutcome.DONE) -> None:
        """Let a sync or a read make all its requests; the first may have another outcome."""
        while key in self.syncs:
            self.step(key, outcome)
            outcome = RequestOutcome.DONE

    def _wake_at(self, key: Key, when: Instant) -> None:
        if when != NEVER:
            self.due_times[key] = min(when, self.due_times.get(key, NEVER))

    def _mark_stale(self, current: Key | tuple[Key, Lookup] | None) -> None:
        for key, sync in self._running.items():
            if key != current:
                sync.stale = True

    # What the watches tell the claim cache:

    def _observe_node(self, node: Node) -> None:
        self.claim_cache.observe_node(node, now=self._clock.now)

    def _observe_claim(self, claim: ResourceClaim) -> None:
        self.bindings.observe_claim(claim, now=self._clock.now)
        self.listed.update(entry.uid for entry in claim.entries)
        self.claim_cache.observe_claim(claim, now=self._clock.now)

    def _forget_claim(self, claim: ResourceClaim) -> None:
        self.claim_cache.forget_claim(claim.metadata.key, claim.metadata.uid)

    def _observe_pod(self, pod: Pod) -> None:
        self.bindings.observe_pod(pod, now=self._clock.now)
        self.claim_cache.observe_pod(pod, now=self._clock.now)

    def _observe_job(self, job: Job) -> None:
        self.claim_cache.workloads.observe(
            WorkloadKey(JOBS, *job.metadata.key),
            uid=job.metadata.uid,
            finished=job.finished,
            suspended=job.suspended and not job.finished,
        )

    def _observe_group(self, group: PodGroup) -> None:
        key = WorkloadKey(POD_GROUPS, *group.metadata.key)
        self.claim_cache.workloads.observe(key, uid=group.metadata.uid, finished=False)

    def _forget_group(self, group: PodGroup) -> None:
        self.claim_cache.workloads.forget(WorkloadKey(POD_GROUPS, *group.metadata.key), group.metadata.uid)

    def _observe_reservation(self, found: Reservation) -> None:
        meta = found.metadata
        self.claim_cache.observe_reservation(
            meta.uid, reservations.reservation_object(meta.name, meta.uid, found.phase, found.node)
        )

    def _forget_reservation(self, found: Reservation) -> None:
        self.claim_cache.forget_reservation(found.metadata.uid)

    def _forget_job(self, job: Job) -> None:
        self.claim_cache.workloads.forget(WorkloadKey(JOBS, *job.metadata.key), job.metadata.uid)


class SimulatedController:
    """The present process, and what the ones before it have left."""

    def __init__(self, server: Server, clock: Clock, policy: Policy, find_placements: FindPlacements) -> None:
        self.late_requests: list[RequestProcess[None]] = []
        """Syncs of processes that died: their next request may still arrive."""

        self._server = server
        self._clock = clock
        self._policy = policy
        self._find_placements = find_placements
        self.reasons: Counter[str] = Counter()
        """How often each reason was given."""

        self.replica = self._new_replica()

    def restart(self) -> None:
        """Die in the middle of whatever is under way, and begin with an empty memory; the network stays as slow."""
        self.late_requests.extend(self.replica.syncs.values())
        lags = [watch.lag for watch in self.replica.watches]
        self.replica = self._new_replica()
        self.set_lags(lags)

    def _new_replica(self) -> ControllerReplica:
        return ControllerReplica(
            self._server, self._clock, self._policy, find_placements=self._find_placements, reasons=self.reasons
        )

    def set_lags(self, seconds: Iterable[float]) -> None:
        """Let the watches be behind by so much, in the order of the replica's."""
        for watch, lag in zip(self.replica.watches, seconds, strict=True):
            watch.lag = lag

    def deliver_late(self, index: int) -> None:
        """Let a request of a process that is no more reach the server. Nobody hears the answer."""
        process = self.late_requests.pop(index)
        resume_process(process, RequestOutcome.LOST)
        process.close()
