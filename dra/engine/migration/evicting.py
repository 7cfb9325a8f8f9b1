"""The eviction of the pod that a job migrates.

A pod is evicted only if its Reservation is Available on another node, no pod uses it, and its replacement fits into it.
From then on a pod that is gone counts as evicted, whoever ended it.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import PodMigrationJob
from dra.api.migration.well_known import ANNOTATION_EVICT_REASON, ANNOTATION_EVICT_TRIGGER
from dra.api.reservations.model import Reservation, ReservationPhase
from dra.engine.instants import WallTime
from dra.engine.migration import exchange, replacement
from dra.engine.migration.conditions import (
    Step,
    has_evicted_pod,
    report_failure,
    report_step,
    report_success,
)
from dra.engine.migration.plan import EvictPod, MigrationPlan, ReadPod, act
from dra.engine.migration.pod_state import PodState, created_at, pod_state
from dra.engine.migration.reasons import MigrationConditionType, MigrationReason
from dra.engine.migration.refusals import eviction_policy, is_requested_already, policy_refusal
from dra.engine.migration.reservation_fit import is_used
from dra.engine.migration.reserving import (
    is_for_pending_pod,
    is_halted,
    lost_reservation,
    missing_pod_message,
    refer_to,
    report_node,
    unmovable,
    unsuitable,
)
from dra.engine.migration.view import JobView
from dra.model.event_type import EventType

EVICTION_RETRY_SECONDS: Final = 3.0
"""Seconds between an eviction that the API server refused and the next."""

OWNER_SETTLES_SECONDS: Final = 10.0
"""Seconds after the creation of a pod in the Reservation until the watch of pods shows that the job's pod is gone."""

DEFAULT_EVICT_REASON: Final = "NotSet"

_EVICTION: Final = MigrationConditionType.EVICTION


def has_evicted(view: JobView) -> bool:
    """Return whether the job has reported that its pod is gone, or that a pod uses its Reservation."""
    return has_evicted_pod(view.job)


def evict(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    """Return the next action from an Available Reservation until the pod is gone."""
    job = view.job
    if (lost := lost_reservation(view, now=now)) is not None:
        return lost
    reservation = view.reservation
    if reservation is None:
        return act(None)
    if is_for_pending_pod(view):
        return replacement.await_scheduling(view, reservation, now=now)
    state = pod_state(view)
    if state in {PodState.GONE, PodState.FAILED}:
        return act(report_step(job, _complete(view), now=now))
    if state is PodState.TERMINATING or (view.pod is not None and view.evicted == view.pod.metadata.uid):
        return exchange.follow_exchange(view, now=now) or act(None)
    return unmovable(view, now=now) or _evict_present(view, reservation, args=args, now=now)


def _evict_present(
    view: JobView, reservation: Reservation, *, args: MigrationControllerArgs, now: WallTime
) -> MigrationPlan:
    job, pod = view.job, view.pod
    if pod is None or view.pod_template is None:
        return act(ReadPod(key=view.pod_key))
    if is_used(reservation) and (other := _leave_used(view, reservation, now=now)) is not None:
        return other
    if (
        text := unsuitable(view, reservation)
        or policy_refusal(job, pod, args=args)
        or _source_refusal(view, reservation)
    ):
        return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now))
    if reservation.status.phase is not ReservationPhase.AVAILABLE or exchange.awaits_sibling(view):
        return act(None)
    if job.status.node_name != reservation.status.node_name:
        return act(report_node(view, reservation, now=now))
    return _request_eviction(view, args=args, now=now, reservation=reservation.metadata.name)


def _source_refusal(view: JobView, reservation: Reservation) -> str:
    """Return why a node receives no pod any more that was chosen as a receiver when the job was made.

    A plugin fixes the receivers when it makes a job; minutes later one of these may be as hot as the pod's own node.
    """
    node = reservation.status.node_name
    if node not in view.sources:
        return ""
    plugin = view.job.metadata.annotations.get(ANNOTATION_EVICT_TRIGGER, "")
    return f"node {node}: gives pods itself by now (plugin {plugin}), so it receives none"


