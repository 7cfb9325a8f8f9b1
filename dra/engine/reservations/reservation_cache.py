"""The cache of reservations and their pods, and of what live reads of pods have shown.

In mode yielding the cache holds all pending pods as well: candidates for reservations are found among them.
"""

from collections.abc import Container, Mapping
from typing import Final

import msgspec

from dra.api.configuration import PlaceholderMode
from dra.api.reservations import well_known
from dra.api.reservations.model import MalformedReservationError, Reservation, ReservationPhase, parse_reservation
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import BIND_HORIZON, NEVER, Instant, WallTime
from dra.engine.reservations import (
    lifecycle,
    owner_matching,
    phases,
    placeholder_handover,
    placeholders,
    pod_claims,
    statuses,
)
from dra.engine.reservations.actions import RemoveSchedulingGate
from dra.engine.reservations.pending_pods import PendingPods
from dra.engine.reservations.phases import TERMINAL_PHASES
from dra.engine.reservations.pod_claims import MissingClaims
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.reservations.view import AnyReservationView, ReservationPolicy, ReservationView, UnreadableReservation
from dra.model import annotations
from dra.model.claims import ResourceClaim
from dra.model.deleted_uids import DeletedUids
from dra.model.meta import Key, Struct, Uid, UnstructuredObject
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

STATUS_DEBOUNCE: Final = 3.0
"""Seconds from the binding or end of an owner pod to the status that reports it, for reservations with several owner
pods: one write covers them all, and the pods of a Job come within seconds.
"""

STATUS_INTERVAL: Final = 5.0
"""Minimum seconds between two such writes of one status, as long as owner pods come and go."""

CREATE_BACKOFF: Final = (2.0, 60.0)
"""Seconds, first and longest, until a rejected placeholder is created again: quotas are changed by users."""

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


def trim_pod(pod: SchedulerPod) -> None:
    """Remove the annotations of a pod that was just decoded and that no rule reads, in place."""
    annotations.trim_annotations(
        pod.metadata,
        keep=well_known.RETAINED_POD_ANNOTATIONS,
        value_max_characters=well_known.MAX_ANNOTATION_LENGTH,
    )


class _UnboundPod(Struct, frozen=True):
    pod: AssignedPod
    until: Instant
    """Time of the next live read, computed once for both the queue and the decision: two sums that ought to be equal
    differ by a rounding, and a reservation that is due before its pod would be reconciled again and again at the same
    instant.
    """


class _Refusal(Struct, frozen=True):
    """The last refusal of a placeholder by the API server."""

    message: str
    """Empty once a placeholder was observed."""
    retry_at: Instant
    delay: float
    """Seconds from the last refusal to the retry."""


