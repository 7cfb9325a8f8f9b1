"""The controller's cache of reservations and their pods, and of what live reads of pods have shown.

In mode yielding the cache holds all pending pods as well: candidates for reservations are found among them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from controller.reservations.pending_pods import PendingPods
from controller.tombstones import Tombstones
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
    pod_requests,
    statuses,
)
from dra.engine.reservations.lifecycle import ReservationView
from dra.engine.reservations.phases import TERMINAL_PHASES
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.statuses import AssignedPod
from dra.model import annotations
from dra.model.meta import Key, Struct, Uid
from dra.model.nodes import Node
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
    consumer: AssignedPod
    until: Instant
    """Time of the next live read, computed once for both the queue and the decision: two sums that ought to be equal
    differ by a rounding, and a reservation that is due before its pod would be reconciled again and again at the same
    instant.
    """


class ReservationCache:
    """The cache of reservations by uid, and of pods by the reservation that their annotation names."""

    def __init__(self, *, kind: PlaceholderMode = PlaceholderMode.REPLACED) -> None:
        self.dirty: set[Uid] = set()
        """Reservations to reconcile at once."""
        self.settling: set[Uid] = set()
        """Reservations whose owner pods have come or gone: they can wait for further changes."""
        self.kind = kind
        self.waiting = PendingPods()
        self._short: dict[Uid, WallTime] = {}
        self._passed_over: dict[Uid, Instant] = {}
        self._reservations: dict[Uid, Reservation] = {}
        self._versions: dict[Uid, str] = {}
        self._pods: dict[Uid, SchedulerPod] = {}
        self._inside: dict[Uid, dict[Uid, None]] = {}
        self._placeholders: dict[Uid, dict[Uid, SchedulerPod]] = {}
        self._asked: dict[Uid, dict[Uid, _UnboundPod]] = {}
        self._named: dict[Uid, dict[Uid, Instant]] = {}
        """Reservation → since when its status has named each pod."""
        self._ended: dict[Uid, set[Uid]] = {}
        self._never_bound: dict[Uid, set[Uid]] = {}
        self._refused: dict[Uid, str] = {}
        self._deleted = Tombstones()
        """Deleted pods."""

    def observe(self, uid: Uid, version: str, reservation: Reservation, *, now: Instant) -> Reservation | None:
        """Add or update a reservation; return the version cached before.

        An older version than the cached one is ignored; then the argument itself is returned.
        """
        before = self._reservations.get(uid)
        known = self._versions.get(uid, "")
        if known.isdecimal() and version.isdecimal() and int(version) < int(known):
            return reservation
        self._reservations[uid], self._versions[uid] = reservation, version
        listed = {Uid(each.uid) for each in reservation.status.current_owners}
        for memory in (self._ended, self._never_bound):
            if uid in memory:
                memory[uid] &= listed
        named = self._named.get(uid, {})
        self._named[uid] = {each: named.get(each, now) for each in listed}
        self.dirty.add(uid)
        if self.kind is PlaceholderMode.YIELDING:
            self.dirty |= self.waiting.observe_reservation(uid, reservation)
        return before

    def forget(self, uid: Uid) -> None:
        """Forget a deleted reservation and what was recorded about it."""
        for memory in (
            self._reservations,
            self._versions,
            self._asked,
            self._named,
            self._ended,
            self._never_bound,
            self._refused,
            self._short,
        ):
            memory.pop(uid, None)
        self.dirty |= {uid} | self.waiting.forget_reservation(uid)

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
        if self._is_outdated(pod):
            return
        annotations.trim_annotations(
            pod.metadata,
            keep=well_known.RETAINED_POD_ANNOTATIONS,
            value_max_characters=well_known.MAX_ANNOTATION_LENGTH,
        )
        uid = pod.metadata.uid
        if (reservation := placeholders.reservation_uid_of(pod.metadata)) is not None:
            self._placeholders.setdefault(reservation, {})[uid] = pod
            self._refused.pop(reservation, None)
            self.dirty.add(reservation)
            return
        if self.kind is PlaceholderMode.YIELDING:
            self.dirty |= self.waiting.observe(pod)
        self._look_again(uid, pod)
        before = self._pods.get(uid)
        self._pods[uid] = pod
        for said in {_allocated_reservation(each) for each in (before, pod) if each is not None}:
            if said:
                self._inside.setdefault(said, {})[uid] = None
                self._never_bound.get(said, set()).discard(uid)
                self._mark_owners_changed(said)

    def _is_outdated(self, pod: SchedulerPod) -> bool:
        uid, reservation = pod.metadata.uid, placeholders.reservation_uid_of(pod.metadata)
        pods = self._pods if reservation is None else self._placeholders.get(reservation, {})
        known = pods.get(uid)
        outdated = known is not None and is_older(pod.metadata.resource_version, known.metadata.resource_version)
        return outdated or uid in self._deleted

    def homeless(self, nodes: Mapping[Key, object]) -> tuple[Uid, ...]:
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
                self.dirty.add(reservation)
            if not known:
                self._placeholders.pop(reservation, None)
            return
        self.dirty |= self.waiting.forget(uid)
        self._look_again(uid, None)
        self._passed_over.pop(uid, None)
        self._pods.pop(uid, None)
        for said, inside in list(self._inside.items()):
            if uid in inside:
                del inside[uid]
                if certain:  # otherwise a live read follows
                    self._ended.setdefault(said, set()).add(uid)
                self._mark_owners_changed(said)
                if not inside:
                    del self._inside[said]

    def _mark_owners_changed(self, uid: Uid) -> None:
        """Mark a reservation for reconciliation after an owner pod has come or gone.

        A reservation that several pods may use collects the changes of a few seconds first.
        """
        reservation = self._reservations.get(uid)
        shared = reservation is not None and not statuses.names_owner_before_binding(reservation)
        (self.settling if shared and self.kind is PlaceholderMode.REPLACED else self.dirty).add(uid)

    def _look_again(self, uid: Uid, pod: SchedulerPod | None) -> None:
        """Drop the live reads of a pod that was unbound when it was read and has since been bound or deleted."""
        if pod is not None and not pod.spec.node_name:
            return
        for reservation, asked in self._asked.items():
            if asked.pop(uid, None) is not None:
                self.dirty.add(reservation)

    def answer(self, uid: Uid, asked: Uid, pod: SchedulerPod | None, *, now: Instant) -> None:
        """Record the live read of a pod that a reservation's status names; None: no pod with this uid exists."""
        found = self._reservations.get(uid)
        before = self._asked.get(uid, {}).pop(asked, None)
        if found is None:
            return
        if pod is None or pod.terminal:
            self._ended.setdefault(uid, set()).add(asked)
        elif pod.spec.node_name == found.status.node_name:
            if asked in self._pods:
                self._pods[asked] = pod
                self._inside.setdefault(uid, {})[asked] = None
            else:  # our watch may never show the pod, nor its end
                inside = AssignedPod(uid=asked, key=pod.metadata.key, amounts=pod_requests.pod_requests(pod))
                self._asked.setdefault(uid, {})[asked] = _UnboundPod(consumer=inside, until=now + BINDING_TIMEOUT)
        elif pod.spec.node_name or (before is not None and now >= before.until):
            self._never_bound.setdefault(uid, set()).add(asked)
            if not pod.spec.node_name:
                self._passed_over[asked] = now + BACKOFF_AFTER_UNUSED
        else:
            if self.kind is PlaceholderMode.YIELDING:
                self._pods[asked] = pod
            consumer = AssignedPod(
                uid=asked, key=pod.metadata.key, amounts=pod_requests.pod_requests(pod), under_way=True
            )
            until = now + BINDING_TIMEOUT if before is None else before.until
            self._asked.setdefault(uid, {})[asked] = _UnboundPod(consumer=consumer, until=until)
        self.dirty.add(uid)

    def eligible_from(self, pod: Uid) -> Instant:
        """Return when a pod that did not use its capacity may be admitted again; `NEVER` for any other pod."""
        return self._passed_over.get(pod, NEVER)

    def ask_again(self, uid: Uid) -> tuple[Instant, tuple[AssignedPod, ...]]:
        """Return when the unbound pods of a reservation are to be read live again, and these pods."""
        asked = self._asked.get(uid, {})
        return (
            min((each.until for each in asked.values()), default=NEVER),
            tuple(each.consumer for each in asked.values()),
        )

    def expected_bound_until(self, uid: Uid) -> Instant:
        """Return when the last pod that the status names is overdue to be shown as bound; `NEVER` if it names none."""
        return max(self._named.get(uid, {}).values(), default=NEVER) + BINDING_EXPECTED

    def refused(self, uid: Uid, text: str) -> None:
        """Record the error with which the API server rejected the placeholder."""
        if self._refused.get(uid) != text:  # the same error again changes nothing: the creation is retried later
            self._refused[uid] = text
            self.dirty.add(uid)

    def record_shortage(self, uid: Uid, since: WallTime | None) -> None:
        """Record since when placeholders have lacked part of the capacity; None: they lack nothing."""
        if since is None:
            self._short.pop(uid, None)
        else:
            self._short.setdefault(uid, since)

    def view(
        self, uid: Uid, *, nodes: Mapping[Key, Node], devices: bool = False, now: Instant = 0.0
    ) -> ReservationView | None:
        """Return everything that decisions about a reservation read; `nodes` are the existing nodes.

        `devices` is whether the claims of its template can be held.
        """
        found = self._view(uid, nodes=nodes, devices=devices)
        if found is not None and self.kind is PlaceholderMode.REPLACED:
            named = {each for each, since in self._named.get(uid, {}).items() if now < since + BINDING_EXPECTED}
            seen = {each.uid for each in found.consumers}
            found = msgspec.structs.replace(found, expected=frozenset(named - seen))
        if (
            found is None
            or self.kind is PlaceholderMode.REPLACED
            or found.reservation.status.phase is not ReservationPhase.AVAILABLE
        ):
            return found
        return msgspec.structs.replace(
            found,
            applicants=self._applicants(uid, nodes=nodes, now=now),
            strays=tuple(self.waiting.told(uid, but={Uid(o.uid) for o in found.reservation.status.current_owners})),
        )

    def may_remove_gate(self, pod: SchedulerPod, *, nodes: Mapping[Key, Node]) -> bool:
        """Return whether no reservation is expected to admit a pod that waits behind our scheduling gate."""
        if not placeholder_handover.waits_for_capacity(pod) or self.waiting.reservations_naming(pod.metadata.uid):
            return False
        claimant = self.waiting.claimant(pod.metadata.uid)
        if claimant is None or claimant.affinity is not None:
            return False
        for uid in self.waiting.candidates(pod.metadata.uid):
            reservation = self._reservations[uid]
            if reservation.status.phase not in TERMINAL_PHASES and not reservation.status.node_name:
                if owner_matching.matches_any_owner(reservation.spec.owners, claimant):
                    return False
            elif self._can_admit(uid, pod, claimant, nodes=nodes, ask=placeholder_handover.can_admit_later):
                return False
        return True

    def _view(self, uid: Uid, *, nodes: Mapping[Key, Node], devices: bool) -> ReservationView | None:
        reservation = self._reservations.get(uid)
        if reservation is None:
            return None
        node = reservation.status.node_name
        consumers = self._consumers(uid, reservation)
        seen = {each.uid for each in consumers}
        _, name = placeholders.placeholder_key(reservation)
        placed = self._placeholders.get(uid, {}).values()
        first = next((each for each in placed if each.metadata.name == name), None)
        where = node or (first.spec.node_name if first is not None else "")
        listed = [Uid(each.uid) for each in reservation.status.current_owners]
        return ReservationView(
            reservation=reservation,
            node_gone=bool(node) and ("", node) not in nodes,
            placeholder=first,
            others=tuple(each for each in placed if each is not first),
            consumers=consumers,
            ended=frozenset(self._ended.get(uid, ())),
            never_bound=frozenset(self._never_bound.get(uid, ())),
            asked=tuple(each.consumer for key, each in self._asked.get(uid, {}).items() if key not in seen),
            refused=self._refused.get(uid, ""),
            devices=devices,
            placeholders=self.kind,
            home=nodes.get(("", where)),
            pods={key: self._pods[key] for key in (*listed, *seen) if key in self._pods},
            shortage_since=self._short.get(uid),
        )

    def _applicants(self, uid: Uid, *, nodes: Mapping[Key, Node], now: Instant) -> tuple[SchedulerPod, ...]:
        """Return the pods that choose this reservation first, of all reservations that admit them now."""
        found = []
        for pod, claimant, candidates in self.waiting.applicants(uid):
            if self._passed_over.get(pod.metadata.uid, 0.0) > now:
                continue
            ranked = sorted(candidates, key=self._rank)
            first = next(
                (
                    r
                    for r in ranked
                    if self._can_admit(r, pod, claimant, nodes=nodes, ask=placeholder_handover.can_admit)
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
        claimant: PodInfo,
        *,
        nodes: Mapping[Key, Node],
        ask: placeholder_handover.AdmissionCheck,
    ) -> bool:
        view = self._view(uid, nodes=nodes, devices=False)
        if view is None or view.home is None or view.reservation.status.phase is not ReservationPhase.AVAILABLE:
            return False
        there = lifecycle.reservation_state(view)
        return placeholder_handover.matches_node(pod, view.home) and ask(
            there, self.waiting.holding(uid), claimant, node=view.home
        )

    def _rank(self, uid: Uid) -> tuple[bool, int, str]:
        holding = self.waiting.holding(uid)
        return (not holding.order, holding.order, holding.name)

    def _consumers(self, uid: Uid, reservation: Reservation) -> tuple[AssignedPod, ...]:
        listed = {each.uid for each in reservation.status.current_owners}
        found = []
        for each in self._inside.get(uid, ()):
            pod = self._pods[each]
            if pod.terminal or not pod.spec.node_name or pod.spec.node_name != reservation.status.node_name:
                continue
            if each in listed or (_allocated_reservation(pod) == uid and _matches_owners(reservation, pod)):
                found.append(AssignedPod(uid=each, key=pod.metadata.key, amounts=pod_requests.pod_requests(pod)))
        return tuple(found)


def _allocated_reservation(pod: SchedulerPod) -> Uid:
    return allocated_reservation_uid(pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED))


def _matches_owners(reservation: Reservation, pod: SchedulerPod) -> bool:
    try:
        return owner_matching.matches_any_owner(reservation.spec.owners, PodInfo.from_pod(pod))
    except MalformedAnnotationError:
        return False
