"""The first half of a migration: the Reservation of a job, until it has a node.

A pod that ends meanwhile fails the job: nothing has been evicted, and room for its replacement is not held yet.
"""

from typing import Final

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import PodMigrationJob
from dra.api.object_fields import ObjectReference
from dra.api.reservations.model import MalformedReservationError, Reservation, ReservationPhase, parse_reservation
from dra.engine.instants import WallTime
from dra.engine.migration.conditions import Step, is_true, report_failure, report_step, spec_write
from dra.engine.migration.plan import (
    CreateReservation,
    MigrationPlan,
    PatchJob,
    PatchJobStatus,
    ReadPod,
    ReadReservation,
    act,
)
from dra.engine.migration.pod_state import PodState, pod_state
from dra.engine.migration.reasons import MigrationConditionType, MigrationReason
from dra.engine.migration.refusals import policy_refusal, reservation_refusal
from dra.engine.migration.reservation_fit import is_used, misfit
from dra.engine.migration.reservation_manifest import is_created_by, reference_to, reservation_manifest
from dra.engine.migration.view import JobView
from dra.engine.reservations import reservation_info
from dra.engine.reservations.lifecycle import FINAL_MESSAGES
from dra.engine.reservations.phases import CONDITION_SCHEDULED
from dra.model.event_type import EventType

_CREATED: Final = MigrationConditionType.RESERVATION_CREATED
_SCHEDULED: Final = MigrationConditionType.RESERVATION_SCHEDULED
_PLACED_PHASES: Final = frozenset({ReservationPhase.AVAILABLE, ReservationPhase.SUCCEEDED})


def is_halted(job: PodMigrationJob, *, args: MigrationControllerArgs) -> bool:
    """Return whether no step of a job is begun: the job is paused, or the descheduler in a dry run."""
    return job.spec.paused or args.dry_run


def has_node(view: JobView) -> bool:
    """Return whether the job has reported the node of its Reservation."""
    return is_true(view.job, _SCHEDULED)


def reservation_reference(job: PodMigrationJob) -> ObjectReference | None:
    """Return the job's reference to its Reservation; None if there is none yet."""
    options = job.spec.reservation_options
    given = options.reservation_ref if options is not None else None
    return given if given is not None and given.name else None


def refer_to(job: PodMigrationJob, reservation: Reservation) -> PatchJob:
    """Return the write after which a job refers to a Reservation."""
    return spec_write(job, {"reservationOptions": {"reservationRef": reference_to(reservation)}})


def missing_pod_message(view: JobView) -> str:
    """Return the message about a pod that is gone."""
    given = view.job.spec.pod_ref
    uid = f" with uid {given.uid}" if given.uid else ""
    return f'Pod "{given.namespace}/{given.name}"{uid} does not exist'


def reserve(view: JobView, *, args: MigrationControllerArgs, now: WallTime, ttl: int) -> MigrationPlan:
    """Return the next action until the Reservation has a node."""
    job, reservation, reference = view.job, view.reservation, reservation_reference(view.job)
    if reservation is None and reference is not None:
        return _missing_reservation(view, reference, now=now)
    if reservation is None:
        return _create(view, args=args, now=now, ttl=ttl)
    if reference is None:
        return _refer(job, reservation, now=now)
    if (lost := lost_reservation(view, now=now)) is not None:
        return lost
    if not is_true(job, _CREATED):
        return _accept(view, reservation, args=args, now=now)
    return _await_node(view, reservation, args=args, now=now)


def lost_reservation(view: JobView, *, now: WallTime) -> MigrationPlan | None:
    """Return the plan for a Reservation that is gone, replaced, being deleted or expired; None for any other."""
    reference, reservation = reservation_reference(view.job), view.reservation
    if reference is None:
        return None
    if reservation is None:
        return _missing_reservation(view, reference, now=now)
    meta, reason, text = reservation.metadata, MigrationReason.MISSING_RESERVATION, ""
    if reference.uid and reference.uid != meta.uid:
        text = f'Reservation "{meta.name}" with uid {reference.uid} does not exist; its name belongs to another one'
    elif meta.deletion_timestamp is not None and not is_used(reservation):
        text = f'Reservation "{meta.name}" is being deleted'
    elif reservation.status.phase is ReservationPhase.FAILED and not reservation.status.current_owners:
        ready = reservation.status.condition("Ready")
        cause = f": {ready.message}" if ready is not None and ready.message else ""
        reason, text = MigrationReason.RESERVATION_EXPIRED, f'Reservation "{meta.name}" has expired{cause}'
    return act(report_failure(view.job, reason, text, now=now)) if text else None


