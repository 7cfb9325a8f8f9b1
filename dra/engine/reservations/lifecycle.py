"""What is to be done about one reservation: a placeholder made or deleted, a status written, the object deleted.

1. What has ended stays for people to see, then it is deleted; its placeholder goes at once.
2. What is over by its own words, or whose node is gone, ends, placed or not.
3. What cannot be read says so in a condition, and is not placed; what it holds stays held.
4. What waits has a placeholder, and tells why kube-scheduler finds no place for that one.
5. What has its place tells who uses it. Where an extender holds the room it needs no placeholder; elsewhere they stay,
   and give way to owners (`yielding`).

A pod that the status names is its consumer until it is *known* to have ended, or never to have been bound: a live read
tells, never a watch that does not show it.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

from dra.api.configuration import PlaceholderMode
from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation, ReservationPhase, ReservationStatus
from dra.engine.instants import NEVER, WallTime
from dra.engine.reservations import (
    claim_holders,
    collection,
    expiry,
    keepers,
    phases,
    placeholder_handover,
    placeholders,
    reservation_info,
    statuses,
)
from dra.engine.reservations.keepers import Placeholder
from dra.engine.reservations.phases import TERMINAL_PHASES, Trigger
from dra.engine.reservations.placeholder_handover import (
    NominatePlaceholder,
    OwnerPod,
    RemoveSchedulingGate,
    ReservationState,
    SetReservationAllocated,
)
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.reasons import ReservationReason
from dra.engine.reservations.statuses import AssignedPod
from dra.model.meta import Key, Struct, Uid
from dra.model.nodes import Node
from dra.model.pods import POD_SCHEDULED
from dra.model.scheduling import SchedulerPod

UNSCHEDULABLE: Final = "Unschedulable"

SHORTAGE_GRACE_PERIOD: Final = 10.0
"""Seconds for which a placeholder may wait for room that is its own: kube-scheduler tries again after ten at most."""


class ReservationEventType(StrEnum):
    """Of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class ReservationEvent(Struct, frozen=True):
    """An Event on the reservation, once the write that it is about has succeeded."""

    reason: ReservationReason
    text: str
    severity: ReservationEventType = ReservationEventType.NORMAL


class PatchReservationStatus(Struct, frozen=True):
    """Compare and swap the status."""

    body: Mapping[str, Any]
    told: tuple[ReservationEvent, ...] = ()


class CreatePlaceholder(Struct, frozen=True):
    """Make the placeholder."""

    manifest: Mapping[str, Any]


class DeletePlaceholder(Struct, frozen=True):
    """Delete the placeholder: it has done what it is for, or nothing is to be placed any more."""

    key: Key
    uid: Uid


class GetPod(Struct, frozen=True):
    """Read a pod that the status names and nobody sees."""

    key: Key
    uid: Uid


class DeleteReservation(Struct, frozen=True):
    """Delete the reservation."""


class ClearReservationAllocated(Struct, frozen=True):
    """Take back from a pod that waits what it was told when it was to enter: it did not."""

    key: Key
    uid: Uid


ReservationAction: TypeAlias = (
    PatchReservationStatus
    | CreatePlaceholder
    | DeletePlaceholder
    | GetPod
    | DeleteReservation
    | ClearReservationAllocated
    | NominatePlaceholder
    | SetReservationAllocated
    | RemoveSchedulingGate
)


CLAIMS_UNSUPPORTED_MESSAGE: Final = (
    "spec.template.spec.resourceClaims: devices are held in mode replace only, and this is not held without them; "
    "start the controller with --mode replace, or take resourceClaims out of the template"
)
"""What a reservation is told that the controller could hold only in part."""