def _leave_used(view: JobView, reservation: Reservation, *, now: WallTime) -> MigrationPlan | None:
    """Return the plan for a Reservation that a pod uses already; None if the job cannot go on.

    The job takes over the free Reservation of a sibling. Otherwise the pod in the Reservation may be the replacement:
    the watch of Reservations may be ahead of the watch of pods, which is about to show then that the job's pod is gone.
    """
    if (free := exchange.free_reservation(view)) is not None:
        return act(refer_to(view.job, free))
    owner = next(iter(reservation.status.current_owners), None)
    if owner is None:
        return None
    bound = replacement.bound_pod(view, owner)
    if bound is None:
        return None if view.bound_pod_gone else act(ReadPod(key=owner.key))
    settled_at = created_at(bound) + OWNER_SETTLES_SECONDS
    return act(None, wake_at=settled_at) if now < settled_at else None


def evict_directly(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    """Return the next action in mode EvictDirectly: nothing is reserved, and the job ends with the eviction."""
    job, state = view.job, pod_state(view)
    if state is PodState.UNSEEN:
        return act(ReadPod(key=view.pod_key))
    begun = job.status.condition(_EVICTION) is not None
    if state is PodState.GONE and not begun:
        return act(report_failure(job, MigrationReason.MISSING_POD, missing_pod_message(view), now=now))
    if state is PodState.GONE:
        step = _complete(view)
        return act(report_success(job, MigrationReason.EVICT_COMPLETE, step.message, now=now, step=step))
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
    if is_halted(job, args=args) or pod is None:
        return act(None)
    name, reason = "/".join(view.pod_key), MigrationReason.EVICTING
    condition = job.status.condition(_EVICTION)
    if condition is None or condition.reason != reason:
        text = f'Try to evict Pod "{name}"'
        return act(
            report_step(job, Step(type=_EVICTION, done=False, reason=reason, message=text, event=reason), now=now)
        )
    policy = eviction_policy(job, pod, default=args.eviction_policy)
    if is_requested_already(policy, pod) or view.evicted == pod.metadata.uid or pod.metadata.deleting:
        return act(None)
    retry_at = 0.0
    if view.evict_error:
        text = f'Failed evict Pod "{name}" caused by {view.evict_error}'
        failed = Step(
            type=_EVICTION, done=False, reason=reason, message=text, event=reason, event_type=EventType.WARNING
        )
        if (report := report_step(job, failed, now=now)) is not None:
            return act(report)
        retry_at = view.evict_failed_at + EVICTION_RETRY_SECONDS
    if now < retry_at:
        return act(None, wake_at=retry_at)
    given = _delete_options(job, args=args)
    preconditions = given.get("preconditions")
    kept = preconditions if isinstance(preconditions, Mapping) else {}
    options: dict[str, Any] = {**given, "preconditions": {**kept, "uid": pod.metadata.uid}}
    return act(
        EvictPod(
            key=view.pod_key,
            uid=pod.metadata.uid,
            eviction_policy=policy,
            delete_options=options,
            reservation=reservation,
            reason=job.metadata.annotations.get(ANNOTATION_EVICT_REASON) or DEFAULT_EVICT_REASON,
        )
    )


def _delete_options(job: PodMigrationJob, *, args: MigrationControllerArgs) -> Mapping[str, Any]:
    """Return the options of a job, or else the configured ones."""
    if job.spec.delete_options is not None:
        return job.spec.delete_options
    return {} if args.default_delete_options is None else args.default_delete_options.document()


def _complete(view: JobView) -> Step:
    reason, text = MigrationReason.EVICT_COMPLETE, f'Pod "{"/".join(view.pod_key)}" has been evicted'
    return Step(type=_EVICTION, reason=reason, message=text, event=reason)
