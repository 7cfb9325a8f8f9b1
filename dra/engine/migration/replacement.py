"""The pod that uses the Reservation of a migration, until that pod is ready.

The status of a Reservation names a pod before the pod is bound, and the binding may fail; so the pod is recorded once
it is bound, or once the Reservation is used up. Owners of the Reservation are all pods of the workload: another one
than the replacement may be faster, and is recorded as it is.
"""

from typing import Final

from dra.api.object_fields import ObjectReference
from dra.api.reservations.model import Reservation, ReservationPhase
from dra.engine.instants import WallTime
from dra.engine.migration import exchange
from dra.engine.migration.conditions import Step, is_true, report_failure, report_step, report_success
from dra.engine.migration.plan import MigrationPlan, ReadPod, act
from dra.engine.migration.pod_index import is_ready
from dra.engine.migration.pod_state import PodState, created_at, pod_state
from dra.engine.migration.reasons import MigrationConditionType, MigrationReason
from dra.engine.migration.reserving import lost_reservation, unmovable
from dra.engine.migration.view import JobView, MigrationPod
from dra.engine.reservations.pod_info import allocated_reservation_uid
from dra.model.pods import POD_SCHEDULED

_BOUND: Final = MigrationConditionType.POD_BOUND_RESERVATION
_READY: Final = MigrationConditionType.BOUND_POD_READY


def await_scheduling(view: JobView, reservation: Reservation, *, now: WallTime) -> MigrationPlan:
    """Return the plan while the job's own pod, which has no node yet, is to use the Reservation."""
    job, kind = view.job, MigrationConditionType.POD_SCHEDULED
    if reservation.status.current_owners:
        return _report_bound(view, reservation, now=now)
    if pod_state(view) is PodState.TERMINATING:
        return act(None)
    if (stop := unmovable(view, now=now)) is not None:
        return stop
    pod, name = view.pod, reservation.metadata.name
    if pod is None or not pod.spec.node_name:
        condition = pod.condition(POD_SCHEDULED) if pod is not None else None
        text = condition.message if condition is not None else ""
        step = Step(type=kind, done=False, reason=MigrationReason.UNSCHEDULABLE, message=text)
        return act(report_step(job, step, now=now))
    if allocated_reservation_uid(pod.metadata) == reservation.metadata.uid:
        return act(None)  # the status of the Reservation is about to name the pod
    text = f'Pod "{"/".join(view.pod_key)}" runs on node "{pod.spec.node_name}" without Reservation "{name}"'
    return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now))


def follow_replacement(view: JobView, *, now: WallTime) -> MigrationPlan:
    """Return the next action from the eviction until the pod that uses the Reservation is ready."""
    job = view.job
    if job.status.pod_ref is not None:
        return _await_ready(view, job.status.pod_ref, now=now)
    if (plan := exchange.follow_exchange(view, now=now) or lost_reservation(view, now=now)) is not None:
        return plan
    reservation = view.reservation
    if reservation is None:
        return act(None)
    if reservation.status.current_owners:
        return _report_bound(view, reservation, now=now)
    if reservation.status.phase is ReservationPhase.SUCCEEDED:
        text = f'the Pod that used Reservation "{reservation.metadata.name}" has ended already'
        return act(report_failure(job, MigrationReason.MISSING_POD, text, now=now))
    text = f'Wait for a Pod to bind Reservation "{reservation.metadata.name}"'
    reason = MigrationReason.WAIT_FOR_POD_BIND_RESERVATION
    return act(report_step(job, Step(type=_BOUND, done=False, reason=reason, message=text, event=reason), now=now))


def _report_bound(view: JobView, reservation: Reservation, *, now: WallTime) -> MigrationPlan:
    """Return the plan that records the pod in the Reservation, which the status names before the pod is bound."""
    job, owner = view.job, reservation.status.current_owners[0]
    bound = bound_pod(view, owner)
    if reservation.status.phase is not ReservationPhase.SUCCEEDED and (bound is None or not bound.spec.node_name):
        unread = bound is None and not view.bound_pod_gone
        return act(ReadPod(key=owner.key) if unread else None)
    text = f'Bind Pod "{owner.namespace}/{owner.name}" in Reservation "{reservation.metadata.name}"'
    if bound is not None and _is_sibling(view, bound):
        text += f', which was made for the replacement of Pod "{"/".join(view.pod_key)}"'
    kinds = [MigrationConditionType.RESERVATION_BOUND]
    if job.status.condition(MigrationConditionType.POD_SCHEDULED) is not None:
        kinds.append(MigrationConditionType.POD_SCHEDULED)
    pod = ObjectReference(namespace=owner.namespace, name=owner.name, uid=owner.uid)
    reason = MigrationReason.POD_BOUND_RESERVATION
    return act(
        report_step(job, Step(type=_BOUND, message=text, also_done=tuple(kinds), pod=pod, event=reason), now=now)
    )


def bound_pod(view: JobView, wanted: ObjectReference) -> MigrationPod | None:
    """Return the pod in the Reservation; None if it is not seen, or another pod has its name."""
    pod = view.bound_pod
    return pod if pod is not None and pod.metadata.uid == wanted.uid else None


def _is_sibling(view: JobView, bound: MigrationPod) -> bool:
    """Return whether a pod is older than the eviction, so that another pod is the replacement."""
    if bound.metadata.uid == view.job.spec.pod_ref.uid:
        return False
    scheduled = view.job.status.condition(MigrationConditionType.RESERVATION_SCHEDULED)
    before = scheduled.last_transition_time if scheduled is not None else None
    return before is not None and created_at(bound) < before.timestamp()


def _await_ready(view: JobView, wanted: ObjectReference, *, now: WallTime) -> MigrationPlan:
    job, pod, name = view.job, bound_pod(view, wanted), f"{wanted.namespace}/{wanted.name}"
    bound = job.status.condition(_BOUND)
    if is_true(job, _READY):
        text = bound.message if bound is not None else f'Bind Pod "{name}"'
        return act(report_success(job, MigrationReason.COMPLETE, text, now=now))
    if pod is None and not view.bound_pod_gone and not _has_successor(view):
        return act(ReadPod(key=wanted.key))
    if pod is None or pod.status.phase == "Failed":
        text = f'Pod "{name}" has ended before it was ready'
        return act(report_failure(job, MigrationReason.MISSING_POD, text, now=now))
    if pod.status.phase == "Succeeded" or is_ready(pod):
        text = f'Pod "{name}" is ready'
        return act(report_step(job, Step(type=_READY, message=text, event=MigrationReason.BOUND_POD_READY), now=now))
    reason = MigrationReason.WAIT_FOR_BOUND_POD_READY
    step = Step(type=_READY, done=False, reason=reason, message=f'Wait for Pod "{name}" to become ready')
    return act(report_step(job, step, now=now))


def _has_successor(view: JobView) -> bool:
    """Return whether another pod has the name of the pod in the Reservation.

    The evicted pod does not count: a StatefulSet gives its name to the replacement, and the watch may still show it.
    """
    return view.bound_pod is not None and view.bound_pod.metadata.uid != view.job.spec.pod_ref.uid