class ReservationView(Struct, frozen=True):
    """A reservation, and what is known about it."""

    reservation: Reservation
    node_gone: bool = False
    placeholder: SchedulerPod | None = None
    """The one that finds the place."""
    others: tuple[SchedulerPod, ...] = ()
    """More of them, where they stay."""
    consumers: tuple[AssignedPod, ...] = ()
    """Pods on its node that are in it and have not finished, as far as they are seen."""
    ended: frozenset[Uid] = frozenset()
    """Pods that were read live and found finished, or gone."""
    never_bound: frozenset[Uid] = frozenset()
    """Pods that were read live for long enough, and were not bound."""
    asked: tuple[AssignedPod, ...] = ()
    """Pods that were read live and were not bound yet: their binding may be under way."""
    expected: frozenset[Uid] = frozenset()
    """Pods that the status has named for moments only: the watch is about to show these bound."""
    refused: str = ""
    """What the API server said when the placeholder was to be made."""
    devices: bool = False
    """Whether the claims of its template can be held."""
    placeholders: PlaceholderMode = PlaceholderMode.REPLACED
    home: Node | None = None
    """The node where it is; or where its placeholder is, while it has none."""
    pods: Mapping[Uid, SchedulerPod] = {}
    """Those that the status names, as they are seen."""
    applicants: tuple[SchedulerPod, ...] = ()
    """Pods that wait, that no reservation names, and that may have this one before others; the most urgent first."""
    strays: tuple[SchedulerPod, ...] = ()
    """Pods that wait, were told to enter this one, and are not named by it any more."""
    shortage_since: WallTime | None = None
    """Since when its placeholders have not got all of the room."""


class ReservationPlan(Struct, frozen=True):
    """What to do, and when to look again."""

    actions: tuple[ReservationAction, ...] = ()
    wake_at: WallTime = NEVER
    short: bool = False
    """Whether placeholders have not got all of the room."""


def decide(view: ReservationView, *, now: WallTime) -> ReservationPlan:
    """Return what to do about a reservation."""
    reservation = view.reservation
    if reservation.metadata.deletion_timestamp is not None:
        return ReservationPlan(actions=_delete_placeholders(view))
    if reservation.status.phase in TERMINAL_PHASES:
        due = collection.deletion_time(reservation, node_gone=view.node_gone)
        return ReservationPlan(
            actions=(*_delete_placeholders(view), *([DeleteReservation()] if due <= now else [])), wake_at=due
        )
    ended = expiry.expired_status(reservation, now=now, node_gone=view.node_gone)
    if ended is not None:
        return ReservationPlan(
            actions=(*_delete_placeholders(view), _patch_status(reservation, ended, _expired_event(ended))), wake_at=now
        )
    wake_at = expiry.expiration_time(reservation)
    fault = reservation_info.from_reservation(reservation).fault
    if (told := _sync_readable_condition(reservation, fault, now=now)) is not None:
        return ReservationPlan(actions=(told,), wake_at=now)
    if reservation.status.phase is not ReservationPhase.AVAILABLE:
        actions = () if fault else _sync_bound(view, now=now) or _schedule_placeholder(view, now=now)
    elif view.placeholders is PlaceholderMode.YIELDING:
        return _plan_yielding(view, now=now, wake_at=wake_at)
    else:
        actions = (*_delete_placeholders(view), *_sync_owners(view, now=now))
    return ReservationPlan(actions=actions, wake_at=wake_at)


def _sync_readable_condition(reservation: Reservation, fault: str, *, now: WallTime) -> PatchReservationStatus | None:
    happening = Trigger.UNREADABLE if fault else Trigger.READABLE
    status = phases.next_status(reservation.status, happening, now=now, message=fault)
    if status is None:
        return None
    told = ReservationEvent(
        reason=ReservationReason.INVALID,
        text=f"{fault}; nobody may use it until that is corrected",
        severity=ReservationEventType.WARNING,
    )
    return _patch_status(reservation, status, *([told] if fault else []))


def _schedule_placeholder(view: ReservationView, *, now: WallTime) -> tuple[ReservationAction, ...]:
    reservation, pod = view.reservation, view.placeholder
    again: tuple[ReservationAction, ...] = ()
    if claim_holders.template_resource_claims(reservation) and not view.devices:
        text, again = CLAIMS_UNSUPPORTED_MESSAGE, _delete_placeholders(view)
    elif pod is None or view.refused:
        text = view.refused
        yielding = view.placeholders is PlaceholderMode.YIELDING
        made = keepers.first_manifest if yielding else placeholders.placeholder_manifest
        again = (CreatePlaceholder(manifest=made(reservation)),) if pod is None else ()
    else:
        condition = pod.condition(POD_SCHEDULED)
        waits = condition is not None and condition.status == "False" and not pod.spec.node_name
        text = condition.message if condition is not None and waits else ""
    if not text:
        return again
    status = phases.next_status(reservation.status, Trigger.UNSCHEDULABLE, now=now, message=text)
    if status is None:
        return again
    told = ReservationEvent(
        reason=ReservationReason.FAILED_SCHEDULING, text=text, severity=ReservationEventType.WARNING
    )
    return (*again, _patch_status(reservation, status, told))


