"""The controller's cache of reservations and their pods, and of what live reads of pods have shown.

In mode yielding the cache holds all pending pods as well: candidates for reservations are found among them.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

import msgspec

from dra.api.configuration import PlaceholderMode
from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation, ReservationPhase
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.instants import BIND_HORIZON, NEVER, Instant, WallTime
from dra.engine.reservations import (
    lifecycle,
    owner_matching,
    placeholder_handover,
    placeholders,
    pod_claims,
    statuses,
)
from dra.engine.reservations.missing_claims import MissingClaims
from dra.engine.reservations.pending_pods import PendingPods
from dra.engine.reservations.phases import TERMINAL_PHASES
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.reservations.view import ReservationView
from dra.model import annotations
from dra.model.deleted_uids import DeletedUids
from dra.model.meta import Key, Struct, Uid
from dra.model.nodes import Node
from dra.model.pods import claim_names
from dra.model.resource_versions import is_older
from dra.model.scheduling import SchedulerPod

BINDING_TIMEOUT: Final = BIND_HORIZON
"""Seconds for which an unbound pod that a status names may still be bound."""


BINDING_EXPECTED: Final = 5.0
"""Seconds for which the watch is expected to show a pod that a status names as bound, before it is read live: a binding
takes less, and reading each owner pod would cost one request for each.
"""

BACKOFF_AFTER_UNUSED: Final = 300.0
"""Seconds for which a pod that did not use its capacity is admitted by no reservation: other pods may want it."""


def is_reservation_pod(pod: SchedulerPod) -> bool:
    """Return whether the cache keeps a pod: a placeholder or a pod in a reservation. Other pods cost no memory."""
    return (
        pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED) is not None
        or placeholders.reservation_uid_of(pod.metadata) is not None
    )


def is_reservation_or_pending_pod(pod: SchedulerPod) -> bool:
    """Return whether the cache keeps a pod in mode yielding: a pod of a reservation, or any pending pod."""
    return (not pod.spec.node_name and not pod.terminal) or is_reservation_pod(pod)


class _UnboundPod(Struct, frozen=True):
    pod: AssignedPod
    until: Instant
    """Time of the next live read, computed once for both the queue and the decision: two sums that ought to be equal
    differ by a rounding, and a reservation that is due before its pod would be reconciled again and again at the same
    instant.
    """


class ReservationCache:
    """The cache of reservations by uid, and of pods by the reservation that their annotation names."""

    def __init__(
        self,
        *,
        placeholder_mode: PlaceholderMode = PlaceholderMode.REPLACED,
        claims: Container[Key] = frozenset(),
    ) -> None:
        """Create the cache; ``claims`` are the existing claims: without them, no pod with claims is admitted."""
        self.changed: set[Uid] = set()
        """Reservations to reconcile at once."""
        self.owners_changed: set[Uid] = set()
        """Reservations whose owner pods have come or gone: they can wait for further changes."""
        self.placeholder_mode = placeholder_mode
        self.pending_pods = PendingPods()
        self._missing_claims = MissingClaims(claims)
        self._shortages: dict[Uid, WallTime] = {}
        self._backoffs: dict[Uid, Instant] = {}
        self._reservations: dict[Uid, Reservation] = {}
        self._versions: dict[Uid, str] = {}
        self._pods: dict[Uid, SchedulerPod] = {}
        self._pods_by_reservation: dict[Uid, dict[Uid, None]] = {}
        self._placeholders: dict[Uid, dict[Uid, SchedulerPod]] = {}
        self._unbound: dict[Uid, dict[Uid, _UnboundPod]] = {}
        self._named_since: dict[Uid, dict[Uid, Instant]] = {}
        """Reservation → since when its status has named each pod."""
        self._ended_pods: dict[Uid, set[Uid]] = {}
        self._never_bound: dict[Uid, set[Uid]] = {}
        self._create_errors: dict[Uid, str] = {}
        self._create_retries: dict[Uid, Instant] = {}
        """Reservation → when its refused placeholder is created again."""
        self._deleted = DeletedUids()
        """Deleted pods."""

    def observe(self, uid: Uid, version: str, reservation: Reservation, *, now: Instant) -> Reservation | None:
        """Add or update a reservation; return the version cached before.

        An older version than the cached one is ignored; then the argument itself is returned.
        """
        before = self._reservations.get(uid)
        if is_older(version, self._versions.get(uid, "")):
            return reservation
        self._reservations[uid], self._versions[uid] = reservation, version
        if before is not None and before.spec != reservation.spec:
            self._create_retries.pop(uid, None)  # a person may have corrected what was refused
        listed = {Uid(each.uid) for each in reservation.status.current_owners}
        for memory in (self._ended_pods, self._never_bound):
            if uid in memory:
                memory[uid] &= listed
        named = self._named_since.get(uid, {})
        self._named_since[uid] = {each: named.get(each, now) for each in listed}
        self.changed.add(uid)
        if self.placeholder_mode is PlaceholderMode.YIELDING:
            self.changed |= self.pending_pods.observe_reservation(uid, reservation)
        return before

    def forget(self, uid: Uid) -> None:
        """Forget a deleted reservation and what was recorded about it."""
        for memory in (
            self._reservations,
            self._versions,
            self._unbound,
            self._named_since,
            self._ended_pods,
            self._never_bound,
            self._create_errors,
            self._create_retries,
            self._shortages,
        ):
            memory.pop(uid, None)
        self.changed |= {uid} | self.pending_pods.forget_reservation(uid)

    def get(self, uid: Uid) -> tuple[Reservation, str] | None:
        """Return a reservation and its resourceVersion."""
        found = self._reservations.get(uid)
        return None if found is None else (found, self._versions[uid])

    def uids(self) -> Iterable[Uid]:
        """Return the uids of all reservations."""
        return tuple(self._reservations)

    def observe_pod(self, pod: SchedulerPod) -> None:
        """Add or update a pod; ignore a version older than the cached one, and any version of a deleted pod.

        The response to a write may come later than the watch events of the changes after that write.
        """
        uid, reservation = pod.metadata.uid, placeholders.reservation_uid_of(pod.metadata)
        known = (self._pods if reservation is None else self._placeholders.get(reservation, {})).get(uid)
        if uid in self._deleted:
            return
        if known is not None and is_older(pod.metadata.resource_version, known.metadata.resource_version):
            return
        annotations.trim_annotations(
            pod.metadata,
            keep=well_known.RETAINED_POD_ANNOTATIONS,
            value_max_characters=well_known.MAX_ANNOTATION_LENGTH,
        )
        if reservation is not None:
            self._placeholders.setdefault(reservation, {})[uid] = pod
            self._create_errors.pop(reservation, None)
            self._create_retries.pop(reservation, None)
            self.changed.add(reservation)
            return
        if self.placeholder_mode is PlaceholderMode.YIELDING:
            self.changed |= self.pending_pods.observe(pod)
        self._drop_live_read(uid, pod)
        self._pods[uid] = pod
        for allocated in {_allocated_reservation(each) for each in (known, pod) if each is not None}:
            if allocated:
                self._pods_by_reservation.setdefault(allocated, {})[uid] = None
                self._never_bound.get(allocated, set()).discard(uid)
                self._mark_owners_changed(allocated)

    def without_node(self, nodes: Mapping[Key, object]) -> tuple[Uid, ...]:
        """Return the reservations whose node is not among the given nodes."""
        placed = ((uid, each.status.node_name) for uid, each in self._reservations.items())
        return tuple(uid for uid, node in placed if node and ("", node) not in nodes)

    def forget_pod(self, pod: SchedulerPod, *, certain: bool = True) -> None:
        """Forget a deleted pod.

        If the deletion is not `certain`, the pod may only have lost its annotation, and a live read follows.
        """
        uid = pod.metadata.uid
        if certain:
            self._deleted.add(uid)
        reservation = placeholders.reservation_uid_of(pod.metadata)
        if reservation is not None:
            known = self._placeholders.get(reservation, {})
            if known.pop(uid, None) is not None:
                self.changed.add(reservation)
            if not known:
                self._placeholders.pop(reservation, None)
            return
        self.changed |= self.pending_pods.forget(uid)
        self._missing_claims.forget(uid)
        self._drop_live_read(uid, None)
        self._backoffs.pop(uid, None)
        self._pods.pop(uid, None)
        for allocated, assigned in list(self._pods_by_reservation.items()):
            if uid in assigned:
                del assigned[uid]
                if certain:  # otherwise a live read follows
                    self._ended_pods.setdefault(allocated, set()).add(uid)
                self._mark_owners_changed(allocated)
                if not assigned:
                    del self._pods_by_reservation[allocated]

    def claim_added(self, key: Key) -> None:
        """Mark the reservations that may admit a pod which lacked the claim; also called for known claims."""
        for pod in self._missing_claims.pods_waiting_for(key):
            self.changed.update(self.pending_pods.candidates(pod))

    def claim_deleted(self, key: Key) -> None:
        """Mark the reservations whose status names a pod without a node that uses the claim."""
        for uid, unbound in self._unbound.items():
            pods = (self._pods[each] for each in unbound if each in self._pods)
            if any(pod.metadata.namespace == key[0] and key[1] in claim_names(pod) for pod in pods):
                self.changed.add(uid)

    def _mark_owners_changed(self, uid: Uid) -> None:
        """Mark a reservation for reconciliation after an owner pod has come or gone.

        A reservation that several pods may use collects the changes of a few seconds first.
        """
        reservation = self._reservations.get(uid)
        shared = reservation is not None and not statuses.names_owner_before_binding(reservation)
        (self.owners_changed if shared and self.placeholder_mode is PlaceholderMode.REPLACED else self.changed).add(uid)

    def _drop_live_read(self, uid: Uid, pod: SchedulerPod | None) -> None:
        """Drop the live reads of a pod that was unbound when it was read and has since been bound or deleted."""
        if pod is not None and not pod.spec.node_name:
            return
        for reservation, unbound in self._unbound.items():
            if unbound.pop(uid, None) is not None:
                self.changed.add(reservation)

    def observe_live_pod(self, uid: Uid, pod_uid: Uid, pod: SchedulerPod | None, *, now: Instant) -> None:
        """Record the live read of a pod that a reservation's status names; None: no pod with this uid exists."""
        found = self._reservations.get(uid)
        before = self._unbound.get(uid, {}).pop(pod_uid, None)
        if found is None:
            return
        if pod is None or pod.terminal:
            self._ended_pods.setdefault(uid, set()).add(pod_uid)
        elif pod.spec.node_name == found.status.node_name:
            if pod_uid in self._pods:
                self._pods[pod_uid] = pod
                self._pods_by_reservation.setdefault(uid, {})[pod_uid] = None
            else:  # our watch may never show the pod, nor its end
                assigned = AssignedPod.from_pod(pod)
                self._unbound.setdefault(uid, {})[pod_uid] = _UnboundPod(pod=assigned, until=now + BINDING_TIMEOUT)
        elif pod.spec.node_name or (before is not None and now >= before.until):
            self._never_bound.setdefault(uid, set()).add(pod_uid)
            if not pod.spec.node_name:
                self._backoffs[pod_uid] = now + BACKOFF_AFTER_UNUSED
        else:
            if self.placeholder_mode is PlaceholderMode.YIELDING:
                self._pods[pod_uid] = pod
            assigned = AssignedPod.from_pod(pod, binding=True)
            until = now + BINDING_TIMEOUT if before is None else before.until
            self._unbound.setdefault(uid, {})[pod_uid] = _UnboundPod(pod=assigned, until=until)
        self.changed.add(uid)

    def eligible_from(self, pod: Uid) -> Instant:
        """Return when a pod that did not use its capacity may be admitted again; `NEVER` for any other pod."""
        return self._backoffs.get(pod, NEVER)

    def unbound_pods(self, uid: Uid) -> tuple[Instant, tuple[AssignedPod, ...]]:
        """Return when the unbound pods of a reservation are to be read live again, and these pods."""
        unbound = self._unbound.get(uid, {})
        return (
            min((each.until for each in unbound.values()), default=NEVER),
            tuple(each.pod for each in unbound.values()),
        )

    def expected_bound_until(self, uid: Uid) -> Instant:
        """Return when the last pod that the status names is overdue to be shown as bound; `NEVER` if it names none."""
        return max(self._named_since.get(uid, {}).values(), default=NEVER) + BINDING_EXPECTED

    def create_retry_at(self, uid: Uid) -> Instant:
        """Return when a refused placeholder is created again; `-NEVER` if none was refused."""
        return self._create_retries.get(uid, -NEVER)

    def record_create_error(self, uid: Uid, text: str, *, retry_at: Instant = -NEVER) -> None:
        """Record the error with which the API server rejected the placeholder, and when to create it again."""
        self._create_retries[uid] = retry_at
        if self._create_errors.get(uid) != text:  # the same error again changes nothing: the creation is retried later
            self._create_errors[uid] = text
            self.changed.add(uid)

    def record_shortage(self, uid: Uid, since: WallTime | None) -> None:
        """Record since when placeholders have lacked part of the capacity; None: they lack nothing."""
        if since is None:
            self._shortages.pop(uid, None)
        else:
            self._shortages.setdefault(uid, since)

    def view(
        self,
        uid: Uid,
        *,
        nodes: Mapping[Key, Node],
        supports_claims: bool = False,
        translates_requests: bool = False,
        now: Instant = 0.0,
    ) -> ReservationView | None:
        """Return everything that decisions about a reservation read; `nodes` are the existing nodes.

        `supports_claims` is whether the claims of its template can be held, `translates_requests` whether pods that
        request bound CPUs get a claim for them.
        """
        found = self._view(uid, nodes=nodes, supports_claims=supports_claims, translates_requests=translates_requests)
        if found is not None and now < self.create_retry_at(uid):
            found = msgspec.structs.replace(found, is_creation_paused=True)
        if found is not None and self.placeholder_mode is PlaceholderMode.REPLACED:
            named = {each for each, since in self._named_since.get(uid, {}).items() if now < since + BINDING_EXPECTED}
            seen = {each.uid for each in found.assigned_pods}
            found = msgspec.structs.replace(found, expected_pods=frozenset(named - seen))
        if (
            found is None
            or self.placeholder_mode is PlaceholderMode.REPLACED
            or found.reservation.status.phase is not ReservationPhase.AVAILABLE
        ):
            return found
        owners = {Uid(each.uid) for each in found.reservation.status.current_owners}
        candidates = self._candidate_pods(uid, nodes=nodes, now=now)
        unbound = (found.pods[each.uid] for each in found.unbound_pods if each.uid in found.pods)
        return msgspec.structs.replace(
            found,
            candidate_pods=candidates,
            pods_without_claims=frozenset(
                pod.metadata.uid for pod in (*candidates, *unbound) if self._missing_claims.lacks_claims(pod)
            ),
            stale_pods=tuple(self.pending_pods.annotated_pods(uid, excluding=owners)),
        )

    def may_remove_gate(self, pod: SchedulerPod, *, nodes: Mapping[Key, Node]) -> bool:
        """Return whether no reservation is expected to admit a pod that waits behind our scheduling gate."""
        if not placeholder_handover.waits_for_capacity(pod) or self.pending_pods.reservations_naming(pod.metadata.uid):
            return False
        pod_info = self.pending_pods.pod_info(pod.metadata.uid)
        if pod_info is None or pod_info.affinity is not None:
            return False
        if pod_claims.is_never_named(pod):  # no reservation ever admits the pod
            return True
        for uid in self.pending_pods.candidates(pod.metadata.uid):
            reservation = self._reservations[uid]
            if reservation.status.phase not in TERMINAL_PHASES and not reservation.status.node_name:
                if owner_matching.matches_any_owner(reservation.spec.owners, pod_info):
                    return False
            elif self._can_admit(uid, pod, pod_info, nodes=nodes, check=placeholder_handover.can_admit_later):
                return False
        return True

    def _view(
        self, uid: Uid, *, nodes: Mapping[Key, Node], supports_claims: bool = False, translates_requests: bool = False
    ) -> ReservationView | None:
        reservation = self._reservations.get(uid)
        if reservation is None:
            return None
        node = reservation.status.node_name
        assigned_pods = self._assigned_pods(uid, reservation)
        seen = {each.uid for each in assigned_pods}
        _, name = placeholders.placeholder_key(reservation)
        placed = self._placeholders.get(uid, {}).values()
        first = next((each for each in placed if each.metadata.name == name), None)
        node_name = node or (first.spec.node_name if first is not None else "")
        listed = [Uid(each.uid) for each in reservation.status.current_owners]
        return ReservationView(
            reservation=reservation,
            version=self._versions[uid],
            node_gone=bool(node) and ("", node) not in nodes,
            placeholder=first,
            other_placeholders=tuple(each for each in placed if each is not first),
            assigned_pods=assigned_pods,
            ended_pods=frozenset(self._ended_pods.get(uid, ())),
            never_bound=frozenset(self._never_bound.get(uid, ())),
            unbound_pods=tuple(each.pod for key, each in self._unbound.get(uid, {}).items() if key not in seen),
            create_error=self._create_errors.get(uid, ""),
            supports_claims=supports_claims,
            translates_requests=translates_requests,
            placeholders=self.placeholder_mode,
            node=nodes.get(("", node_name)),
            pods={key: self._pods[key] for key in (*listed, *seen) if key in self._pods},
            shortage_since=self._shortages.get(uid),
        )

    def _candidate_pods(self, uid: Uid, *, nodes: Mapping[Key, Node], now: Instant) -> tuple[SchedulerPod, ...]:
        """Return the pods that choose this reservation first, of all reservations that admit them now."""
        found = []
        for pod, pod_info, candidates in self.pending_pods.candidate_pods(uid):
            if self._backoffs.get(pod.metadata.uid, 0.0) > now:
                continue
            ranked = sorted(candidates, key=self._rank)
            first = next(
                (
                    r
                    for r in ranked
                    if self._can_admit(r, pod, pod_info, nodes=nodes, check=placeholder_handover.can_admit)
                ),
                None,
            )
            if first == uid:
                found.append(pod)
        return tuple(sorted(found, key=placeholder_handover.queue_order))

    def _can_admit(
        self,
        uid: Uid,
        pod: SchedulerPod,
        pod_info: PodInfo,
        *,
        nodes: Mapping[Key, Node],
        check: placeholder_handover.AdmissionCheck,
    ) -> bool:
        view = self._view(uid, nodes=nodes)
        if view is None or view.node is None or view.reservation.status.phase is not ReservationPhase.AVAILABLE:
            return False
        state = lifecycle.reservation_state(view)
        return placeholder_handover.matches_node(pod, view.node) and check(
            state, self.pending_pods.reservation(uid), pod_info, node=view.node
        )

    def _rank(self, uid: Uid) -> tuple[bool, int, str]:
        info = self.pending_pods.reservation(uid)
        return (not info.order, info.order, info.name)

    def _assigned_pods(self, uid: Uid, reservation: Reservation) -> tuple[AssignedPod, ...]:
        listed = {each.uid for each in reservation.status.current_owners}
        found = []
        for each in self._pods_by_reservation.get(uid, ()):
            pod = self._pods[each]
            if pod.terminal or not pod.spec.node_name or pod.spec.node_name != reservation.status.node_name:
                continue
            if each in listed or (_allocated_reservation(pod) == uid and _matches_owners(reservation, pod)):
                found.append(AssignedPod.from_pod(pod))
        return tuple(found)


def _allocated_reservation(pod: SchedulerPod) -> Uid:
    return allocated_reservation_uid(pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED))


def _matches_owners(reservation: Reservation, pod: SchedulerPod) -> bool:
    try:
        return owner_matching.matches_any_owner(reservation.spec.owners, PodInfo.from_pod(pod))
    except MalformedAnnotationError:
        return False
