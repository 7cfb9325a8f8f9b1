"""Simulates a scheduler on a snapshot, pod by pod, with the decisions of `dra.engine.kube_scheduler`.

`scheduling_cycle.decide` decides; here each decision takes effect at once. Pods that wait in the cluster are in the
queue as well, before new pods of the same priority, as a scheduler would order them.

Preempted pods (`preemption`) are gone at once and are not replaced. Claims that only they used are deallocated, as the
claim controller does, and the preemptor gets their node.

Reservations of the manifests are scheduled before pods of the manifests: a user who writes both intends the pods to run
in the reservations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from random import Random
from typing import Final

import msgspec

from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.cli.kubectl.simulate.runtime_class_admission import RefusedRuntimeClassError, admitted
from dra.cli.kubectl.simulate.simulated_controllers import SimulatedClaimGeneration, SimulatedReservations
from dra.cli.kubectl.simulate.simulated_manifests import OWN_SCHEDULING_GATE, Manifests, with_priority
from dra.cli.kubectl.simulate.simulated_translation import RefusedPodError, SimulatedTranslation
from dra.cli.kubectl.simulate.unsimulated_fields import RUNTIME_CLASS, unsimulated_fields
from dra.engine.claims import claim_holders
from dra.engine.diagnosis.snapshot import ControllerPresence, Snapshot
from dra.engine.kube_scheduler.cluster_cache import ClusterCache
from dra.engine.kube_scheduler.node_info import PodRequests
from dra.engine.kube_scheduler.preemption import PreemptionCandidate, preempt
from dra.engine.kube_scheduler.schedule_results import (
    Deallocation,
    NodeAssignment,
    Pending,
    ScheduleResult,
    Unschedulable,
)
from dra.engine.kube_scheduler.scheduling_cycle import decide
from dra.engine.kube_scheduler.scheduling_queue import QueuedPodInfo
from dra.engine.reservations import placeholders
from dra.engine.scheduling.pod_repulsion import may_repel, repelling_pods
from dra.model.claims import RESERVED_FOR_MAX_SIZE, AllocationResult, ResourceClaim
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.meta import Key, Uid, UnstructuredObject
from dra.model.pods import claim_names
from dra.model.quantities import MalformedAmountsError
from dra.model.references import ConsumerReference
from dra.model.releases import Release, is_older, nearest_release
from dra.model.scheduling import SchedulerPod
from dra.model.workload_reservations import workload_reservation

_UID_PREFIX: Final = "simulated-"
_PLACEHOLDER_CREATION_TIME: Final = "9999-12-31T00:00:00Z"
"""Creation time of placeholder pods that the simulation adds: they queue after existing pods."""

TIE_BREAK_SEED: Final = 0
"""Seed for the choice among equally good nodes, so that the same question gets the same answer."""


NAMED_REPELLING_PODS: Final = 3
"""Maximum number of pods that are named because their anti-affinity may keep a pod away."""

NO_TIMESTAMP: Final = (
    "its allocation has no allocationTimestamp, so kube-scheduler cannot add pods to reservedFor: since Kubernetes "
    "1.36 it sets the time together with the entry, and an allocation cannot be changed; deallocate the claim"
)
"""Reason for which pods wait for a claim that an older scheduler has allocated, or another client."""


class Verdict(StrEnum):
    """The answer of the simulation about a pod."""

    SCHEDULED = "Scheduled"
    UNDECIDED = "Undecided"
    """The pod fits as far as the simulation goes, but has fields that the simulation does not read."""

    PENDING = "Pending"
    REFUSED = "Refused"
    """The API server would refuse the pod."""


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The outcome of the simulation for one pod."""

    pod: SchedulerPod
    node: str = ""
    """Node on which the pod counts in the simulation; of a pod that is undecided, one that it may get."""

    claims: tuple[ResourceClaim, ...] = ()
    """Claims of the pod after the simulation."""

    reason: str = ""
    """Reason for which the pod waits, in the scheduler's words."""

    is_from_manifests: bool = True
    """Whether the pod is from the manifests; else it waited in the cluster before."""

    victims: tuple[SchedulerPod, ...] = ()
    """Pods that would be preempted for it, the most important first."""

    pdb_violations: frozenset[Uid] = frozenset()
    """Victims whose eviction would violate a PodDisruptionBudget."""

    used_reservation: str = ""
    """Reservation that the pod runs in."""

    placeholder_for: str = ""
    """Reservation whose placeholder this pod is; such a pod belongs to no user."""

    translated: Mapping[str, str] = field(default_factory=dict)
    """Entries that the pod got for requests in Koordinator's form, each with the template of its claim."""

    is_refused: bool = False
    """Whether the API server would refuse the pod."""

    unsimulated: tuple[str, ...] = ()
    """Fields of the pod that may exclude nodes, and that the simulation does not read."""

    @property
    def verdict(self) -> Verdict:
        """Return what is said of the pod: never that it is scheduled if an unread field may prevent that."""
        if self.is_refused:
            return Verdict.REFUSED
        if not self.node:
            return Verdict.PENDING
        return Verdict.UNDECIDED if self.unsimulated else Verdict.SCHEDULED


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The outcomes of all pods, and the cluster as it would be then."""

    outcomes: tuple[PodOutcome, ...]
    final_snapshot: Snapshot
    unreadable_reservations: tuple[str, ...] = ()
    """Reservations of the cluster that cannot be placed, and why: any user may annotate a reservation that badly."""
    translation_notes: tuple[str, ...] = ()
    """What became of requests in Koordinator's form."""


