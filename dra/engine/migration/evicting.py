"""The second half of a migration: the eviction of the pod, and the pod that uses the Reservation then.

A pod is evicted only if its Reservation is Available on another node, no pod uses it, and its replacement fits into it.
From then on a pod that is gone counts as evicted, whoever ended it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.api.descheduler_configuration import MigrationControllerArgs
from dra.api.migration.model import EvictionPolicy
from dra.api.migration.well_known import ANNOTATION_EVICT_REASON, ANNOTATION_SOFT_EVICTION
from dra.api.object_fields import ObjectReference
from dra.api.reservations.model import Reservation, ReservationPhase
from dra.api.reservations.well_known import ANNOTATION_RESERVATION_ALLOCATED
from dra.engine.instants import WallTime
from dra.engine.migration.conditions import Step, is_true, report_failure, report_step, report_success
from dra.engine.migration.plan import EvictPod, MigrationEvent, MigrationPlan, ReadPod, act
from dra.engine.migration.pod_state import PodState, pod_state
from dra.engine.migration.reasons import MigrationConditionType, MigrationReason
from dra.engine.migration.refusals import eviction_policy, policy_refusal
from dra.engine.migration.reservation_fit import is_used
from dra.engine.migration.reserving import (
    is_for_pending_pod,
    lost_reservation,
    missing_pod_message,
    unmovable,
    unsuitable,
)
from dra.engine.migration.view import JobView, MigrationPod
from dra.engine.reservations.pod_info import allocated_reservation_uid
from dra.model.event_type import EventType
from dra.model.meta import Key

EVICTION_RETRY_SECONDS: Final = 3.0
"""Seconds between an eviction that the API server refused and the next."""

OWNER_SETTLES_SECONDS: Final = 10.0
"""Seconds after the creation of a pod in the Reservation until the watch of pods shows that the job's pod is gone."""

DEFAULT_EVICT_REASON: Final = "NotSet"

_EVICTION: Final = MigrationConditionType.EVICTION
_BOUND: Final = MigrationConditionType.POD_BOUND_RESERVATION
_READY: Final = MigrationConditionType.BOUND_POD_READY


def has_evicted(view: JobView) -> bool:
    """Return whether the job has reported that its pod is gone, or that a pod uses its Reservation."""
    return is_true(view.job, _EVICTION) or is_true(view.job, _BOUND)


def evict(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    """Return the next action from an Available Reservation until the pod is gone."""
    job = view.job
    if (lost := lost_reservation(view, now=now)) is not None:
        return lost
    found = view.reservation
    if found is None:
        return act(None)
    if is_for_pending_pod(view):
        return _await_scheduling(view, found, now=now)
    state = pod_state(view)
    if state in {PodState.GONE, PodState.FAILED}:
        return act(report_step(job, _complete(view), now=now, event=_complete_event(view)))
    if state is PodState.TERMINATING or (view.pod is not None and view.evicted == view.pod.metadata.uid):
        return act(None)
    return unmovable(view, now=now) or _evict_present(view, found, args=args, now=now)


def _evict_present(view: JobView, found: Reservation, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    job, pod = view.job, view.pod
    if pod is None or view.pod_template is None:
        return act(ReadPod(key=_key(view)))
    if is_used(found) and (pause := _await_settled_owner(view, found, now=now)) is not None:
        return pause
    if text := unsuitable(view, found) or policy_refusal(job, pod, args=args):
        return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now))
    if found.status.phase is not ReservationPhase.AVAILABLE:
        return act(None)
    return _request_eviction(view, args=args, now=now, reservation=found.metadata.name)


def _await_settled_owner(view: JobView, found: Reservation, *, now: WallTime) -> MigrationPlan | None:
    """Return the plan while the pod in the Reservation may be the replacement; None once it is another pod for sure.

    The watch of Reservations may be ahead of the watch of pods, which is about to show then that the pod is gone.
    """
    owner = next(iter(found.status.current_owners), None)
    if owner is None:
        return None
    bound = _bound_pod(view, owner)
    if bound is None:
        return None if view.bound_pod_gone else act(ReadPod(key=(owner.namespace, owner.name)))
    settled_at = datetime.fromisoformat(bound.metadata.creation_timestamp).timestamp() + OWNER_SETTLES_SECONDS
    return act(None, wake_at=settled_at) if now < settled_at else None