def _sync_owners(view: ReservationView, *, now: WallTime) -> tuple[ReservationAction, ...]:
    reservation = view.reservation
    seen = {each.uid for each in view.consumers}
    known = seen | view.ended | view.never_bound
    missing = {Uid(each.uid): each for each in reservation.status.current_owners if each.uid not in known}
    under_way = [each for each in view.asked if each.uid in missing]
    for each in under_way:
        del missing[each.uid]
    if missing:  # what they take is not known either
        expected = view.expected - reservation_info.pre_allocated_pods(
            reservation
        )  # those run already, and name it later
        asked = {uid: each for uid, each in missing.items() if uid not in expected}
        return tuple(GetPod(key=(each.namespace, each.name), uid=uid) for uid, each in asked.items())
    status = statuses.synced_status(reservation, (*view.consumers, *under_way), now=now, never_bound=view.never_bound)
    if status is None:
        return tuple(_unannotated_owners(view, (*view.consumers, *under_way)))
    told = []
    if status.phase is ReservationPhase.SUCCEEDED:
        names = (
            ", ".join(f"{each.namespace}/{each.name}" for each in status.current_owners) or "an owner that has ended"
        )
        told = [ReservationEvent(reason=ReservationReason.SUCCEEDED, text=f"was allocated once, to {names}")]
    return (_patch_status(reservation, status, *told),)


def _unannotated_owners(view: ReservationView, consumers: Iterable[AssignedPod]) -> Iterator[SetReservationAllocated]:
    """Yield the pods that the reservation was placed over and whose annotation does not name the reservation yet.

    The status names such a pod first, so its annotation can be written after a restart as well.
    """
    before = reservation_info.pre_allocated_pods(view.reservation)
    for each in consumers:
        pod = view.pods.get(each.uid)
        said = (
            allocated_reservation_uid(pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED))
            if pod is not None
            else ""
        )
        if each.uid in before and not each.under_way and said != view.reservation.metadata.uid:
            yield SetReservationAllocated(key=each.key, uid=each.uid, nominate=False, label=False)


def _sync_bound(view: ReservationView, *, now: WallTime) -> tuple[ReservationAction, ...]:
    """Return the write by which a reservation has its place where its placeholder is; nothing before that."""
    pod = view.placeholder
    if view.placeholders is not PlaceholderMode.YIELDING or pod is None or view.home is None:
        return ()
    if pod.metadata.deleting or pod.spec.node_name != view.home.metadata.name:
        return ()
    if pod.terminal:  # its node would not have it: another one may
        return _delete_placeholders(view)
    status = statuses.bound_status(view.reservation, node=pod.spec.node_name, now=now)
    return () if status is None else (_patch_status(view.reservation, status),)


def _plan_yielding(view: ReservationView, *, now: WallTime, wake_at: WallTime) -> ReservationPlan:
    """Return what placeholders that stay are to do; first of all the status must say what is the case."""
    reservation = view.reservation
    if known := _sync_owners(view, now=now):
        return ReservationPlan(actions=known, wake_at=wake_at)
    there = reservation_state(view)
    holding = reservation_info.from_reservation(reservation)
    if view.home is not None and not holding.fault:
        for pod in view.applicants:
            claimant = PodInfo.of(pod)
            if placeholder_handover.matches_node(pod, view.home) and placeholder_handover.can_admit(
                there, holding, claimant, node=view.home
            ):
                consumer = AssignedPod(uid=claimant.uid, key=claimant.key, amounts=claimant.amounts, under_way=True)
                if (status := statuses.status_with_owner(reservation, consumer)) is not None:
                    return ReservationPlan(actions=(_patch_status(reservation, status),), wake_at=wake_at)
    lacking = placeholder_handover.shortage_message(there)
    told, due = _sync_held_condition(view, lacking, now=now)
    dismissed = (ClearReservationAllocated(key=each.metadata.key, uid=each.metadata.uid) for each in view.strays)
    return ReservationPlan(
        actions=(*dismissed, *_as_actions(view, placeholder_handover.plan_handover(there)), *told),
        wake_at=min(wake_at, due),
        short=bool(lacking),
    )