def _refer(job: PodMigrationJob, reservation: Reservation, *, now: WallTime) -> MigrationPlan:
    """Return the plan that refers a job to the Reservation of its name: its own, or else one that is in the way."""
    if is_created_by(job, reservation):
        return act(refer_to(job, reservation))
    name = reservation.metadata.name
    text = f'Reservation "{name}" has the name that this job gives, but another author; create another job'
    return act(report_failure(job, MigrationReason.FAILED_CREATE_RESERVATION, text, now=now))


def _missing_reservation(view: JobView, reference: ObjectReference, *, now: WallTime) -> MigrationPlan:
    if not view.reservation_gone:
        return act(ReadReservation(name=reference.name))
    text = f'Reservation "{reference.name}" does not exist'
    return act(report_failure(view.job, MigrationReason.MISSING_RESERVATION, text, now=now))


def is_for_pending_pod(view: JobView) -> bool:
    """Return whether the Reservation is for the job's own pod, which has no node yet: then nothing is evicted."""
    job, pod = view.job, view.pod
    if job.status.condition(MigrationConditionType.POD_SCHEDULED) is not None:
        return True
    owners = view.reservation.spec.owners if view.reservation is not None else ()
    uid = job.spec.pod_ref.uid
    if uid and any(owner.object is not None and owner.object.uid == uid for owner in owners):
        return True
    return pod is not None and not pod.spec.node_name and uid in ("", pod.metadata.uid)


def unmovable(view: JobView, *, now: WallTime) -> MigrationPlan | None:
    """Return the plan for a pod that cannot be migrated now, before its Reservation has a node; None if it can."""
    job, given = view.job, view.job.spec.pod_ref
    match pod_state(view):
        case PodState.UNSEEN:
            return act(ReadPod(key=view.pod_key))
        case PodState.GONE:
            return act(report_failure(job, MigrationReason.MISSING_POD, missing_pod_message(view), now=now))
        case PodState.TERMINATING:
            text = f'Pod "{given.namespace}/{given.name}" is being deleted already'
        case PodState.FAILED | PodState.FINISHED:
            text = f'Pod "{given.namespace}/{given.name}" has ended: nothing is left to migrate'
        case PodState.PRESENT:
            return None
    return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now))


def _create(view: JobView, *, args: MigrationControllerArgs, now: WallTime, ttl: int) -> MigrationPlan:
    job = view.job
    if (stop := _stop(view, args=args, now=now)) is not None:
        return stop
    if view.create_error:
        return act(report_failure(job, MigrationReason.FAILED_CREATE_RESERVATION, view.create_error, now=now))
    template, pending = view.pod_template or {}, is_for_pending_pod(view)
    manifest = reservation_manifest(job, template, ttl=ttl, pending=pending, now=now)
    try:
        made = parse_reservation(manifest)
        text = reservation_info.from_reservation(made).parse_error
    except MalformedReservationError as error:
        text = str(error)
    if text:
        text = f"spec.reservationOptions.template: {text}"
        return act(report_failure(job, MigrationReason.FAILED_CREATE_RESERVATION, text, now=now))
    if text := misfit(made, template, pending=pending):
        return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now))
    return act(CreateReservation(manifest=manifest))