def evict_directly(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    """Return the next action in mode EvictDirectly: nothing is reserved, and the job ends with the eviction."""
    job, state = view.job, pod_state(view)
    if state is PodState.UNSEEN:
        return act(ReadPod(key=_key(view)))
    begun = job.status.condition(_EVICTION) is not None
    if state is PodState.GONE and not begun:
        return act(report_failure(job, MigrationReason.MISSING_POD, missing_pod_message(view), now=now))
    if state is PodState.GONE:
        message = _complete_event(view)
        return act(report_success(job, message.message, now=now, step=_complete(view), event=message))
    if state is PodState.TERMINATING and begun:
        return act(None)
    if view.pod is not None and (text := policy_refusal(job, view.pod, args=args)):
        return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now))
    return _request_eviction(view, args=args, now=now)


def _request_eviction(
    view: JobView, *, args: MigrationControllerArgs, now: WallTime, reservation: str = ""
) -> MigrationPlan:
    """Return the announcement of the eviction, then the eviction, then the announcement of each new error."""
    job, pod = view.job, view.pod
    if job.spec.paused or pod is None:
        return act(None)
    name = "/".join(_key(view))
    step = Step(type=_EVICTION, done=False, reason=MigrationReason.EVICTING, message=f'Try to evict Pod "{name}"')
    condition = job.status.condition(_EVICTION)
    if condition is None or condition.reason != MigrationReason.EVICTING:
        event = MigrationEvent(reason=MigrationReason.EVICTING, message=step.message)
        return act(report_step(job, step, now=now, event=event))
    policy = eviction_policy(job, pod, default=args.eviction_policy)
    asked = policy is EvictionPolicy.SOFT_EVICTION and pod.metadata.annotation(ANNOTATION_SOFT_EVICTION) is not None
    if asked or view.evicted == pod.metadata.uid or pod.metadata.deleting:
        return act(None)
    retry_at = 0.0
    if view.evict_error:
        text = f'Failed evict Pod "{name}" caused by {view.evict_error}'
        event = MigrationEvent(reason=MigrationReason.EVICTING, message=text, type=EventType.WARNING)
        failed = Step(type=_EVICTION, done=False, reason=MigrationReason.EVICTING, message=text)
        if (report := report_step(job, failed, now=now, event=event)) is not None:
            return act(report)
        retry_at = view.evict_failed_at + EVICTION_RETRY_SECONDS
    if now < retry_at:
        return act(None, wake_at=retry_at)
    given = job.spec.delete_options or {}
    preconditions = given.get("preconditions")
    kept = preconditions if isinstance(preconditions, Mapping) else {}
    options: dict[str, Any] = {**given, "preconditions": {**kept, "uid": pod.metadata.uid}}
    return act(
        EvictPod(
            key=_key(view),
            uid=pod.metadata.uid,
            policy=policy,
            delete_options=options,
            reservation=reservation,
            reason=job.metadata.annotations.get(ANNOTATION_EVICT_REASON) or DEFAULT_EVICT_REASON,
        )
    )


def _key(view: JobView) -> Key:
    return (view.job.spec.pod_ref.namespace, view.job.spec.pod_ref.name)


def _complete(view: JobView) -> Step:
    return Step(type=_EVICTION, reason=MigrationReason.EVICT_COMPLETE, message=_complete_event(view).message)


def _complete_event(view: JobView) -> MigrationEvent:
    return MigrationEvent(
        reason=MigrationReason.EVICT_COMPLETE, message=f'Pod "{"/".join(_key(view))}" has been evicted'
    )


def _await_scheduling(view: JobView, found: Reservation, *, now: WallTime) -> MigrationPlan:
    """Return the plan while the job's own pod, which has no node yet, is to use the Reservation."""
    job, kind = view.job, MigrationConditionType.POD_SCHEDULED
    if found.status.current_owners:
        return _report_bound(view, found, now=now)
    if pod_state(view) is PodState.TERMINATING:
        return act(None)
    if (stop := unmovable(view, now=now)) is not None:
        return stop
    pod, name = view.pod, found.metadata.name
    if pod is None or not pod.spec.node_name:
        condition = pod.condition("PodScheduled") if pod is not None else None
        text = condition.message if condition is not None else ""
        step = Step(type=kind, done=False, reason=MigrationReason.UNSCHEDULABLE, message=text)
        return act(report_step(job, step, now=now))
    annotation = pod.metadata.annotation(ANNOTATION_RESERVATION_ALLOCATED)
    if allocated_reservation_uid(annotation) == found.metadata.uid:
        return act(None)  # the status of the Reservation is about to name the pod
    text = f'Pod "{"/".join(_key(view))}" runs on node "{pod.spec.node_name}" without Reservation "{name}"'
    return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now))


