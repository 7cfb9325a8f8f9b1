"""Simulates a scheduler on a snapshot, pod by pod, with the decisions of the local plane's scheduler.

`localplane.scheduler.scheduling_cycle.decide` decides; here each decision takes effect at once. Pods that wait in the
cluster are in the queue as well, before new pods of the same priority, as a scheduler would order them.

Preempted pods (`localplane.scheduler.preemption`) are gone at once and are not replaced. Claims that only they used are
deallocated, as the claim controller does, and the preemptor gets their node.

Reservations of the manifests are scheduled before pods of the manifests: a user who writes both intends the pods to run
in the reservations.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random
from typing import Final

import msgspec

from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.cli.kubectl.simulate.simulated_controllers import SimulatedClaimGeneration, SimulatedReservations
from dra.cli.kubectl.simulate.simulated_manifests import OWN_SCHEDULING_GATE, Manifests, with_priority
from dra.engine.claims import claim_holders
from dra.engine.diagnosis.snapshot import ControllerPresence, Snapshot
from dra.engine.reservations import placeholders
from dra.engine.scheduling.node_info import PodRequests
from dra.model.claims import RESERVED_FOR_MAX_SIZE, AllocationResult, ResourceClaim
from dra.model.meta import Uid, UnstructuredObject
from dra.model.pods import claim_names
from dra.model.quantities import MalformedAmountsError
from dra.model.references import ConsumerReference
from dra.model.scheduling import SchedulerPod
from localplane.scheduler.cluster_cache import ClusterCache
from localplane.scheduler.preemption import PreemptionCandidate, preempt
from localplane.scheduler.scheduling_cycle import (
    Deallocation,
    NodeAssignment,
    Pending,
    ScheduleResult,
    Unschedulable,
    decide,
)
from localplane.scheduler.scheduling_queue import QueuedPodInfo
from localplane.schemas.releases import nearest_release

_UID_PREFIX: Final = "simulated-"
_PLACEHOLDER_CREATION_TIME: Final = "9999-12-31T00:00:00Z"
"""Creation time of placeholder pods that the simulation adds: they queue after existing pods."""

TIE_BREAK_SEED: Final = 0
"""Seed for the choice among equally good nodes, so that the same question gets the same answer."""


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The outcome of the simulation for one pod."""

    pod: SchedulerPod
    node: str = ""
    claims: tuple[ResourceClaim, ...] = ()
    """Claims of the pod after the simulation."""

    why: str = ""
    """Reason for which the pod waits, in the scheduler's words."""

    new: bool = True
    """Whether the pod is from the manifests; else it waited in the cluster before."""

    victims: tuple[SchedulerPod, ...] = ()
    """Pods that would be preempted for it, the most important first."""

    violating: frozenset[Uid] = frozenset()
    """Victims whose eviction would violate a PodDisruptionBudget."""

    inside: str = ""
    """Reservation that the pod runs in."""

    reservation: str = ""
    """Reservation whose placeholder this pod is; such a pod belongs to no user."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The outcomes of all pods, and the cluster as it would be then."""

    fates: tuple[PodOutcome, ...]
    after: Snapshot
    unread: tuple[str, ...] = ()
    """Reservations of the cluster that cannot be placed, and why: any user may annotate a reservation that badly."""


def simulate_scheduling(snapshot: Snapshot, wishes: Manifests) -> SimulationResult:
    """Return what a scheduler would do; raise MalformedManifestError for a Reservation of the manifests."""
    return _SchedulingSimulation(snapshot, wishes).run()


