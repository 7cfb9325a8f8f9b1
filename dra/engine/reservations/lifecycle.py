"""The decisions on one reservation: create or delete placeholders, patch the status, delete the object.

1. A reservation that has ended stays for a while, for users to see, and is then deleted; its placeholders go at once.
2. A reservation that has expired, or whose node is gone, ends, placed or not.
3. A reservation that cannot be read reports that in a condition and is not placed; what it holds stays held.
4. A pending reservation has a placeholder, and reports why kube-scheduler finds no node for the placeholder.
5. An available reservation reports its owner pods. If an extender holds the capacity, it needs no placeholder; in mode
   yielding placeholders stay, and give way to owner pods (`placeholder_handover`).

A pod that the status names stays an owner pod until it is *known* to have ended, or never to have been bound: only a
live read shows that, never its absence from a watch.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from dra.api.configuration import PlaceholderMode
from dra.api.reservations.model import Reservation, ReservationPhase, ReservationStatus
from dra.engine.instants import NEVER, Moment, WallTime
from dra.engine.reservations import (
    phases,
    placeholder_handover,
    placeholders,
    reservation_info,
    statuses,
    translated_templates,
    unreadable_reservations,
)
from dra.engine.reservations.actions import (
    ClearReservationAllocated,
    CreatePlaceholder,
    DeletePlaceholder,
    DeleteReservation,
    GetPod,
    PatchReservationStatus,
    RecordShortage,
    ReservationAction,
    ReservationEvent,
    ReservationPlan,
    SetReservationAllocated,
)
from dra.engine.reservations.phases import TERMINAL_PHASES, Trigger
from dra.engine.reservations.placeholder_handover import OwnerPod, ReservationState
from dra.engine.reservations.placeholders import Placeholder
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.reservation_reasons import ReservationReason
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.reservations.view import AnyReservationView, ReservationView, UnreadableReservation
from dra.engine.translation import template_names
from dra.model.event_type import EventType
from dra.model.meta import Uid
from dra.model.pods import POD_SCHEDULED

NODE_CHECK_INTERVAL: Final = 5.0
"""Seconds from the end of a node, as the watch shows it, to the live read that confirms it. A node that exists although
the watch does not show it is read again as often: the watch may never show its end.
"""

_AGAIN: Final = -NEVER
"""`Plan.wake_at` where the responses to the actions make the next decision possible: it follows at once."""

SHORTAGE_GRACE_PERIOD: Final = 10.0
"""Seconds for which a placeholder may wait for its own capacity: kube-scheduler retries after ten at the latest."""


UNTRIED_SECONDS: Final = 5.0
"""Seconds from the creation of a placeholder until its reservation reports that no scheduler has tried the placeholder:
the scheduler that the template names may not exist. A scheduler that has placed another reservation since then exists,
and has not come to this one yet: a report would be wrong, and costs two writes while the API server is busy."""

CLAIMS_UNSUPPORTED_MESSAGE: Final = (
    "spec.template.spec.resourceClaims: devices are reserved in mode replace only; "
    "start the controller with --mode replace, or remove resourceClaims from the template"
)
"""Message on a reservation that the controller could hold only in part."""

GPUS_UNSUPPORTED_MESSAGE: Final = (
    "spec.template.spec: shares of GPUs (koordinator.sh/gpu) are reserved in mode replace only; "
    "start the controller with --mode replace, or remove the shares from the template"
)
"""Message on a reservation whose shares of GPUs the controller could not hand over."""

AMOUNTS_MISSING_MESSAGE: Final = (
    "spec.template.spec.containers: request nothing, and placeholders that stay (placeholders: yielding) keep only "
    "what is requested: an owner pod that requests nothing never waits for them, so the reservation would not notice "
    "the pod; set resources.requests, or let kube-scheduler call the extender"
)
"""Message on a reservation of devices alone, in mode yielding."""

AMOUNTS_ONLY_MESSAGE: Final = (
    "CPUs are held as an amount of the node: in mode alongside no claim can be held, because kube-controller-manager "
    "makes the claims of pods. Owner pods get CPUs of the node when they start, not CPUs that were kept for them"
)
"""Message on a reservation of pods that are bound to CPUs, where claims cannot be handed over."""

CLAIMS_HELD_AS_WHOLE_MESSAGE: Final = (
    "Claims are held as a whole ({claims}): they serve one owner pod at a time, which asks for the same. For owner "
    "pods that ask for less, such as one card each, create a Reservation for each pod"
)
"""Message on a reservation for several pods, whose claims are not divided among these."""

EXTENDED_RESOURCES_MESSAGE: Final = (
    "The devices of claim {claim} are not held: the scheduler made the claim for extended resources of the "
    "placeholder, and the claim goes with the placeholder. Request the devices by a ResourceClaimTemplate, or cards by "
    "koordinator.sh/gpu"
)
"""Message on a reservation of devices by the name of an extended resource that a DeviceClass serves."""

FINAL_MESSAGES: Final = frozenset({CLAIMS_UNSUPPORTED_MESSAGE, GPUS_UNSUPPORTED_MESSAGE, AMOUNTS_MISSING_MESSAGE})
"""Messages on reservations that never get a node, however long they wait."""


def decide(view: AnyReservationView, now: Moment) -> ReservationPlan:
    """Return the plan for a reservation, or for an object that cannot be read as one."""
    if isinstance(view, UnreadableReservation):
        return unreadable_reservations.decide(view, now=now.wall)
    if view.reread_at <= now.instant:
        reads = tuple(GetPod(key=pod.key, uid=pod.uid) for pod in view.unbound_pods)
        return ReservationPlan(actions=reads, wake_at=_AGAIN)
    plan = _plan(view, now=now.wall)
    actions, wake_at = plan.actions, min(view.reread_at, view.expected_until, view.eligible_at)
    if now.instant < view.create_retry_at:
        actions = tuple(action for action in actions if not isinstance(action, CreatePlaceholder))
        wake_at = min(wake_at, view.create_retry_at)
    if view.node_is_read and not view.node_gone:
        wake_at = min(wake_at, now.instant + NODE_CHECK_INTERVAL)
    if any(isinstance(action, PatchReservationStatus | GetPod) for action in actions):
        wake_at = _AGAIN
    return msgspec.structs.replace(plan, actions=actions, reasons=_placement_events(view), wake_at=wake_at)


def node_to_read(view: AnyReservationView) -> str:
    """Return the node whose absence a live read must confirm before a decision; empty if there is none."""
    if isinstance(view, UnreadableReservation) or view.node_is_read or not view.node_gone:
        return ""
    return view.reservation.status.node_name


def _placement_events(view: ReservationView) -> tuple[ReservationEvent, ...]:
    """Return the Event on a reservation that has got its node."""
    if not view.newly_placed:
        return ()
    message = f"Successfully assigned {view.name} to {view.reservation.status.node_name}"
    return (ReservationEvent(reason=ReservationReason.SCHEDULED, message=message),)


def _plan(view: ReservationView, *, now: WallTime) -> ReservationPlan:
    reservation = view.reservation
    if reservation.metadata.deletion_timestamp is not None:
        return ReservationPlan(actions=_delete_placeholders(view))
    if reservation.status.phase in TERMINAL_PHASES:
        due = phases.deletion_time(reservation, node_gone=view.node_gone)
        return ReservationPlan(
            actions=(*_delete_placeholders(view), *([DeleteReservation()] if due <= now else [])), wake_at_wall=due
        )
    ended = phases.expired_status(reservation, now=now, node_gone=view.node_gone)
    if ended is not None:  # the placeholders go afterwards: the write fails if the reservation was extended meanwhile
        return ReservationPlan(actions=(_patch_status(reservation, ended, _expired_event(ended)),))
    wake_at = phases.expiration_time(reservation)
    parse_error = reservation_info.from_reservation(reservation).parse_error
    if update := _sync_readable_condition(reservation, parse_error, now=now) or _sync_claims_condition(view, now=now):
        return ReservationPlan(actions=update)
    if reservation.status.phase is not ReservationPhase.AVAILABLE:
        actions = () if parse_error else _sync_bound(view, now=now) or _schedule_placeholder(view, now=now)
        if (due := _untried_at(view)) > now:
            wake_at = min(wake_at, due)
    elif view.policy.placeholders is PlaceholderMode.YIELDING:
        return _plan_yielding(view, now=now, wake_at=wake_at)
    else:
        actions = (*_delete_placeholders(view), *_sync_owners(view, now=now))
    return ReservationPlan(actions=actions, wake_at_wall=wake_at)


def _sync_readable_condition(
    reservation: Reservation, parse_error: str, *, now: WallTime
) -> tuple[PatchReservationStatus, ...]:
    if not parse_error:
        return _patch_conditions(reservation, Trigger.READABLE, "", now=now)
    text = f"{parse_error}; no pod can use the reservation until the field is corrected"
    event = _warning(ReservationReason.INVALID, text)
    return _patch_conditions(reservation, Trigger.UNREADABLE, parse_error, event, now=now)


def _sync_claims_condition(view: ReservationView, *, now: WallTime) -> tuple[PatchReservationStatus, ...]:
    """Return the write that reports which claims of the pods the reservation does not hold."""
    reservation, meta = view.reservation, view.reservation.metadata
    if (name := _extended_claim(view)) and not lacks_extended_resources(reservation):
        text = EXTENDED_RESOURCES_MESSAGE.format(claim=name)
        event = _warning(ReservationReason.EXTENDED_RESOURCES_NOT_HELD, text)
        return _patch_conditions(reservation, Trigger.EXTENDED_RESOURCES, text, event, now=now)
    if not view.policy.translates_requests:
        return ()
    if view.policy.supports_claims:
        return _sync_whole_claims(reservation, now=now)
    if not translated_templates.may_bind_cpus(reservation.spec.template, meta.labels, meta.annotations):
        return ()
    event = _warning(ReservationReason.AMOUNTS_ONLY, AMOUNTS_ONLY_MESSAGE)
    return _patch_conditions(reservation, Trigger.NO_CLAIMS, AMOUNTS_ONLY_MESSAGE, event, now=now)


def _extended_claim(view: ReservationView) -> str:
    """Return the claim that the scheduler made for extended resources of the placeholder; empty if there is none."""
    extended = view.placeholder.status.extended_resource_claim_status if view.placeholder is not None else None
    return extended.resource_claim_name if extended is not None else ""


def lacks_extended_resources(reservation: Reservation) -> bool:
    """Return whether a condition says that devices of extended resources are not held."""
    condition = reservation.status.condition(phases.CONDITION_CLAIMS_HELD)
    return condition is not None and condition.reason == ReservationReason.EXTENDED_RESOURCES_NOT_HELD


def _sync_whole_claims(reservation: Reservation, *, now: WallTime) -> tuple[PatchReservationStatus, ...]:
    """Return the write that reports claims which serve one owner pod at a time, where several may come."""
    meta, template = reservation.metadata, reservation.spec.template
    if (
        reservation.spec.allocate_once
        or lacks_extended_resources(reservation)
        or not translated_templates.may_have_claims(template, meta.labels)
    ):
        return ()
    entries = translated_templates.entries(template, meta.labels, meta.annotations)
    if not entries:
        return ()
    text = CLAIMS_HELD_AS_WHOLE_MESSAGE.format(
        claims=", ".join(template_names.name_of(entry.request) for entry in entries)
    )
    event = ReservationEvent(reason=ReservationReason.CLAIMS_HELD_AS_WHOLE, message=text)
    return _patch_conditions(reservation, Trigger.WHOLE_CLAIMS, text, event, now=now)


def _schedule_placeholder(view: ReservationView, *, now: WallTime) -> tuple[ReservationAction, ...]:
    reservation, pod = view.reservation, view.placeholder
    actions: tuple[ReservationAction, ...] = ()
    yielding = view.policy.placeholders is PlaceholderMode.YIELDING
    # A placeholder that holds amounts without the devices would keep out other pods and serve no owner: no capacity is
    # held until all of it can be.
    if reservation_info.template_resource_claims(reservation) and not view.policy.supports_claims:
        text, actions = CLAIMS_UNSUPPORTED_MESSAGE, _delete_placeholders(view)
    elif translated_templates.asks_for_gpus(reservation.spec.template) and not view.policy.supports_claims:
        text, actions = GPUS_UNSUPPORTED_MESSAGE, _delete_placeholders(view)
    elif yielding and not placeholders.without_pods(reservation_info.from_reservation(reservation).allocatable):
        text, actions = AMOUNTS_MISSING_MESSAGE, _delete_placeholders(view)
    elif pod is None or view.create_error:
        text = view.create_error
        made = placeholders.first_manifest if yielding else placeholders.placeholder_manifest
        claims = view.policy.supports_claims
        actions = (CreatePlaceholder(manifest=made(reservation, supports_claims=claims)),) if pod is None else ()
    else:
        condition = pod.condition(POD_SCHEDULED)
        unschedulable = condition is not None and condition.status == "False" and not pod.spec.node_name
        text = condition.message if condition is not None and unschedulable else ""
        text = placeholders.untried_text(pod) if _untried_at(view) <= now else text
    if not text:
        return actions
    event = _warning(ReservationReason.FAILED_SCHEDULING, text)
    return (*actions, *_patch_conditions(reservation, Trigger.UNSCHEDULABLE, text, event, now=now))


def _untried_at(view: ReservationView) -> WallTime:
    """Return from when on a reservation reports that no scheduler has tried its placeholder; `NEVER` if one has."""
    pod = view.placeholder
    if pod is None or pod.spec.node_name or pod.condition(POD_SCHEDULED) is not None:
        return NEVER
    created = pod.metadata.creation_timestamp
    if not created:
        return NEVER
    return max(datetime.fromisoformat(created).timestamp(), view.scheduler_seen_at) + UNTRIED_SECONDS


def _sync_owners(view: ReservationView, *, now: WallTime) -> tuple[ReservationAction, ...]:
    reservation = view.reservation
    seen = {pod.uid for pod in view.assigned_pods}
    never_bound = view.never_bound | (view.pods_without_claims - seen)
    known = seen | view.ended_pods | never_bound
    missing = {Uid(owner.uid): owner for owner in reservation.status.current_owners if owner.uid not in known}
    binding = [pod for pod in view.unbound_pods if pod.uid in missing]
    for pod in binding:
        del missing[pod.uid]
    if missing:  # what these pods take is not known either
        expected_pods = view.expected_pods - reservation_info.pre_allocated_pods(
            reservation
        )  # already running; the annotation follows
        overdue = {uid: owner for uid, owner in missing.items() if uid not in expected_pods}
        return tuple(GetPod(key=(owner.namespace, owner.name), uid=uid) for uid, owner in overdue.items())
    status = statuses.synced_status(reservation, (*view.assigned_pods, *binding), now=now, never_bound=never_bound)
    if status is None:
        return tuple(_unannotated_owners(view, (*view.assigned_pods, *binding)))
    if status.phase is not ReservationPhase.SUCCEEDED:
        return (_patch_status(reservation, status),)
    names = ", ".join(f"{owner.namespace}/{owner.name}" for owner in status.current_owners) or "an owner that has ended"
    text = f"Allocated to {names}; with allocateOnce the reservation takes no other pod"
    return (_patch_status(reservation, status, ReservationEvent(reason=ReservationReason.SUCCEEDED, message=text)),)


def _unannotated_owners(
    view: ReservationView, assigned_pods: Iterable[AssignedPod]
) -> Iterator[SetReservationAllocated]:
    """Yield the pods that the reservation was placed over and whose annotation does not name the reservation yet.

    The status names such a pod first, so its annotation can be written after a restart as well.
    """
    pre_allocated = reservation_info.pre_allocated_pods(view.reservation)
    for owner in assigned_pods:
        pod = view.pods.get(owner.uid)
        annotated = allocated_reservation_uid(pod.metadata) if pod is not None else ""
        if owner.uid in pre_allocated and not owner.binding and annotated != view.reservation.metadata.uid:
            yield SetReservationAllocated(key=owner.key, uid=owner.uid, node="", label=False)


def _sync_bound(view: ReservationView, *, now: WallTime) -> tuple[ReservationAction, ...]:
    """Return the write that places a reservation on the node of its bound placeholder; nothing before the binding."""
    pod = view.placeholder
    if view.policy.placeholders is not PlaceholderMode.YIELDING or pod is None or view.node is None:
        return ()
    if pod.metadata.deleting or pod.spec.node_name != view.node.metadata.name:
        return ()
    if pod.terminal:  # rejected by the kubelet: another node may take it
        return _delete_placeholders(view)
    status = statuses.bound_status(view.reservation, node=pod.spec.node_name, now=now)
    return () if status is None else (_patch_status(view.reservation, status),)


def _plan_yielding(view: ReservationView, *, now: WallTime, wake_at: WallTime) -> ReservationPlan:
    """Return the plan for a reservation whose placeholders stay; the status must be correct before anything else."""
    shortage = ""
    actions = _sync_owners(view, now=now) or _admit_candidate(view)
    if not actions:
        state = reservation_state(view)
        shortage = placeholder_handover.shortage_message(state)
        updates, due = _sync_held_condition(view, shortage, now=now)
        cleared = (ClearReservationAllocated(key=pod.metadata.key, uid=pod.metadata.uid) for pod in view.stale_pods)
        actions = (*cleared, *_as_actions(view, placeholder_handover.plan_handover(state)), *updates)
        wake_at = min(wake_at, due)
    if bool(shortage) != (view.shortage_since is not None):
        actions = (*actions, RecordShortage(since=now if shortage else None))
    return ReservationPlan(actions=actions, wake_at_wall=wake_at)


def _admit_candidate(view: ReservationView) -> tuple[ReservationAction, ...]:
    """Return the write that names the first candidate pod which can be admitted now; nothing if none can."""
    info = reservation_info.from_reservation(view.reservation)
    if view.node is None or info.parse_error:
        return ()
    state = reservation_state(view)
    for pod in view.candidate_pods:
        pod_info = PodInfo.from_pod(pod)
        if pod_info.uid in view.pods_without_claims:
            continue  # cluster autoscaler fails on a nominated pod whose claim does not exist
        if placeholder_handover.matches_node(pod, view.node) and placeholder_handover.can_admit(
            state, info, pod_info, node=view.node
        ):
            owner = AssignedPod.from_pod_info(pod_info, binding=True)
            if (status := statuses.status_with_owner(view.reservation, owner)) is not None:
                return (_patch_status(view.reservation, status),)
    return ()


def reservation_state(view: ReservationView) -> ReservationState:
    """Return the state of a reservation that has its node and keeps its capacity with placeholders."""
    reservation = view.reservation
    placeholder_pods = [pod for pod in (view.placeholder, *view.other_placeholders) if pod is not None]
    unbound_pods = (pod for pod in view.unbound_pods if pod.uid not in view.pods_without_claims)
    owner_pods = [*view.assigned_pods, *unbound_pods]
    return ReservationState(
        node=reservation.status.node_name,
        allocatable=reservation_info.from_reservation(reservation).allocatable,
        allocate_once=reservation.spec.allocate_once,
        placeholders=tuple(map(Placeholder.from_pod, placeholder_pods)),
        owner_pods=tuple(_owner_pod(view, pod) for pod in owner_pods),
    )


def _owner_pod(view: ReservationView, assigned: AssignedPod) -> OwnerPod:
    pod = view.pods.get(assigned.uid)
    if pod is not None:
        return OwnerPod.from_pod(pod, reservation=Uid(view.reservation.metadata.uid))
    return OwnerPod(key=assigned.key, uid=assigned.uid, amounts=assigned.amounts, is_bound=not assigned.binding)


def _as_actions(
    view: ReservationView, steps: Iterable[placeholder_handover.HandoverStep]
) -> Iterator[ReservationAction]:
    taken = {pod.metadata.name for pod in (view.placeholder, *view.other_placeholders) if pod is not None}
    for step in steps:
        match step:
            case placeholder_handover.PlaceholderRequest():
                number = placeholders.next_free_number(view.reservation, taken)
                taken.add(placeholders.numbered_name(view.reservation, number=number))
                requests, standby_for, replaces = step.amounts, step.standby_for, step.replaces
                made = placeholders.additional_manifest(
                    view.reservation, number=number, requests=requests, standby_for=standby_for, replaces=replaces
                )
                yield CreatePlaceholder(manifest=made)
            case _:
                yield step


def _sync_held_condition(
    view: ReservationView, shortage: str, *, now: WallTime
) -> tuple[tuple[ReservationAction, ...], WallTime]:
    """Return the write of condition Held, and when to decide again: other pods come and go within a moment."""
    reservation = view.reservation
    if not shortage:
        return _patch_conditions(reservation, Trigger.KEPT, "", now=now), NEVER
    since = now if view.shortage_since is None else view.shortage_since
    if now < since + SHORTAGE_GRACE_PERIOD:
        return (), since + SHORTAGE_GRACE_PERIOD
    text = f"Other pods use reserved capacity on node {reservation.status.node_name}: {shortage}"
    event = _warning(ReservationReason.RESERVED_CAPACITY_TAKEN, text)
    return _patch_conditions(reservation, Trigger.LOST, text, event, now=now), NEVER


def _delete_placeholders(view: ReservationView) -> tuple[DeletePlaceholder, ...]:
    return tuple(
        DeletePlaceholder(key=pod.metadata.key, uid=pod.metadata.uid)
        for pod in (view.placeholder, *view.other_placeholders)
        if pod is not None and not pod.metadata.deleting
    )


def _expired_event(status: ReservationStatus) -> ReservationEvent:
    condition = status.condition(phases.CONDITION_READY)
    return ReservationEvent(
        reason=ReservationReason.EXPIRED,
        message=condition.message if condition is not None else "The reservation has expired",
    )


def _warning(reason: ReservationReason, message: str) -> ReservationEvent:
    return ReservationEvent(reason=reason, message=message, type=EventType.WARNING)


def _patch_conditions(
    reservation: Reservation, trigger: Trigger, message: str, *events: ReservationEvent, now: WallTime
) -> tuple[PatchReservationStatus, ...]:
    """Return the write of the conditions that a trigger sets; nothing if the status has them."""
    status = phases.next_status(reservation.status, trigger, now=now, message=message)
    return () if status is None else (_patch_status(reservation, status, *events),)


def _patch_status(
    reservation: Reservation, status: ReservationStatus, *events: ReservationEvent
) -> PatchReservationStatus:
    return PatchReservationStatus(body={"status": statuses.status_patch(reservation.status, status)}, events=events)