def reservation_state(view: ReservationView) -> ReservationState:
    """Return what there is of a reservation that has its node, and keeps its room with placeholders."""
    reservation = view.reservation
    placed = [each for each in (view.placeholder, *view.others) if each is not None]
    named = [*view.consumers, *view.asked]
    return ReservationState(
        node=reservation.status.node_name,
        held=reservation_info.from_reservation(reservation).amounts,
        once=reservation.spec.allocate_once,
        keepers=tuple(map(Placeholder.of, placed)),
        guests=tuple(_owner_pod(view, each) for each in named),
    )


def _owner_pod(view: ReservationView, consumer: AssignedPod) -> OwnerPod:
    pod = view.pods.get(consumer.uid)
    if pod is not None:
        return OwnerPod.of(pod, inside=Uid(view.reservation.metadata.uid))
    return OwnerPod(key=consumer.key, uid=consumer.uid, amounts=consumer.amounts, bound=not consumer.under_way)


def _as_actions(
    view: ReservationView, moves: Iterable[placeholder_handover.HandoverStep]
) -> Iterator[ReservationAction]:
    taken = {each.metadata.name for each in (view.placeholder, *view.others) if each is not None}
    for move in moves:
        match move:
            case placeholder_handover.PlaceholderRequest():
                number = keepers.next_free_number(view.reservation, taken)
                taken.add(keepers.numbered_name(view.reservation, number=number))
                keeps, standby_for, replaces = move.amounts, move.standby_for, move.replaces
                made = keepers.additional_manifest(
                    view.reservation, number=number, keeps=keeps, standby_for=standby_for, replaces=replaces
                )
                yield CreatePlaceholder(manifest=made)
            case placeholder_handover.PlaceholderRemoval():
                yield DeletePlaceholder(key=move.key, uid=move.uid)
            case _:
                yield move


def _sync_held_condition(
    view: ReservationView, lacking: str, *, now: WallTime
) -> tuple[tuple[ReservationAction, ...], WallTime]:
    """Return the write that tells whether the room is kept, and when to look again: others come and go in a moment."""
    reservation = view.reservation
    if lacking:
        since = now if view.shortage_since is None else view.shortage_since
        if now < since + SHORTAGE_GRACE_PERIOD:
            return (), since + SHORTAGE_GRACE_PERIOD
    text = f"others have room on node {reservation.status.node_name} that is reserved: {lacking}" if lacking else ""
    happening = Trigger.LOST if lacking else Trigger.KEPT
    status = phases.next_status(reservation.status, happening, now=now, message=text)
    if status is None:
        return (), NEVER
    told = ReservationEvent(reason=ReservationReason.TAKEN, text=text, severity=ReservationEventType.WARNING)
    return (_patch_status(reservation, status, *([told] if lacking else [])),), NEVER


def _delete_placeholders(view: ReservationView) -> tuple[DeletePlaceholder, ...]:
    return tuple(
        DeletePlaceholder(key=pod.metadata.key, uid=pod.metadata.uid)
        for pod in (view.placeholder, *view.others)
        if pod is not None and not pod.metadata.deleting
    )


def _expired_event(status: ReservationStatus) -> ReservationEvent:
    condition = status.condition(phases.CONDITION_READY)
    return ReservationEvent(
        reason=ReservationReason.EXPIRED, text=condition.message if condition is not None else "is over"
    )


def _patch_status(
    reservation: Reservation, status: ReservationStatus, *told: ReservationEvent
) -> PatchReservationStatus:
    return PatchReservationStatus(body={"status": statuses.status_patch(reservation.status, status)}, told=told)