class _SchedulingSimulation:
    def __init__(self, snapshot: Snapshot, wishes: Manifests) -> None:
        self._snapshot = _with_manifests(snapshot, wishes)
        self._cluster = ClusterCache(conditional=True, release=nearest_release(snapshot.server))
        self._chance = Random(TIE_BREAK_SEED)  # noqa: S311 - ties between nodes
        self._start = 0
        self._without_limit = snapshot.leader.presence is ControllerPresence.RUNNING
        self._new = {pod.metadata.uid for pod in wishes.pods}
        self._first = {each.metadata.name for each in wishes.reservations}
        self._fates: dict[Uid, PodOutcome] = {}
        self._evictions: dict[Uid, PreemptionCandidate] = {}
        self._pods: dict[Uid, SchedulerPod] = {pod.metadata.uid: pod for pod in self._snapshot.pods}
        self._generation = SimulatedClaimGeneration(self._snapshot, (*self._snapshot.templates, *wishes.templates))
        self._reserving: SimulatedReservations | None = None
        self._unread: list[str] = []
        for host in self._snapshot.nodes:
            self._cluster.update_node(host)
        for rule in self._snapshot.rules:
            self._cluster.inventory.observe_rule(rule)
        for each in self._snapshot.slices:
            self._cluster.inventory.observe(each)
        for found in self._snapshot.classes:
            self._cluster.update_class(found)
        for claim in self._snapshot.claims:
            self._cluster.claims.observe(claim)
        for pod in self._pods.values():
            if pod.spec.node_name and not pod.terminal:
                self._cluster.add_pod(pod, pod.spec.node_name)
        if self._snapshot.reservations:
            self._reserve(self._snapshot.reservations)
        self._order = tuple(self._pods)
        self._lowest = min((pod.spec.priority for pod in self._pods.values()), default=0)

    def _reserve(self, objects: Iterable[UnstructuredObject]) -> None:
        """Add reservations; each without a node gets a placeholder pod to be scheduled."""
        self._reserving = reserving = SimulatedReservations(self._snapshot, now=_to_timestamp(self._snapshot.taken))
        for each in objects:
            if (known := reserving.known(each.metadata.uid)) is not None:
                self._generation.observe_reservation(each.metadata.uid, known)
        there = {placeholders.reservation_uid_of(pod.metadata) for pod in self._pods.values()}
        for reservation in reserving.waiting():
            if Uid(reservation.metadata.uid) not in there:
                try:
                    pod = self._placeholder(reservation)
                except MalformedManifestError as error:
                    if reservation.metadata.name in self._first:
                        raise
                    self._unread.append(str(error))
                    continue
                self._pods[pod.metadata.uid] = pod

    def _placeholder(self, reservation: Reservation) -> SchedulerPod:
        try:
            content = placeholders.placeholder_manifest(reservation)
        except (MalformedAmountsError, MalformedAnnotationError) as error:
            raise MalformedManifestError(f"reservation {reservation.metadata.name}: {error}") from error
        content["metadata"] |= {
            "uid": f"simulated-{content['metadata']['name']}",
            "creationTimestamp": _PLACEHOLDER_CREATION_TIME,
        }
        pod = msgspec.convert(content, SchedulerPod)
        name = str(content["spec"].get("priorityClassName") or "")
        return with_priority(pod, name, self._snapshot.priorities, complete=False)

    def run(self) -> SimulationResult:
        if self._first:
            self._equip(lambda pod: pod.metadata.uid not in self._new)
            self._rounds([entry for entry in self._queue() if entry.pod.metadata.uid not in self._new])
        self._equip(lambda _: True)
        self._rounds(self._queue())
        return SimulationResult(
            tuple(self._fates[uid] for uid in self._order if uid in self._fates), self._after(), (*self._unread,)
        )

    def _equip(self, whom: Callable[[SchedulerPod], bool]) -> None:
        """Create the claims of new pods and of placeholders."""
        for uid, pod in tuple(self._pods.items()):
            made_here = uid in self._new or uid.startswith(_UID_PREFIX)
            if made_here and not pod.spec.node_name and whom(pod):
                self._pods[uid], claims = self._generation.equipped(pod)
                for claim in claims:
                    self._cluster.claims.observe(claim)

    def _rounds(self, waiting: list[QueuedPodInfo]) -> None:
        """Decide about waiting pods in rounds, until a round places no further pod."""
        while waiting:
            left = [entry for entry in waiting if not self._decided(entry)]
            if len(left) == len(waiting):
                return
            waiting = [
                QueuedPodInfo(PodRequests.from_pod(pod))
                for e in left
                if (pod := self._pods.get(e.pod.metadata.uid)) is not None
            ]

    def _queue(self) -> list[QueuedPodInfo]:
        """Return the pods that a scheduler would try, in the order of its queue."""
        found = [
            pod for pod in self._pods.values() if not (pod.spec.node_name or pod.terminal or pod.metadata.deleting)
        ]
        found.sort(key=self._turn)
        return [QueuedPodInfo(PodRequests.from_pod(pod)) for pod in found]

    def _turn(self, pod: SchedulerPod) -> tuple[int, bool, str]:
        return (-pod.spec.priority, pod.metadata.uid in self._new, pod.metadata.creation_timestamp)

    def _decided(self, entry: QueuedPodInfo) -> bool:
        """Decide about one pod, with preemption if needed; return whether the pod has been placed."""
        pod = entry.pod
        verdict = self._verdict(entry)
        if isinstance(verdict, Unschedulable) and pod.spec.priority > self._lowest:
            eviction = preempt(
                entry,
                self._cluster,
                pods=self._pods,
                budgets=self._snapshot.budgets,
                start_index=self._start,
                process_preemption=self._veto if self._reserving is not None else None,
            )
            if eviction is not None:
                self._evict(eviction)
                self._evictions[pod.metadata.uid] = eviction
                status = msgspec.structs.replace(pod.status, nominated_node_name=eviction.node)
                pod = self._pods[pod.metadata.uid] = msgspec.structs.replace(pod, status=status)
                verdict = self._verdict(QueuedPodInfo(PodRequests.from_pod(pod)))
        return self._settled(pod, verdict)

    def _veto(self, pod: SchedulerPod, found: Sequence[PreemptionCandidate]) -> Sequence[PreemptionCandidate]:
        return found if self._reserving is None else self._reserving.worthwhile(pod, found, pods=self._pods)

    def _verdict(self, entry: QueuedPodInfo) -> ScheduleResult:
        """Return the decision about one pod, after deallocating claims that no pod can use any more."""
        while True:
            verdict = decide(
                entry, self._cluster, start_index=self._start, random=self._chance, extender=self._reserving
            )
            if not isinstance(verdict, Deallocation):
                return verdict
            self._observe(verdict.claim, None, ())

    def _settled(self, pod: SchedulerPod, verdict: ScheduleResult) -> bool:
        """Record the outcome of a pod; return whether the pod has been placed."""
        uid = pod.metadata.uid
        fate = self._fate(pod)
        if not isinstance(verdict, NodeAssignment):
            waits = verdict.reason if isinstance(verdict, Pending) else verdict.message
            self._fates[uid] = replace(fate, why=waits)
            return False
        why = self._full(verdict, pod)
        inside = ""
        if not why:
            inside, why = self._admitted(pod, verdict.node)
        if why:
            self._fates[uid] = replace(fate, why=why)
            return False
        self._start += 1
        claims = self._held(verdict, pod) if fate.reservation else self._carried_out(verdict, pod)
        self._fates[uid] = replace(fate, node=verdict.node, claims=claims, inside=inside)
        return True

    def _fate(self, pod: SchedulerPod) -> PodOutcome:
        uid = pod.metadata.uid
        eviction = self._evictions.get(uid)
        name = ""
        if placeholders.reservation_uid_of(pod.metadata) is not None:
            name = pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_NAME) or pod.metadata.name
        return PodOutcome(
            pod,
            new=uid in self._new or name in self._first,
            victims=eviction.victims if eviction is not None else (),
            violating=eviction.pdb_violations if eviction is not None else frozenset(),
            reservation=name,
        )

    def _admitted(self, pod: SchedulerPod, node: str) -> tuple[str, str]:
        """Admit a pod to its node, or place its reservation; return the reservation that admits it, and why not."""
        if self._reserving is None:
            return "", ""
        uid = placeholders.reservation_uid_of(pod.metadata)
        if uid is None:
            return self._reserving.admit(pod, node)
        found = self._reserving.place(uid, node)
        if isinstance(found, str):
            return "", found
        self._generation.observe_reservation(uid, found)
        return "", ""

    def _evict(self, eviction: PreemptionCandidate) -> None:
        """Remove preempted pods, and deallocate claims that only they used."""
        for victim in eviction.victims:
            meta = victim.metadata
            self._cluster.remove_pod(meta.uid)
            del self._pods[meta.uid]
            self._generation.forget(victim)
            if self._reserving is not None:
                self._reserving.gone(victim)
            if meta.uid in self._fates:
                why = "preempted by a pod of higher priority"
                self._fates[meta.uid] = PodOutcome(victim, why=why, new=meta.uid in self._new)
            for name in claim_names(victim):
                claim = self._cluster.claims.get((meta.namespace, name))
                if claim is not None:
                    self._leave(claim, meta.uid)

    def _leave(self, claim: ResourceClaim, uid: Uid) -> None:
        """Remove a pod from the users of a claim."""
        left = [each for each in claim.entries if each.uid != uid]
        if claim.generated_for == uid:
            if not left:
                self._cluster.claims.forget(claim)
                return
            claim = _without_controller(claim)
        status = msgspec.structs.replace(
            claim.status, reserved_for=left, allocation=claim.status.allocation if left else None
        )
        self._written(msgspec.structs.replace(claim, status=status))

    def _held(self, placement: NodeAssignment, pod: SchedulerPod) -> tuple[ResourceClaim, ...]:
        """Record a reservation as placed: its placeholder is gone, and the reservation itself holds the claims."""
        uid = placeholders.reservation_uid_of(pod.metadata)
        entry = claim_holders.reserved_for_entry(
            pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_NAME) or "", uid or Uid("")
        )
        del self._pods[pod.metadata.uid]
        self._generation.forget(pod)
        if self._reserving is not None:
            self._reserving.gone(pod)
        return tuple(self._observe(_without_controller(claim), given, (entry,)) for claim, given in placement.claims)

    def _carried_out(self, placement: NodeAssignment, pod: SchedulerPod) -> tuple[ResourceClaim, ...]:
        entry = ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        spec = msgspec.structs.replace(pod.spec, node_name=placement.node)
        self._pods[pod.metadata.uid] = bound = placement.assigned_pod(msgspec.structs.replace(pod, spec=spec))
        self._cluster.add_pod(bound, placement.node)
        return tuple(self._observe(*each, (entry,)) for each in placement.claims)

    def _observe(
        self, claim: ResourceClaim, allocation: AllocationResult | None, more: tuple[ConsumerReference, ...]
    ) -> ResourceClaim:
        """Record a claim as written: allocated and listing the consumers of ``more``, or deallocated without them."""
        status = claim.status
        listed = [*claim.entries, *(each for each in more if each not in claim.entries)] if more else []
        given = (allocation or status.allocation) if more else None
        status = msgspec.structs.replace(status, allocation=given, reserved_for=listed)
        return self._written(msgspec.structs.replace(claim, status=status))

    def _written(self, claim: ResourceClaim) -> ResourceClaim:
        self._cluster.claims.observe(claim)
        self._generation.observe(claim)
        return claim

    def _full(self, placement: NodeAssignment, pod: SchedulerPod) -> str:
        """Return why the list of a claim has no room for the pod, where none of our controllers makes room."""
        if self._without_limit:
            return ""
        for claim, _ in placement.claims:
            entries = claim.entries
            listed = any(entry.uid == pod.metadata.uid for entry in entries)
            if len(entries) >= RESERVED_FOR_MAX_SIZE and not listed:
                return f"claim {claim.metadata.name} has {len(entries)} consumers, the maximum"
        return ""

    def _after(self) -> Snapshot:
        return msgspec.structs.replace(
            self._snapshot,
            claims=tuple(self._cluster.claims),
            pods=tuple(self._pods.values()),
            reservations=self._reserving.objects if self._reserving is not None else self._snapshot.reservations,
        )