def simulate_scheduling(snapshot: Snapshot, manifests: Manifests) -> SimulationResult:
    """Return what a scheduler would do; raise MalformedManifestError for a Reservation of the manifests."""
    return _SchedulingSimulation(snapshot, manifests).run()


class _SchedulingSimulation:
    def __init__(self, snapshot: Snapshot, manifests: Manifests) -> None:
        self._snapshot = _with_manifests(snapshot, manifests)
        self._cluster = ClusterCache(
            allow_binding_conditions=True,
            release=nearest_release(snapshot.server),
            serves_extended_resources=not is_older(snapshot.server, Release.V1_36),
        )
        self._adds_timestamps = not is_older(snapshot.server, Release.V1_36)
        self._random = Random(TIE_BREAK_SEED)  # noqa: S311 - ties between nodes
        self._next_start_node_index = 0
        self._without_limit = snapshot.leader.presence is ControllerPresence.RUNNING
        self._new_pods = {pod.metadata.uid for pod in manifests.pods}
        self._unsimulated = {
            pod.metadata.uid: manifests.unsimulated.get(pod.metadata.key, ()) for pod in manifests.pods
        }
        self._undecided: dict[str, tuple[str, ...]] = {}
        """Reservation that may get another node, or none → the fields for which that is so."""
        self._runtime_class_names = manifests.runtime_class_names
        self._runtime_classes = {
            known.metadata.name: known for known in (*(snapshot.runtime_classes or ()), *manifests.runtime_classes)
        }
        self._new_reservations = {reservation.metadata.name for reservation in manifests.reservations}
        self._outcomes: dict[Uid, PodOutcome] = {}
        self._evictions: dict[Uid, PreemptionCandidate] = {}
        self._generation = SimulatedClaimGeneration(self._snapshot, (*self._snapshot.templates, *manifests.templates))
        self._translation = SimulatedTranslation(self._snapshot)
        self._pods: dict[Uid, SchedulerPod] = {}
        self._pod_order: dict[Uid, None] = {}
        for pod in self._snapshot.pods:
            self._add_pod(pod, is_new=pod.metadata.uid in self._new_pods)
        self._snapshot = msgspec.structs.replace(self._snapshot, pods=tuple(self._pods.values()))
        self._repellers = repelling_pods(self._pods.values())
        self._repelling: dict[tuple[str, frozenset[tuple[str, str]]], list[Key]] = {}
        """Namespace and labels → some pods that keep a pod with these away."""
        self._reservations: SimulatedReservations | None = None
        self._unreadable_reservations: list[str] = []
        for host in self._snapshot.nodes:
            self._cluster.update_node(host)
        for rule in self._snapshot.rules:
            self._cluster.inventory.observe_rule(rule)
        for resource_slice in self._snapshot.slices:
            self._cluster.inventory.observe(resource_slice)
        for device_class in self._snapshot.classes:
            self._cluster.update_class(device_class)
        for claim in self._snapshot.claims:
            self._cluster.claims.observe(claim)
        for pod in self._pods.values():
            if pod.spec.node_name and not pod.terminal:
                self._cluster.add_pod(pod, pod.spec.node_name)
        if self._snapshot.reservations:
            self._add_reservations(self._snapshot.reservations)
        self._lowest_priority = min((pod.spec.priority for pod in self._pods.values()), default=0)

    def _add_pod(self, pod: SchedulerPod, *, is_new: bool) -> None:
        """Add a pod; a new one as the API server stores it, with the templates of its claims, unless it is refused."""
        uid = pod.metadata.uid
        self._pod_order[uid] = None
        if not is_new:
            self._pods[uid] = pod
            return
        try:
            self._pods[uid] = self._translation.translated(self._with_runtime_class(pod))
        except (RefusedPodError, RefusedRuntimeClassError) as error:
            self._outcomes[uid] = replace(self._new_outcome(pod), reason=f"refused: {error}", is_refused=True)
            return
        for template in self._translation.templates(pod.metadata.key):
            self._generation.observe_template(template)

    def _with_runtime_class(self, pod: SchedulerPod) -> SchedulerPod:
        """Return a new pod with what its RuntimeClass adds; raise RefusedRuntimeClassError."""
        name = self._runtime_class_names.get(pod.metadata.key, "")
        if name and name not in self._runtime_classes and self._snapshot.runtime_classes is None:
            self._unsimulated[pod.metadata.uid] = (*self._unsimulated[pod.metadata.uid], RUNTIME_CLASS)
            return pod
        return admitted(pod, name, self._runtime_classes) if name else pod

    def _add_reservations(self, objects: Iterable[UnstructuredObject]) -> None:
        """Add reservations; each without a node gets a placeholder pod to be scheduled."""
        self._reservations = reserving = SimulatedReservations(self._snapshot, now=_to_timestamp(self._snapshot.taken))
        for reservation_object in objects:
            if (known := reserving.reservation(reservation_object.metadata.uid)) is not None:
                self._generation.observe_reservation(reservation_object.metadata.uid, known)
        with_placeholder = {placeholders.reservation_uid_of(pod.metadata) for pod in self._pods.values()}
        for reservation in reserving.pending_reservations():
            if Uid(reservation.metadata.uid) not in with_placeholder:
                try:
                    pod = self._placeholder_pod(reservation)
                except MalformedManifestError as error:
                    if reservation.metadata.name in self._new_reservations:
                        raise
                    self._unreadable_reservations.append(str(error))
                    continue
                self._add_pod(pod, is_new=True)

    def _placeholder_pod(self, reservation: Reservation) -> SchedulerPod:
        try:
            content = placeholders.placeholder_manifest(reservation)
        except (MalformedAmountsError, MalformedAnnotationError) as error:
            raise MalformedManifestError(f"reservation {reservation.metadata.name}: {error}") from error
        content["metadata"] |= {
            "uid": f"simulated-{content['metadata']['name']}",
            "creationTimestamp": _PLACEHOLDER_CREATION_TIME,
        }
        pod = msgspec.convert(content, DiagnosedPod)
        self._unsimulated[pod.metadata.uid] = unsimulated_fields(content["spec"])
        name = str(content["spec"].get("priorityClassName") or "")
        return with_priority(pod, name, self._snapshot.priorities, complete=False)

    def run(self) -> SimulationResult:
        if self._new_reservations:
            self._create_claims(lambda pod: pod.metadata.uid not in self._new_pods)
            self._schedule_until_stuck(
                [entry for entry in self._queue() if entry.pod.metadata.uid not in self._new_pods]
            )
        self._create_claims(lambda _: True)
        self._schedule_until_stuck(self._queue())
        return SimulationResult(
            tuple(self._outcomes[uid] for uid in self._pod_order if uid in self._outcomes),
            self._final_snapshot(),
            (*self._unreadable_reservations,),
            (*self._translation.notes(),),
        )

    def _create_claims(self, selects: Callable[[SchedulerPod], bool]) -> None:
        """Create the claims of new pods and of placeholders."""
        for uid, pod in tuple(self._pods.items()):
            made_here = uid in self._new_pods or uid.startswith(_UID_PREFIX)
            if made_here and not pod.spec.node_name and selects(pod):
                self._pods[uid], claims = self._generation.create_claims(pod)
                for claim in claims:
                    self._cluster.claims.observe(claim)

    def _schedule_until_stuck(self, waiting: list[QueuedPodInfo]) -> None:
        """Decide about waiting pods in rounds, until a round places no further pod."""
        while waiting:
            left = [entry for entry in waiting if not self._schedule_one(entry)]
            if len(left) == len(waiting):
                return
            waiting = [
                QueuedPodInfo(PodRequests.from_pod(pod))
                for e in left
                if (pod := self._pods.get(e.pod.metadata.uid)) is not None
            ]

    def _queue(self) -> list[QueuedPodInfo]:
        """Return the pods that a scheduler would try, in the order of its queue."""
        pods = [pod for pod in self._pods.values() if not (pod.spec.node_name or pod.terminal or pod.metadata.deleting)]
        pods.sort(key=self._queue_sort_key)
        return [QueuedPodInfo(PodRequests.from_pod(pod)) for pod in pods]

    def _queue_sort_key(self, pod: SchedulerPod) -> tuple[int, bool, str]:
        return (-pod.spec.priority, pod.metadata.uid in self._new_pods, pod.metadata.creation_timestamp)

    def _schedule_one(self, entry: QueuedPodInfo) -> bool:
        """Decide about one pod, with preemption if needed; return whether the pod has been placed."""
        pod = entry.pod
        result = self._schedule(entry)
        if isinstance(result, Unschedulable) and pod.spec.priority > self._lowest_priority:
            eviction = preempt(
                entry,
                self._cluster,
                pods=self._pods,
                budgets=self._snapshot.budgets,
                start_index=self._next_start_node_index,
                process_preemption=self._process_preemption if self._reservations is not None else None,
            )
            if eviction is not None:
                self._evict(eviction)
                self._evictions[pod.metadata.uid] = eviction
                status = msgspec.structs.replace(pod.status, nominated_node_name=eviction.node)
                pod = self._pods[pod.metadata.uid] = msgspec.structs.replace(pod, status=status)
                result = self._schedule(QueuedPodInfo(PodRequests.from_pod(pod)))
        return self._record_result(pod, result)

    def _process_preemption(
        self, pod: SchedulerPod, candidates: Sequence[PreemptionCandidate]
    ) -> Sequence[PreemptionCandidate]:
        return (
            candidates
            if self._reservations is None
            else self._reservations.process_preemption(pod, candidates, pods=self._pods)
        )

    def _schedule(self, entry: QueuedPodInfo) -> ScheduleResult:
        """Return the decision about one pod, after deallocating claims that no pod can use any more."""
        while True:
            result = decide(
                entry,
                self._cluster,
                start_index=self._next_start_node_index,
                chance=self._random,
                extender=self._reservations,
            )
            if not isinstance(result, Deallocation):
                return result
            self._write_status(result.claim, None, ())

    def _record_result(self, pod: SchedulerPod, result: ScheduleResult) -> bool:
        """Record the outcome of a pod; return whether the pod has been placed."""
        uid = pod.metadata.uid
        outcome = self._new_outcome(pod)
        if not isinstance(result, NodeAssignment):
            waits = result.reason if isinstance(result, Pending) else result.message
            self._outcomes[uid] = replace(outcome, reason=waits)
            return False
        why = self._unlistable_text(result, pod)
        inside = ""
        if not why:
            inside, why = self._admit(pod, result.node)
        if why:
            self._outcomes[uid] = replace(outcome, reason=why)
            return False
        self._next_start_node_index += 1
        if uid not in self._unsimulated:  # a pod of the cluster
            outcome = replace(outcome, unsimulated=unsimulated_fields(msgspec.to_builtins(pod.spec)))
        claims = self._bind_reservation(result, pod) if outcome.placeholder_for else self._bind_pod(result, pod)
        if outcome.placeholder_for and outcome.unsimulated:
            name = outcome.placeholder_for
            self._undecided[name] = tuple(f"{field} of reservation {name}" for field in outcome.unsimulated)
        self._outcomes[uid] = replace(
            outcome,
            node=result.node,
            claims=claims,
            used_reservation=inside,
            unsimulated=(*outcome.unsimulated, *self._undecided.get(inside, ()), *self._repulsions(pod)),
        )
        return True

    def _repulsions(self, pod: SchedulerPod) -> Iterator[str]:
        """Yield the anti-affinities of a few other pods that may keep a pod from its node."""
        meta = pod.metadata
        labels = frozenset((meta.labels or {}).items())
        repelling = self._repelling.get((meta.namespace, labels))
        if repelling is None:
            matches = (
                other.metadata.key
                for other in self._repellers
                if may_repel(other, namespace=meta.namespace, labels=meta.labels or {})
            )
            repelling = self._repelling[meta.namespace, labels] = [*islice(matches, NAMED_REPELLING_PODS + 1)]
        others = (key for key in repelling if key != meta.key)
        yield from (f"podAntiAffinity of pod {'/'.join(key)}" for key in islice(others, NAMED_REPELLING_PODS))

    def _new_outcome(self, pod: SchedulerPod) -> PodOutcome:
        uid = pod.metadata.uid
        eviction = self._evictions.get(uid)
        name = ""
        if placeholders.reservation_uid_of(pod.metadata) is not None:
            name = pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_NAME) or pod.metadata.name
        return PodOutcome(
            pod,
            is_from_manifests=uid in self._new_pods or name in self._new_reservations,
            victims=eviction.victims if eviction is not None else (),
            pdb_violations=eviction.pdb_violations if eviction is not None else frozenset(),
            placeholder_for=name,
            translated=self._translation.entries(pod.metadata.key),
            unsimulated=self._unsimulated.get(uid, ()),
        )

    def _admit(self, pod: SchedulerPod, node: str) -> tuple[str, str]:
        """Admit a pod to its node, or place its reservation; return the reservation that admits it, and why not."""
        if self._reservations is None:
            return "", ""
        uid = placeholders.reservation_uid_of(pod.metadata)
        if uid is None:
            return self._reservations.bind_pod(pod, node)
        reservation = self._reservations.bind_reservation(uid, node)
        if isinstance(reservation, str):
            return "", reservation
        self._generation.observe_reservation(uid, reservation)
        return "", ""

    def _evict(self, eviction: PreemptionCandidate) -> None:
        """Remove preempted pods, and deallocate claims that only they used."""
        for victim in eviction.victims:
            meta = victim.metadata
            self._cluster.remove_pod(meta.uid)
            del self._pods[meta.uid]
            self._generation.forget(victim)
            if self._reservations is not None:
                self._reservations.forget_pod(victim)
            if meta.uid in self._outcomes:
                why = "preempted by a pod of higher priority"
                self._outcomes[meta.uid] = PodOutcome(victim, reason=why, is_from_manifests=meta.uid in self._new_pods)
            for name in claim_names(victim):
                claim = self._cluster.claims.get((meta.namespace, name))
                if claim is not None:
                    self._remove_consumer(claim, meta.uid)

    def _remove_consumer(self, claim: ResourceClaim, uid: Uid) -> None:
        """Remove a pod from the users of a claim."""
        remaining = [entry for entry in claim.entries if entry.uid != uid]
        if claim.generated_for == uid:
            if not remaining:
                self._cluster.claims.forget(claim)
                return
            claim = _without_controller(claim)
        status = msgspec.structs.replace(
            claim.status, reserved_for=remaining, allocation=claim.status.allocation if remaining else None
        )
        self._observe_claim(msgspec.structs.replace(claim, status=status))

    def _bind_reservation(self, placement: NodeAssignment, pod: SchedulerPod) -> tuple[ResourceClaim, ...]:
        """Record a reservation as placed: its placeholder is gone, and the reservation itself holds the claims."""
        uid = placeholders.reservation_uid_of(pod.metadata)
        entry = claim_holders.reserved_for_entry(
            pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_NAME) or "", uid or Uid("")
        )
        del self._pods[pod.metadata.uid]
        self._generation.forget(pod)
        if self._reservations is not None:
            self._reservations.forget_pod(pod)
        return tuple(
            self._write_status(_without_controller(claim), given, (entry,)) for claim, given in placement.claims
        )

    def _bind_pod(self, placement: NodeAssignment, pod: SchedulerPod) -> tuple[ResourceClaim, ...]:
        entry = ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        spec = msgspec.structs.replace(pod.spec, node_name=placement.node)
        self._pods[pod.metadata.uid] = bound = placement.assigned_pod(msgspec.structs.replace(pod, spec=spec))
        self._cluster.add_pod(bound, placement.node)
        return tuple(self._write_status(*allocated, (entry,)) for allocated in placement.claims)

    def _write_status(
        self, claim: ResourceClaim, allocation: AllocationResult | None, consumers: tuple[ConsumerReference, ...]
    ) -> ResourceClaim:
        """Record a claim as written: allocated and listing the consumers of ``more``, or deallocated without them."""
        status = claim.status
        if allocation is not None:
            allocation = msgspec.structs.replace(allocation, allocation_timestamp=self._snapshot.taken)
        listed = (
            [*claim.entries, *(consumer for consumer in consumers if consumer not in claim.entries)]
            if consumers
            else []
        )
        given = (allocation or status.allocation) if consumers else None
        status = msgspec.structs.replace(status, allocation=given, reserved_for=listed)
        return self._observe_claim(msgspec.structs.replace(claim, status=status))

    def _observe_claim(self, claim: ResourceClaim) -> ResourceClaim:
        self._cluster.claims.observe(claim)
        self._generation.observe(claim)
        return claim

    def _unlistable_text(self, placement: NodeAssignment, pod: SchedulerPod) -> str:
        """Return why kube-scheduler cannot list the pod in a claim, where none of our controllers lists it."""
        for claim, _ in placement.claims:
            entries, allocation = claim.entries, claim.status.allocation
            if any(entry.uid == pod.metadata.uid for entry in entries):
                continue
            if len(entries) >= RESERVED_FOR_MAX_SIZE and not self._without_limit:
                return f"claim {claim.metadata.name} has {len(entries)} consumers, the maximum"
            is_listed_by_us = self._without_limit and workload_reservation(claim) is not None
            is_without_time = allocation is not None and allocation.allocation_timestamp is None
            if self._adds_timestamps and is_without_time and not is_listed_by_us:
                return f"claim {claim.metadata.name}: {NO_TIMESTAMP}"
        return ""

    def _final_snapshot(self) -> Snapshot:
        return msgspec.structs.replace(
            self._snapshot,
            claims=tuple(self._cluster.claims),
            pods=tuple(self._pods.values()),
            reservations=self._reservations.objects if self._reservations is not None else self._snapshot.reservations,
        )


