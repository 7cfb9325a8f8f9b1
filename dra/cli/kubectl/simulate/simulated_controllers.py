"""Simulates the controllers that act before a scheduler: claims from templates, and Reservations.

Each decision takes effect at once. `dra.engine.claims.generation.decide` decides about claims, as in the controller.
The scheduler extender's functions decide about Reservations, on the extender's cache: a placed reservation holds its
capacity, an admitted pod becomes a current owner, and a reservation with allocateOnce then succeeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dra.api.koordinator.well_known import KOORDINATOR, LABEL_MADE_FROM
from dra.api.object_fields import to_document
from dra.api.reservations import well_known
from dra.api.reservations.model import MalformedReservationError, Reservation, ReservationStatus
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.claims import claim_holders
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.generation import manifests
from dra.engine.claims.generation.decide import CreateClaim, HandOverClaim, decide
from dra.engine.diagnosis.cluster_state import SNAPSHOT_INSTANT
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.instants import WallTime
from dra.engine.kube_scheduler.preemption import PreemptionCandidate
from dra.engine.reservations import phases, statuses
from dra.engine.reservations.accounting import AssumedPod
from dra.engine.reservations.phases import TERMINAL_PHASES
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.reservation_placement import ReservationPlacement
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.scheduling import verbs
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.claims import POD_CLAIM_NAME, ResourceClaim
from dra.model.meta import Key, Uid, UnstructuredObject
from dra.model.pods import PodResourceClaimStatus
from dra.model.quantities import MalformedAmountsError
from dra.model.scheduling import SchedulerPod
from dra.model.templates import ResourceClaimTemplate

_FIRST_SIMULATED_VERSION: Final = 2**62
"""First resourceVersion of simulated writes, later than any of an API server."""


class SimulatedClaimGeneration:
    """Creates claims for simulated pods, and hands over the claims of reservations."""

    def __init__(self, snapshot: Snapshot, templates: Iterable[ResourceClaimTemplate]) -> None:
        self._version = _FIRST_SIMULATED_VERSION
        self._claim_cache = ClaimCache()
        self._claim_cache.watch_reservations()
        self._templates: dict[Key, ResourceClaimTemplate] = {}
        for template in templates:
            self._add_template(template)
        held = [claim for claim in snapshot.claims if claim_holders.owner_reservations(claim)]
        users = {entry.uid for claim in held for entry in claim.entries}
        users |= {claim.controller.uid for claim in held if claim.controller is not None}
        for pod in snapshot.pods:
            if pod.metadata.uid in users:
                self._claim_cache.observe_pod(pod, now=SNAPSHOT_INSTANT)
        for claim in held:
            self.observe(claim)

    def observe_template(self, template: ResourceClaimTemplate) -> None:
        """Add a template to the cache, unless a user has written a template of that name."""
        key = template.metadata.key
        there = self._templates.get(key)
        if there is None or (there.metadata.labels or {}).get(LABEL_MADE_FROM) == KOORDINATOR:
            self._add_template(template)

    def _add_template(self, template: ResourceClaimTemplate) -> None:
        self._templates[template.metadata.key] = template
        self._claim_cache.owners.observe_template(template)

    def observe_reservation(self, uid: Uid, reservation: Reservation) -> None:
        """Add a reservation to the cache."""
        self._claim_cache.observe_reservation(uid, reservation)

    def observe(self, claim: ResourceClaim) -> None:
        """Add a claim to the cache if a reservation holds it; other claims do not matter here."""
        if claim_holders.owner_reservations(claim):
            self._observe_next_version(claim)

    def _observe_next_version(self, claim: ResourceClaim) -> None:
        """Update a claim in the cache with a new version number, because no API server assigns one in a simulation."""
        self._version += 1
        metadata = msgspec.structs.replace(claim.metadata, resource_version=str(self._version))
        self._claim_cache.observe_claim(msgspec.structs.replace(claim, metadata=metadata), now=SNAPSHOT_INSTANT)

    def forget(self, pod: SchedulerPod) -> None:
        """Remove a pod from the cache."""
        self._claim_cache.forget_pod(pod.metadata.uid)

    def create_claims(self, pod: SchedulerPod) -> tuple[SchedulerPod, tuple[ResourceClaim, ...]]:
        """Return a pod with its claims named, and the claims that were created or handed over for the pod."""
        uid = pod.metadata.uid
        self._claim_cache.observe_pod(pod, now=SNAPSHOT_INSTANT)
        view = self._claim_cache.owner_view(uid)
        if view is None:
            return pod, ()
        plan = decide(view)
        made = {creation.entry: _created_claim(creation) for creation in plan.create}
        made |= {hand_over.entry: _handed_over_claim(hand_over) for hand_over in plan.hand_over}
        if not made:
            return pod, ()
        for claim in made.values():
            self._observe_next_version(claim)
        new_statuses = [PodResourceClaimStatus(name=n, resource_claim_name=c.metadata.name) for n, c in made.items()]
        known = [
            claim_status for claim_status in pod.status.resource_claim_statuses or () if claim_status.name not in made
        ]
        status = msgspec.structs.replace(pod.status, resource_claim_statuses=[*known, *new_statuses])
        return msgspec.structs.replace(pod, status=status), tuple(made.values())


def _created_claim(action: CreateClaim) -> ResourceClaim:
    content = manifests.claim_manifest(action)
    (namespace, pod), entry = action.owner.key, action.entry
    content["metadata"] |= {
        "name": f"{pod}-{entry}-simulated",
        "namespace": namespace,
        "uid": f"simulated-claim-{namespace}-{pod}-{entry}",
        "resourceVersion": "1",
    }
    return msgspec.convert(content, ResourceClaim)


def _handed_over_claim(action: HandOverClaim) -> ResourceClaim:
    write = manifests.hand_over_write(action)
    claim = action.held.claim
    annotations = {**(claim.metadata.annotations or {}), POD_CLAIM_NAME: action.entry}
    owners = list(write.owners) if write.owners is not None else claim.metadata.owner_references
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations, owner_references=owners)
    return msgspec.structs.replace(claim, metadata=metadata)


class SimulatedReservations:
    """The reservations of a simulation, with the extender's interface for the scheduler."""

    def __init__(self, snapshot: Snapshot, *, now: WallTime) -> None:
        self._now = now
        self._cache = SchedulerCache()
        self._objects: dict[Uid, UnstructuredObject] = {}
        for node in snapshot.nodes:
            self._cache.observe_node(node)
        for budget in snapshot.budgets:
            self._cache.observe_budget(budget)
        self._cache.budgets_listed()
        for reservation in snapshot.reservations or ():
            self._objects[reservation.metadata.uid] = reservation
            self._cache.observe_reservation(reservation)
        for pod in snapshot.pods:
            if not pod.terminal:
                self._cache.observe_pod(pod)

    @property
    def objects(self) -> tuple[UnstructuredObject, ...]:
        """All Reservation objects, as they are now."""
        return tuple(self._objects.values())

    def reservation(self, uid: Uid) -> Reservation | None:
        """Return a reservation by uid; None if it is absent or unreadable."""
        info = self._cache.reservation(uid)
        return info.reservation if info is not None else None

    def pending_reservations(self) -> tuple[Reservation, ...]:
        """Return the reservations that have no node yet and may still get one."""
        reservations = (self.reservation(uid) for uid in self._objects)
        return tuple(
            reservation
            for reservation in reservations
            if reservation is not None
            and not reservation.status.node_name
            and reservation.status.phase not in TERMINAL_PHASES
            and reservation.metadata.deletion_timestamp is None
            and phases.expiration_time(reservation) > self._now
        )

    # Calls of the scheduler:

    def filter(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, str]:
        """Return the nodes on which the pod cannot run, each with the reason."""
        result = verbs.filter_nodes(self._cache, pod, nodes)
        return {**result.failed_nodes, **result.failed_and_unresolvable_nodes}

    def prioritize(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, int]:
        """Return the scores of nodes."""
        return {priority.host: priority.score for priority in verbs.prioritize_nodes(self._cache, pod, nodes)}

    def process_preemption(
        self, pod: SchedulerPod, evictions: Sequence[PreemptionCandidate], *, pods: Mapping[Uid, SchedulerPod]
    ) -> Sequence[PreemptionCandidate]:
        """Return the evictions after which the pod could run, with their victims: no pod is evicted in vain."""
        chosen = {
            candidate.node: frozenset(victim.metadata.uid for victim in candidate.victims) for candidate in evictions
        }
        others = verbs.reconsider_victims(self._cache, pod, chosen)
        return [
            candidate
            if (new := others[candidate.node]) is None
            else PreemptionCandidate(candidate.node, tuple(pods[uid] for uid in new.uids), new.pdb_violations)
            for candidate in evictions
            if candidate.node in others
        ]

    # Effects of the scheduler's decisions:

    def forget_pod(self, pod: SchedulerPod) -> None:
        """Remove a pod that has ended from the cache, and from the reservation that it used."""
        assignment = self._cache.accounting.assignment(pod.metadata.uid)
        self._cache.forget_pod(pod)
        if assignment is not None and assignment.reservation is not None:
            self._sync_status(assignment.reservation)

    def bind_reservation(self, uid: Uid, node: str) -> Reservation | str:
        """Place a reservation on a node; return the reservation as it is then, or why it cannot be placed."""
        known = self._cache.reservation(uid)
        if known is None:
            return "its Reservation was deleted"
        if known.info.parse_error:
            return f"reservation {known.name}: {known.info.parse_error}"
        placement = self._cache.accounting.assume_reservation(known.info, node)
        if not isinstance(placement, ReservationPlacement):
            return ", ".join(rejection.text for rejection in placement)
        held = self._cache.accounting.reservation(uid)
        over = ",".join(sorted(held.pre_allocated_pods)) if held is not None else ""
        try:
            inside = [AssignedPod.from_pod_info(pod) for pod in self._cache.accounting.owner_pods(uid)]
            status = statuses.bound_status(known.reservation, node=node, now=self._now, pre_allocated_pods=inside)
        except (MalformedAmountsError, MalformedAnnotationError) as error:
            return f"reservation {known.name}: {error}"
        if status is None:
            return f"reservation {known.name}: has ended"
        return self._write_status(uid, status, annotations={well_known.ANNOTATION_PLACED_OVER: over} if over else {})

    def bind_pod(self, pod: SchedulerPod, node: str) -> tuple[str, str]:
        """Admit a pod to a node; return the name of its reservation, and why the pod cannot be admitted."""
        try:
            pod_info = self._cache.pod_info(pod, node=node)
        except MalformedAnnotationError as error:
            return "", str(error)
        admission = self._cache.accounting.assume_pod(pod_info, node)
        if not isinstance(admission, AssumedPod):
            return "", ", ".join(rejection.text for rejection in admission)
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        name = ""
        if admission.reservation is not None:
            name = self._add_owner(admission.reservation, pod_info)
        self._cache.observe_pod(bound)
        return name, ""

    def _add_owner(self, uid: Uid, pod: PodInfo) -> str:
        reservation = self.reservation(uid)
        if reservation is None:
            return ""
        named = statuses.status_with_owner(reservation, AssignedPod.from_pod_info(pod))
        if named is not None:
            self._write_status(uid, named)
        self._sync_status(uid)
        return reservation.metadata.name

    def _sync_status(self, uid: Uid) -> None:
        """Update the current owners of a reservation; a reservation with allocateOnce then succeeds."""
        reservation = self.reservation(uid)
        if reservation is None:
            return
        inside = [AssignedPod.from_pod_info(owner_pod) for owner_pod in self._cache.accounting.owner_pods(uid)]
        synced = statuses.synced_status(reservation, inside, now=self._now)
        if synced is not None:
            self._write_status(uid, synced)

    def _write_status(
        self, uid: Uid, status: ReservationStatus, *, annotations: Mapping[str, str] | None = None
    ) -> Reservation:
        obj = self._objects[uid]
        merged = {**(obj.metadata.annotations or {}), **(annotations or {})}
        # Each write has its own version, as on an API server: the cache reads each version once.
        version = _next_version(obj.metadata.resource_version)
        metadata = msgspec.structs.replace(obj.metadata, annotations=merged, resource_version=version)
        raw_metadata = {**obj.content["metadata"], "annotations": merged, "resourceVersion": version}
        content = {**obj.content, "metadata": raw_metadata, "status": to_document(status)}
        self._objects[uid] = written = UnstructuredObject(metadata=metadata, content=content)
        self._cache.observe_reservation(written)
        reservation = self.reservation(uid)
        if reservation is None:
            raise MalformedReservationError(f"reservation {metadata.name}: can no longer be read")
        return reservation


def _next_version(version: str) -> str:
    """Return the next resourceVersion; a version that is no decimal number is followed by 1."""
    return str(int(version) + 1) if version.isdecimal() else "1"