def _without_controller(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim without its controller reference; all other owners stay."""
    owners = [each for each in claim.metadata.owner_references or () if not each.controller]
    return msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, owner_references=owners or None)
    )


def _to_timestamp(taken: str) -> float:
    return datetime.fromisoformat(taken).timestamp() if taken else 0.0


def _with_manifests(snapshot: Snapshot, wishes: Manifests) -> Snapshot:
    """Return the snapshot with the objects of the manifests added; existing objects stay as they are."""

    def joined(there: Sequence[object], more: Iterable[object]) -> tuple[object, ...]:
        known = {each.metadata.key for each in there}  # type: ignore[attr-defined]
        return (*there, *(each for each in more if each.metadata.key not in known))  # type: ignore[attr-defined]

    pods = [
        _without_own_gate(pod) if snapshot.leader.presence is ControllerPresence.RUNNING else pod
        for pod in snapshot.pods
    ]
    return msgspec.structs.replace(
        snapshot,
        claims=joined(snapshot.claims, wishes.claims),
        pods=joined(pods, wishes.pods),
        nodes=joined(snapshot.nodes, wishes.nodes),
        slices=joined(snapshot.slices, wishes.slices),
        classes=joined(snapshot.classes, wishes.classes),
        priorities=joined(snapshot.priorities, wishes.classes_of_priority),
        reservations=joined(
            snapshot.reservations or (), [_created_now(each, snapshot) for each in wishes.reservations]
        ),
    )


def _created_now(found: UnstructuredObject, snapshot: Snapshot) -> UnstructuredObject:
    """Return a reservation as created now, because its expiration counts from there."""
    metadata = {**found.content["metadata"], "creationTimestamp": snapshot.taken}
    return UnstructuredObject(
        metadata=msgspec.structs.replace(found.metadata, creation_timestamp=snapshot.taken),
        content={**found.content, "metadata": metadata},
    )


def _without_own_gate(pod: SchedulerPod) -> SchedulerPod:
    """Return the pod without our scheduling gate, because the running controller removes it."""
    if OWN_SCHEDULING_GATE not in pod.gates:
        return pod
    gates = [each for each in pod.spec.scheduling_gates or () if each.name != OWN_SCHEDULING_GATE]
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=gates or None))