def _without_controller(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim without its controller reference; all other owners stay."""
    owners = [owner for owner in claim.metadata.owner_references or () if not owner.controller]
    return msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, owner_references=owners or None)
    )


def _to_timestamp(taken: str) -> float:
    return datetime.fromisoformat(taken).timestamp() if taken else 0.0


def _with_manifests(snapshot: Snapshot, manifests: Manifests) -> Snapshot:
    """Return the snapshot with the objects of the manifests added; `apply_manifests` has changed existing ones."""

    def joined(there: Sequence[object], more: Iterable[object]) -> tuple[object, ...]:
        known = {item.metadata.key for item in there}  # type: ignore[attr-defined]
        return (*there, *(item for item in more if item.metadata.key not in known))  # type: ignore[attr-defined]

    pods = [
        _without_own_gate(pod) if snapshot.leader.presence is ControllerPresence.RUNNING else pod
        for pod in snapshot.pods
    ]
    return msgspec.structs.replace(
        snapshot,
        claims=joined(snapshot.claims, manifests.claims),
        pods=joined(pods, manifests.pods),
        nodes=joined(snapshot.nodes, manifests.nodes),
        slices=joined(snapshot.slices, manifests.slices),
        classes=joined(snapshot.classes, manifests.classes),
        enabled_namespaces={**snapshot.enabled_namespaces, **dict.fromkeys(manifests.enabled_namespaces, True)},
        priorities=joined(snapshot.priorities, manifests.priority_classes),
        reservations=joined(
            snapshot.reservations or (), [_created_now(reservation, snapshot) for reservation in manifests.reservations]
        ),
    )


def _created_now(reservation: UnstructuredObject, snapshot: Snapshot) -> UnstructuredObject:
    """Return a reservation as created now, because its expiration counts from there."""
    metadata = {**reservation.content["metadata"], "creationTimestamp": snapshot.taken}
    return UnstructuredObject(
        metadata=msgspec.structs.replace(reservation.metadata, creation_timestamp=snapshot.taken),
        content={**reservation.content, "metadata": metadata},
    )


def _without_own_gate(pod: SchedulerPod) -> SchedulerPod:
    """Return the pod without our scheduling gate, because the running controller removes it."""
    if OWN_SCHEDULING_GATE not in pod.gates:
        return pod
    gates = [gate for gate in pod.spec.scheduling_gates or () if gate.name != OWN_SCHEDULING_GATE]
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=gates or None))
