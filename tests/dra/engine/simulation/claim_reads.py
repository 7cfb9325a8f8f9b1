"""One live read of our controller, for a claim that asks, as controller/claim_lookups.py and its relatives do.

A read is a process of its own: the claim may be decided on between the question and its answer, which enters the claim
cache. A read that fails answers nothing, and the claim asks again.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from dra.engine.claims import live_reads
from dra.engine.claims.actions import Lookup, LookUpNode, LookUpPlacements, LookUpPod, LookUpWorkload
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import Placements
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import Instant
from dra.model.claims import ResourceClaim
from dra.model.meta import Key
from dra.model.nodes import Node, are_all_deleted, selected_node_names
from dra.model.pods import Pod
from dra.model.references import ConsumerReference
from dra.model.templates import PodGroup
from tests.dra.engine.simulation import objects
from tests.dra.engine.simulation.claim_sync import RETRY
from tests.dra.engine.simulation.objects import Job, Reservation
from tests.dra.engine.simulation.requests import ApiError, NotFound, RequestProcess, send_request
from tests.dra.engine.simulation.server import Clock, Server

FindPlacements: TypeAlias = Callable[[ResourceClaim, Pod], tuple[bool, bool]]
"""Whether a pod that waits for a claim could run where the claim is allocated, and whether elsewhere."""


class ClaimRead:
    """Answers one question of a claim."""

    def __init__(
        self,
        key: Key,
        *,
        claim_cache: ClaimCache,
        server: Server,
        clock: Clock,
        requeue_at: Callable[[Key, Instant], None],
        find_placements: FindPlacements,
    ) -> None:
        self._key = key
        self._claim_cache = claim_cache
        self._server = server
        self._clock = clock
        self._requeue_at = requeue_at
        self._find_placements = find_placements

    def run(self, question: Lookup) -> RequestProcess[None]:
        """Read and answer."""
        try:
            match question:
                case LookUpPod():
                    yield from self._look_up_pod(question)
                case LookUpPlacements():
                    yield from self._look_up_placements(question)
                case LookUpNode():
                    yield from self._look_up_node(question)
                case LookUpWorkload():
                    yield from self._look_up_workload(question)
        except ApiError:
            self._requeue_at(self._key, self._clock.now + RETRY)

    def _look_up_pod(self, action: LookUpPod) -> RequestProcess[None]:
        try:
            pod = yield from send_request(partial(self._server.get, Pod, action.pod))
        except NotFound:
            self._claim_cache.lookups.observe_pod_vanished(self._key, action.uid)
            return
        live_reads.observe_listed_pod(self._claim_cache, self._key, action, pod, now=self._clock.now)

    def _look_up_node(self, action: LookUpNode) -> RequestProcess[None]:
        nodes = yield from send_request(partial(self._server.list, Node))
        live_reads.observe_nodes(self._claim_cache, action, nodes, now=self._clock.now)

    def _look_up_placements(self, action: LookUpPlacements) -> RequestProcess[None]:
        """Find out where pods could run by the rules of the simulated scheduler, whatever the engine thinks of them."""
        read_at = self._clock.now
        claim: ResourceClaim = yield from send_request(partial(self._server.get, ResourceClaim, self._key))
        if claim.status.allocation is None:
            return
        here, elsewhere, unbindable = set(), set(), set()
        selector = claim.status.allocation.node_selector
        reached = selected_node_names(selector) if selector is not None else None
        names = {node.metadata.name for node in (yield from send_request(partial(self._server.list, Node)))}
        for pod in (yield from send_request(partial(self._server.list, Pod))):
            if pod.metadata.uid in action.pods:
                nominated = pod.status.nominated_node_name
                if nominated and nominated not in (names if reached is None else names & reached):
                    unbindable.add((pod.metadata.uid, nominated))
                inside, outside = self._find_placements(claim, pod)
                if inside:
                    here.add(pod.metadata.uid)
                elif outside:
                    elsewhere.add(pod.metadata.uid)
        answer = Placements(
            allocation=claim.status.allocation,
            at=self._clock.now,
            read_at=read_at,
            pods=frozenset(action.pods),
            fit_here=frozenset(here),
            fit_elsewhere=frozenset(elsewhere),
            nodes_deleted=are_all_deleted(selector, existing=names),
            unbindable_nominations=frozenset(unbindable),
        )
        self._claim_cache.lookups.observe_placements(self._key, answer)

    def _look_up_reservation(self, reference: ConsumerReference) -> RequestProcess[None]:
        """Ask whether a Reservation is certainly gone; what is there, its watch will show."""
        try:
            reservation = yield from send_request(partial(self._server.get, Reservation, objects.key(reference.name)))
        except NotFound:
            self._claim_cache.reservation_missing(reference.name, reference.uid)
            return
        if reservation.metadata.uid != reference.uid:
            self._claim_cache.reservation_missing(reference.name, reference.uid)

    def _look_up_workload(self, action: LookUpWorkload) -> RequestProcess[None]:
        key, uid = WorkloadKey.from_reference(action.reference, action.claim[0]), action.reference.uid
        if action.reference.is_reservation:
            yield from self._look_up_reservation(action.reference)
            return
        kind: type[Job | PodGroup] = PodGroup if action.reference.is_pod_group else Job
        try:
            job = yield from send_request(partial(self._server.get, kind, (key.namespace, key.name)))
        except NotFound:
            self._claim_cache.workloads.forget(key, uid)
            return
        if job.metadata.uid != uid:
            self._claim_cache.workloads.forget(key, uid)
        finished = isinstance(job, Job) and job.finished
        suspended = isinstance(job, Job) and job.suspended and not finished
        self._claim_cache.workloads.observe(
            key, uid=job.metadata.uid, finished=finished, suspended=suspended, live=True
        )