def _stop(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan | None:
    """Return the plan for a job that must not take a Reservation, or not yet; None if it may."""
    job = view.job
    if (stop := unmovable(view, now=now)) is not None:
        return stop
    if is_halted(job, args=args):
        return act(None)
    pod = view.pod
    if pod is None or view.pod_template is None:
        return act(ReadPod(key=view.pod_key))
    options = job.spec.reservation_options
    given = options.template.get("spec") if options is not None and options.template is not None else None
    has_owners = reservation_reference(job) is not None or bool(isinstance(given, dict) and given.get("owners"))
    text = policy_refusal(job, pod, args=args) or reservation_refusal(
        pod, view.pod_template, view.claims, args=args, has_owners=has_owners
    )
    return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now)) if text else None


def _accept(view: JobView, reservation: Reservation, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    """Return the plan that takes a Reservation into use: the job's own, or a supplied one that suits the pod."""
    job = view.job
    if is_created_by(job, reservation):
        reason = MigrationReason.RESERVATION_CREATED
        text = f'Successfully create Reservation "{reservation.metadata.name}"'
        return act(report_step(job, Step(type=_CREATED, event=reason, note=text), now=now))
    if (stop := _stop(view, args=args, now=now)) is not None:
        return stop
    if text := unsuitable(view, reservation):
        return act(report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, text, now=now))
    return act(report_step(job, Step(type=_CREATED), now=now))


def unsuitable(view: JobView, reservation: Reservation) -> str:
    """Return why the replacement of a pod cannot use the Reservation; empty if it can. The pod has been read live."""
    name, old_node = reservation.metadata.name, view.pod.spec.node_name if view.pod is not None else ""
    if old_node and reservation.status.node_name == old_node:
        return f'Reservation "{name}" is on node "{old_node}", where the Pod runs already'
    if is_used(reservation):
        return f'Reservation "{name}" is already bound by another Pod'
    return misfit(reservation, view.pod_template or {}, pending=is_for_pending_pod(view))


def _await_node(
    view: JobView, reservation: Reservation, *, args: MigrationControllerArgs, now: WallTime
) -> MigrationPlan:
    job, name, status = view.job, reservation.metadata.name, reservation.status
    if status.phase in _PLACED_PHASES and status.node_name:
        old_node = view.pod.spec.node_name if view.pod is not None else ""
        if old_node == status.node_name and pod_state(view) is PodState.PRESENT and not is_for_pending_pod(view):
            return act(
                report_failure(job, MigrationReason.FORBIDDEN_MIGRATE_POD, unsuitable(view, reservation), now=now)
            )
        return act(report_node(view, reservation, now=now))
    if pod_state(view) is not PodState.TERMINATING and (stop := unmovable(view, now=now)) is not None:
        return stop
    scheduled = status.condition(CONDITION_SCHEDULED)
    if scheduled is None or scheduled.status != "False":
        return act(None)
    text = scheduled.message or scheduled.reason
    due = _since_creation(view, reservation) + args.unschedulable_seconds
    if due <= now or scheduled.message in FINAL_MESSAGES:  # the mode does not change while it waits
        text = f'Reservation "{name}" cannot be scheduled: {text}'
        return act(report_failure(job, MigrationReason.UNSCHEDULABLE, text, now=now))
    reason = MigrationReason.UNSCHEDULABLE
    step = Step(type=_SCHEDULED, done=False, reason=reason, message=text, event=reason, event_type=EventType.WARNING)
    return act(report_step(job, step, now=now), wake_at=due)


def report_node(view: JobView, reservation: Reservation, *, now: WallTime) -> PatchJobStatus | None:
    """Return the write that reports the node of a job's Reservation."""
    node, reason = reservation.status.node_name, MigrationReason.RESERVATION_SCHEDULED
    text = f'Assigned Reservation "{reservation.metadata.name}" to node "{node}"'
    return report_step(view.job, Step(type=_SCHEDULED, node_name=node, event=reason, note=text), now=now)


def _since_creation(view: JobView, reservation: Reservation) -> WallTime:
    """Return when the job began to wait for the Reservation: its creation, or later for a supplied one."""
    created = view.job.status.condition(_CREATED)
    moments = [reservation.metadata.creation_timestamp, created.last_transition_time if created is not None else None]
    return max((moment.timestamp() for moment in moments if moment is not None), default=0.0)