def follow_replacement(view: JobView, *, now: WallTime) -> MigrationPlan:
    """Return the next action from the eviction until the pod that uses the Reservation is ready."""
    job = view.job
    if job.status.pod_ref is not None:
        return _await_ready(view, job.status.pod_ref, now=now)
    if (lost := lost_reservation(view, now=now)) is not None:
        return lost
    found = view.reservation
    if found is None:
        return act(None)
    if found.status.current_owners:
        return _report_bound(view, found, now=now)
    if found.status.phase is ReservationPhase.SUCCEEDED:
        text = f'the Pod that used Reservation "{found.metadata.name}" has ended already'
        return act(report_failure(job, MigrationReason.MISSING_POD, text, now=now))
    text = f'Wait for a Pod to bind Reservation "{found.metadata.name}"'
    reason = MigrationReason.WAIT_FOR_POD_BIND_RESERVATION
    step = Step(type=_BOUND, done=False, reason=reason, message=text)
    return act(report_step(job, step, now=now, event=MigrationEvent(reason=reason, message=text)))


def _report_bound(view: JobView, found: Reservation, *, now: WallTime) -> MigrationPlan:
    """Return the plan that records the pod in the Reservation, which the status names before the pod is bound."""
    job, owner = view.job, found.status.current_owners[0]
    bound = _bound_pod(view, owner)
    if found.status.phase is not ReservationPhase.SUCCEEDED and (bound is None or not bound.spec.node_name):
        unread = bound is None and not view.bound_pod_gone
        return act(ReadPod(key=(owner.namespace, owner.name)) if unread else None)
    text = f'Bind Pod "{owner.namespace}/{owner.name}" in Reservation "{found.metadata.name}"'
    if bound is not None and _is_sibling(view, bound):
        text += f', which was made for the replacement of Pod "{"/".join(_key(view))}"'
    kinds = [MigrationConditionType.RESERVATION_BOUND]
    if job.status.condition(MigrationConditionType.POD_SCHEDULED) is not None:
        kinds.append(MigrationConditionType.POD_SCHEDULED)
    event = MigrationEvent(reason=MigrationReason.POD_BOUND_RESERVATION, message=text)
    pod = ObjectReference(namespace=owner.namespace, name=owner.name, uid=owner.uid)
    step = Step(type=_BOUND, message=text, also_done=tuple(kinds), pod=pod)
    return act(report_step(job, step, now=now, event=event))


def _bound_pod(view: JobView, wanted: ObjectReference) -> MigrationPod | None:
    pod = view.bound_pod
    return pod if pod is not None and pod.metadata.uid == wanted.uid else None


def _is_sibling(view: JobView, bound: MigrationPod) -> bool:
    """Return whether a pod is older than the eviction, so that another pod is the replacement."""
    scheduled = view.job.status.condition(MigrationConditionType.RESERVATION_SCHEDULED)
    before = scheduled.last_transition_time if scheduled is not None else None
    pending = bound.metadata.uid == view.job.spec.pod_ref.uid
    return not pending and before is not None and bound.metadata.creation_timestamp < before.strftime(_TIMESTAMP)


_TIMESTAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
"""Timestamps of the API in this format compare as texts."""


def _await_ready(view: JobView, wanted: ObjectReference, *, now: WallTime) -> MigrationPlan:
    job, pod, name = view.job, _bound_pod(view, wanted), f"{wanted.namespace}/{wanted.name}"
    bound = job.status.condition(_BOUND)
    if is_true(job, _READY):
        text = bound.message if bound is not None else f'Bind Pod "{name}"'
        event = MigrationEvent(reason=MigrationReason.COMPLETE, message=text)
        return act(report_success(job, text, now=now, event=event))
    replaced = view.bound_pod is not None and pod is None
    if pod is None and not view.bound_pod_gone and not replaced:
        return act(ReadPod(key=(wanted.namespace, wanted.name)))
    if pod is None or pod.status.phase == "Failed":
        text = f'Pod "{name}" has ended before it was ready'
        return act(report_failure(job, MigrationReason.MISSING_POD, text, now=now))
    ready = pod.condition("Ready")
    if pod.status.phase == "Succeeded" or (ready is not None and ready.status == "True"):
        text = f'Pod "{name}" is ready'
        event = MigrationEvent(reason=MigrationReason.BOUND_POD_READY, message=text)
        return act(report_step(job, Step(type=_READY, message=text), now=now, event=event))
    reason = MigrationReason.WAIT_FOR_BOUND_POD_READY
    step = Step(type=_READY, done=False, reason=reason, message=f'Wait for Pod "{name}" to become ready')
    return act(report_step(job, step, now=now))