class ReservationCache(Cache[Uid]):
    """The cache of reservations by uid, and of pods by the reservation that their annotation names."""

    def __init__(self, policy: ReservationPolicy, *, claims: Container[Key] = frozenset()) -> None:
        """Create the cache; ``claims`` are the existing claims: without them, no pod with claims is admitted."""
        self.dirty: DirtyKeys[Uid] = DirtyKeys()
        self.pending_pods = PendingPods()
        self._policy = policy
        self._yields = policy.placeholders is PlaceholderMode.YIELDING
        self._owners_changed: dict[Uid, None] = {}
        """Reservations whose owner pods have come or gone: they can wait for further changes."""
        self._without_node: dict[Uid, None] = {}
        """Reservations whose node was deleted: it may be back in a moment."""
        self._newly_placed: set[Uid] = set()
        """Reservations that have got their node, while no Event says so."""
        self._schedulers_seen: dict[str, WallTime] = {}
        """Scheduler, as templates name it → when it has last placed a reservation."""
        self._unreadable: dict[Uid, UnreadableReservation] = {}
        self._written: dict[Uid, Instant] = {}
        """Reservation → when its status was last written."""
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
        self._refusals: dict[Uid, _Refusal] = {}
        self._deleted = DeletedUids()
        """Deleted pods."""

    def mark_all_dirty(self) -> None:
        """Mark all reservations: this replica begins to act."""
        self.dirty.update((*self._reservations, *self._unreadable))

    def settle(self, *, now: Instant) -> None:
        """Mark reservations that can wait a moment: further owner pods may come or go, a deleted node may be back.

        A changed reservation may admit any gated pod, or cease to.
        """
        if self.dirty:
            self.pending_pods.mark_all_dirty()
        for uid in self._owners_changed:
            self.dirty.add(uid, due=max(now + STATUS_DEBOUNCE, self._written.get(uid, -NEVER) + STATUS_INTERVAL))
        for uid in self._without_node:
            self.dirty.add(uid, due=now + lifecycle.NODE_CHECK_INTERVAL)
        self._owners_changed.clear()
        self._without_node.clear()

    def discard_dirty(self) -> None:
        """Unmark all reservations; the replica that acts reports which have got their nodes."""
        self.dirty.clear()
        self._owners_changed.clear()
        self._without_node.clear()
        self._newly_placed.clear()

    def observe(self, obj: UnstructuredObject, *, now: Instant) -> None:
        """Add or update a reservation; ignore an older version than the cached one."""
        uid = obj.metadata.uid
        try:
            reservation = parse_reservation(obj.content)
        except MalformedReservationError as error:
            known = self._unreadable.get(uid)
            unreadable = self._unreadable[uid] = UnreadableReservation(obj=obj, error=str(error))
            if known is None or known.version != unreadable.version:  # otherwise a write had no effect
                self.dirty.add(uid)
            return
        self._unreadable.pop(uid, None)
        version = obj.metadata.resource_version
        if not is_older(version, self._versions.get(uid, "")):
            self._observe_readable(uid, version, reservation, now=now)

    def record_write(self, uid: Uid, *, now: Instant) -> None:
        """Record that this process has written the status of a reservation."""
        self._written[uid] = now

    def _observe_readable(self, uid: Uid, version: str, reservation: Reservation, *, now: Instant) -> None:
        before = self._reservations.get(uid)
        self._reservations[uid], self._versions[uid] = reservation, version
        if before is not None and before.spec != reservation.spec:  # a person may have corrected what was refused
            self._end_pause(uid)
        was_pending = before is not None and before.status.phase is ReservationPhase.PENDING
        if was_pending and reservation.status.phase is ReservationPhase.AVAILABLE:
            self._newly_placed.add(uid)
            self._observe_scheduler(reservation)
        listed = {Uid(owner.uid) for owner in reservation.status.current_owners}
        for memory in (self._ended_pods, self._never_bound):
            if uid in memory:
                memory[uid] &= listed
        named = self._named_since.get(uid, {})
        self._named_since[uid] = {pod: named.get(pod, now) for pod in listed}
        self.dirty.add(uid)
        if self._yields:
            self.dirty.update(self.pending_pods.observe_reservation(uid, reservation))

    def _observe_scheduler(self, reservation: Reservation) -> None:
        condition = reservation.status.condition(phases.CONDITION_SCHEDULED)
        if condition is not None and condition.last_transition_time is not None:
            name = placeholders.scheduler_name(reservation)
            seen = condition.last_transition_time.timestamp()
            self._schedulers_seen[name] = max(seen, self._schedulers_seen.get(name, seen))

    def forget(self, uid: Uid) -> None:
        """Forget a deleted reservation and what was recorded about it."""
        for memory in (
            self._reservations,
            self._versions,
            self._unreadable,
            self._written,
            self._unbound,
            self._named_since,
            self._ended_pods,
            self._never_bound,
            self._refusals,
            self._shortages,
        ):
            memory.pop(uid, None)
        self._newly_placed.discard(uid)
        self.dirty.update({uid} | self.pending_pods.forget_reservation(uid))

    def name(self, uid: Uid) -> str:
        """Return the name of a reservation; empty for an unknown one."""
        if (unreadable := self._unreadable.get(uid)) is not None:
            return unreadable.name
        reservation = self._reservations.get(uid)
        return reservation.metadata.name if reservation is not None else ""

    def placement_reported(self, uid: Uid) -> None:
        """Record that an Event says which node a reservation has got."""
        self._newly_placed.discard(uid)

    def forget_node(self, node: Node) -> None:
        """Mark the reservations of a deleted node, for a time when it has not come back."""
        name = node.metadata.name
        self._without_node.update(
            (uid, None) for uid, reservation in self._reservations.items() if reservation.status.node_name == name
        )

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
        if reservation is not None:
            self._placeholders.setdefault(reservation, {})[uid] = pod
            self._end_pause(reservation, message="")
            self.dirty.add(reservation)
            return
        if self._yields:
            self.dirty.update(self.pending_pods.observe(pod))
        self._drop_live_read(uid, pod)
        self._pods[uid] = pod
        for allocated in {allocated_reservation_uid(state.metadata) for state in (known, pod) if state is not None}:
            if allocated:
                self._pods_by_reservation.setdefault(allocated, {})[uid] = None
                self._never_bound.get(allocated, set()).discard(uid)
                self._mark_owners_changed(allocated)

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
                self.dirty.add(reservation)
            if not known:
                self._placeholders.pop(reservation, None)
            return
        self.dirty.update(self.pending_pods.forget(uid))
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

    def leave_pod(self, pod: SchedulerPod) -> None:
        """Forget a pod that may only have lost its annotation."""
        self.forget_pod(pod, certain=False)

    def observe_claim(self, claim: ResourceClaim) -> None:
        """Mark the reservations that may admit a pod which lacked the claim."""
        for pod in self._missing_claims.pods_waiting_for(claim.metadata.key):
            self.dirty.update(self.pending_pods.candidates(pod))

    def forget_claim(self, claim: ResourceClaim) -> None:
        """Mark the reservations whose status names a pod without a node that uses the claim."""
        namespace, name = claim.metadata.key
        for uid, unbound in self._unbound.items():
            pods = (self._pods[pod_uid] for pod_uid in unbound if pod_uid in self._pods)
            if any(pod.metadata.namespace == namespace and name in claim_names(pod) for pod in pods):
                self.dirty.add(uid)

    def _mark_owners_changed(self, uid: Uid) -> None:
        """Mark a reservation for reconciliation after an owner pod has come or gone.

        A reservation that several pods may use collects the changes of a few seconds first.
        """
        reservation = self._reservations.get(uid)
        shared = reservation is not None and not statuses.names_owner_before_binding(reservation)
        if shared and not self._yields:
            self._owners_changed[uid] = None
        else:
            self.dirty.add(uid)

    def _drop_live_read(self, uid: Uid, pod: SchedulerPod | None) -> None:
        """Drop the live reads of a pod that was unbound when it was read and has since been bound or deleted."""
        if pod is not None and not pod.spec.node_name:
            return
        for reservation, unbound in self._unbound.items():
            if unbound.pop(uid, None) is not None:
                self.dirty.add(reservation)

    def observe_live_pod(self, uid: Uid, pod_uid: Uid, pod: SchedulerPod | None, *, now: Instant) -> None:
        """Record the live read of a pod that a reservation's status names; None: no pod with this uid exists."""
        reservation = self._reservations.get(uid)
        before = self._unbound.get(uid, {}).pop(pod_uid, None)
        if reservation is None:
            return
        if pod is None or pod.terminal:
            self._ended_pods.setdefault(uid, set()).add(pod_uid)
        elif pod.spec.node_name == reservation.status.node_name:
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
            if self._yields:
                self._pods[pod_uid] = pod
            assigned = AssignedPod.from_pod(pod, binding=True)
            until = now + BINDING_TIMEOUT if before is None else before.until
            self._unbound.setdefault(uid, {})[pod_uid] = _UnboundPod(pod=assigned, until=until)
        self.dirty.add(uid)

    def observe_created(self, uid: Uid, pod: SchedulerPod) -> None:
        """Add a placeholder of a reservation from the response to its creation."""
        self._refusals.pop(uid, None)
        self.observe_pod(pod)

    def record_refusal(self, uid: Uid, message: str, *, now: Instant) -> None:
        """Record the error with which the API server refused a placeholder: a pause begins, longer each time."""
        first, longest = CREATE_BACKOFF
        before = self._refusals.get(uid)
        delay = first if before is None else min(2 * before.delay, longest)
        self._refusals[uid] = _Refusal(message=message, retry_at=now + delay, delay=delay)
        if before is None or before.message != message:  # the same error again changes nothing
            self.dirty.add(uid)

    def _end_pause(self, uid: Uid, **changes: str) -> None:
        """Let a placeholder be created at once, and change what is known of its last refusal."""
        if (refusal := self._refusals.get(uid)) is not None:
            self._refusals[uid] = msgspec.structs.replace(refusal, retry_at=-NEVER, **changes)

    def record_shortage(self, uid: Uid, since: WallTime | None) -> None:
        """Record since when placeholders have lacked part of the capacity; None: they lack nothing."""
        if since is None:
            self._shortages.pop(uid, None)
        else:
            self._shortages.setdefault(uid, since)

    def view(self, uid: Uid, *, nodes: Mapping[Key, Node], now: Instant = 0.0) -> AnyReservationView | None:
        """Return everything that a decision about a reservation reads; `nodes` are the existing nodes."""
        if uid in self._unreadable:
            return self._unreadable[uid]
        view = self._view(uid, nodes=nodes)
        if view is None:
            return None
        if not self._yields:
            return self._with_expected_pods(view, now=now)
        if view.reservation.status.phase is ReservationPhase.AVAILABLE:
            return self._with_candidates(view, nodes=nodes, now=now)
        return view

    def _with_expected_pods(self, view: ReservationView, *, now: Instant) -> ReservationView:
        since = self._named_since.get(view.uid, {})
        expected = {pod for pod, named in since.items() if now < named + BINDING_EXPECTED}
        expected -= {pod.uid for pod in view.assigned_pods}
        until = max(since.values()) + BINDING_EXPECTED if expected else NEVER
        return msgspec.structs.replace(view, expected_pods=frozenset(expected), expected_until=until)

    def _with_candidates(self, view: ReservationView, *, nodes: Mapping[Key, Node], now: Instant) -> ReservationView:
        owners = {Uid(owner.uid) for owner in view.reservation.status.current_owners}
        candidates, eligible_at = self._candidate_pods(view.uid, nodes=nodes, now=now)
        unbound = (view.pods[pod.uid] for pod in view.unbound_pods if pod.uid in view.pods)
        return msgspec.structs.replace(
            view,
            candidate_pods=candidates,
            eligible_at=eligible_at,
            pods_without_claims=frozenset(
                pod.metadata.uid for pod in (*candidates, *unbound) if self._missing_claims.lacks_claims(pod)
            ),
            stale_pods=tuple(self.pending_pods.annotated_pods(view.uid, excluding=owners)),
        )

    def gate_to_remove(self, uid: Uid, *, nodes: Mapping[Key, Node]) -> RemoveSchedulingGate | None:
        """Return the removal of our scheduling gate from a pod that no reservation is expected to admit."""
        pod = self.pending_pods.gated_pod(uid)
        if pod is None or not self._may_remove_gate(pod, nodes=nodes):
            return None
        return RemoveSchedulingGate(key=pod.metadata.key, uid=uid)

    def _may_remove_gate(self, pod: SchedulerPod, *, nodes: Mapping[Key, Node]) -> bool:
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

    def _view(self, uid: Uid, *, nodes: Mapping[Key, Node]) -> ReservationView | None:
        reservation = self._reservations.get(uid)
        if reservation is None:
            return None
        node = reservation.status.node_name
        assigned_pods = self._assigned_pods(uid, reservation)
        seen = {pod.uid for pod in assigned_pods}
        _, name = placeholders.placeholder_key(reservation)
        placed = self._placeholders.get(uid, {}).values()
        first = next((pod for pod in placed if pod.metadata.name == name), None)
        node_name = node or (first.spec.node_name if first is not None else "")
        listed = [Uid(owner.uid) for owner in reservation.status.current_owners]
        unbound = [pod for key, pod in self._unbound.get(uid, {}).items() if key not in seen]
        refusal = self._refusals.get(uid)
        return ReservationView(
            reservation=reservation,
            version=self._versions[uid],
            newly_placed=uid in self._newly_placed,
            node_gone=bool(node) and ("", node) not in nodes,
            placeholder=first,
            scheduler_seen_at=self._schedulers_seen.get(placeholders.scheduler_name(reservation), -NEVER),
            other_placeholders=tuple(pod for pod in placed if pod is not first),
            assigned_pods=assigned_pods,
            ended_pods=frozenset(self._ended_pods.get(uid, ())),
            never_bound=frozenset(self._never_bound.get(uid, ())),
            unbound_pods=tuple(read.pod for read in unbound),
            reread_at=min((read.until for read in unbound), default=NEVER),
            create_error=refusal.message if refusal is not None else "",
            create_retry_at=refusal.retry_at if refusal is not None else -NEVER,
            policy=self._policy,
            node=nodes.get(("", node_name)),
            pods={key: self._pods[key] for key in (*listed, *seen) if key in self._pods},
            shortage_since=self._shortages.get(uid),
        )

    def _candidate_pods(
        self, uid: Uid, *, nodes: Mapping[Key, Node], now: Instant
    ) -> tuple[tuple[SchedulerPod, ...], Instant]:
        """Return the pods whose first choice is this reservation, of all that admit them now, and when more may be."""
        first_choices, eligible_at = [], NEVER
        for pod, pod_info, candidates in self.pending_pods.candidate_pods(uid):
            if (backoff := self._backoffs.get(pod.metadata.uid, 0.0)) > now:
                eligible_at = min(eligible_at, backoff)
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
                first_choices.append(pod)
        return tuple(sorted(first_choices, key=placeholder_handover.queue_order)), eligible_at

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

    def _rank(self, uid: Uid) -> tuple[tuple[bool, bool, int], str]:
        info = self.pending_pods.reservation(uid)
        return (info.rank, info.name)

    def _assigned_pods(self, uid: Uid, reservation: Reservation) -> tuple[AssignedPod, ...]:
        listed = {owner.uid for owner in reservation.status.current_owners}
        assigned = []
        for pod_uid in self._pods_by_reservation.get(uid, ()):
            pod = self._pods[pod_uid]
            if pod.terminal or not pod.spec.node_name or pod.spec.node_name != reservation.status.node_name:
                continue
            if pod_uid in listed or (
                allocated_reservation_uid(pod.metadata) == uid and _matches_owners(reservation, pod)
            ):
                assigned.append(AssignedPod.from_pod(pod))
        return tuple(assigned)


def _matches_owners(reservation: Reservation, pod: SchedulerPod) -> bool:
    try:
        return owner_matching.matches_any_owner(reservation.spec.owners, PodInfo.from_pod(pod))
    except MalformedAnnotationError:
        return False
