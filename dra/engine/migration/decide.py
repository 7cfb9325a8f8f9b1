"""The next step of a PodMigrationJob: a pure function of what is observed.

A plan has at most one action, and everything that a later decision needs is in the API by then. So a job continues the
same way after a crash between any two writes, and an action whose effect is not visible yet is planned again: each is
harmless when repeated (names are uids, patches have a resourceVersion, evictions and deletions a uid).

Order of a migration with a Reservation: pin the pod's uid, begin (phase Running), create the Reservation and refer to
it (`reserving`), evict the pod once the Reservation is Available (`evicting`), and wait for the pod that uses the
Reservation (`replacement`). Two writes come before what they announce: condition Eviction before the eviction, phase
Failed before the deletion of the Reservation.

The time to live counts from the creation, also while the job is paused or waits for arbitration. Each failure leads to
the deletion of a Reservation that the job created and no pod uses. (Koordinator stops the time of paused jobs, and
deletes after timeouts only.)
"""

from typing import Any, Final

import msgspec

from dra.api.descheduler.migration_controller_args import MINUTE, MigrationControllerArgs
from dra.api.durations import SECOND, format_duration
from dra.api.migration.model import ENDED_PHASES, MigrationMode, MigrationPhase, PodMigrationJob
from dra.api.migration.well_known import ANNOTATION_PASSED_ARBITRATION
from dra.engine.instants import NEVER, WallTime
from dra.engine.migration import evicting, exchange, replacement, reserving
from dra.engine.migration.approval import APPROVAL_MESSAGE, needs_approval
from dra.engine.migration.conditions import FALSE, report_failure, report_running, report_waiting, spec_write
from dra.engine.migration.plan import DeleteJob, DeleteReservation, MigrationPlan, PatchJobStatus, ReadPod, act
from dra.engine.migration.pod_state import PodState, pod_state
from dra.engine.migration.reasons import MigrationReason
from dra.engine.migration.reservation_fit import is_used
from dra.engine.migration.reservation_manifest import is_created_by
from dra.engine.migration.view import JobView
from dra.model.meta import Uid

RETENTION: Final = 5 * MINUTE
"""Nanoseconds for which an ended job stays beyond its time to live, so that users can read its status."""
RETENTION_WITHOUT_TTL: Final = 30 * MINUTE
"""Nanoseconds after its creation for which an ended job without a time to live stays."""

_UNUSED: Final = (
    "the Pod was evicted, and its replacement waits for a node or runs outside of the Reservation: look for the newest "
    "Pod of the workload"
)


def decide(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    """Return the next action for a job, and when to decide again."""
    job = view.job
    if job.metadata.deletion_timestamp is not None:
        return act(_delete_unused_reservation(view))
    if job.status.phase in ENDED_PHASES:
        return _clean_up(view, args=args, now=now)
    if view.is_too_large:  # each write costs the API server seconds; an Event names the job
        return act(None)
    if view.parse_error:
        return act(report_failure(job, MigrationReason.INVALID, view.parse_error, now=now))
    deadline = timeout(job, args=args)
    if deadline <= now:
        return act(report_failure(job, MigrationReason.TIMEOUT, _timeout_message(view, args=args), now=now))
    plan = _next_step(view, args=args, now=now)
    return msgspec.structs.replace(plan, wake_at_wall=min(plan.wake_at_wall, deadline))


def has_passed_arbitration(job: PodMigrationJob) -> bool:
    """Return whether a job may begin."""
    return job.metadata.annotations.get(ANNOTATION_PASSED_ARBITRATION) == "true"


def effective_ttl(job: PodMigrationJob, *, args: MigrationControllerArgs) -> int:
    """Return the time to live of a job in nanoseconds; 0 means unlimited."""
    return args.default_job_ttl if job.spec.ttl is None else job.spec.ttl


def effective_mode(job: PodMigrationJob, *, args: MigrationControllerArgs) -> MigrationMode:
    """Return the mode of a job."""
    return job.spec.mode or args.default_job_mode


def timeout(job: PodMigrationJob, *, args: MigrationControllerArgs) -> WallTime:
    """Return when an unfinished job fails."""
    return _after_creation(job, effective_ttl(job, args=args) or None)


def _after_creation(job: PodMigrationJob, nanoseconds: int | None) -> WallTime:
    created = job.metadata.creation_timestamp
    return NEVER if created is None or nanoseconds is None else created.timestamp() + nanoseconds / SECOND


def _next_step(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    if view.job.status.phase is MigrationPhase.PENDING:
        return _begin(view, args=args, now=now)
    if effective_mode(view.job, args=args) is MigrationMode.EVICT_DIRECTLY:
        return evicting.evict_directly(view, args=args, now=now)
    if evicting.has_evicted(view):
        return replacement.follow_replacement(view, now=now)
    if reserving.has_node(view):
        return evicting.evict(view, args=args, now=now)
    return reserving.reserve(view, args=args, now=now, ttl=effective_ttl(view.job, args=args))


def _begin(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    job, given = view.job, view.job.spec.pod_ref
    if not given.namespace or not given.name:
        text = "spec.podRef: namespace and name are required"
        return act(report_failure(job, MigrationReason.INVALID_POD_REF, text, now=now))
    state = pod_state(view)
    if state is PodState.UNSEEN:
        return act(ReadPod(key=view.pod_key))
    if state is PodState.GONE or view.pod is None:
        return act(report_failure(job, MigrationReason.MISSING_POD, reserving.missing_pod_message(view), now=now))
    if not has_passed_arbitration(job):
        return act(_report_pause(job, now=now) if job.spec.paused else None)
    if reserving.is_halted(job, args=args):
        return act(None)
    pins: dict[str, Any] = {}
    if not given.uid:
        pins["podRef"] = {"uid": view.pod.metadata.uid}
    if job.spec.ttl is None:
        pins["ttl"] = format_duration(args.default_job_ttl)
    if job.spec.mode is None:  # a changed default must not change how a job that has begun goes on
        pins["mode"] = args.default_job_mode.value
    return act(spec_write(job, pins) if pins else report_running(job, now=now))


def _report_pause(job: PodMigrationJob, *, now: WallTime) -> PatchJobStatus | None:
    if needs_approval(job):
        return report_waiting(job, MigrationReason.APPROVAL_REQUIRED, APPROVAL_MESSAGE, now=now, is_event=True)
    return report_waiting(job, MigrationReason.PAUSED, "spec.paused is true; the time to live goes on", now=now)


def _timeout_message(view: JobView, *, args: MigrationControllerArgs) -> str:
    ttl = format_duration(effective_ttl(view.job, args=args))
    waiting = next((condition for condition in reversed(view.job.status.conditions) if condition.status == FALSE), None)
    if waiting is None:
        rest = "; it waited for arbitration" if view.job.status.phase is MigrationPhase.PENDING else ""
        return f"the job has not ended within its ttl of {ttl}{rest}"
    text = (
        f"the job has not ended within its ttl of {ttl}; {waiting.type} is False: {waiting.message or waiting.reason}"
    )
    is_unused = waiting.reason == MigrationReason.WAIT_FOR_POD_BIND_RESERVATION
    return f"{text}; {_UNUSED}" if is_unused else text


def _clean_up(view: JobView, *, args: MigrationControllerArgs, now: WallTime) -> MigrationPlan:
    job = view.job
    if unused := _delete_unused_reservation(view):
        return act(unused)
    if exchange.is_taken_over(view):  # the Reservation is deleted with the job
        return act(None)
    ttl = effective_ttl(job, args=args)
    due = _after_creation(job, ttl + RETENTION if ttl else RETENTION_WITHOUT_TTL)
    moments = [
        moment
        for condition in job.status.conditions
        if (moment := condition.last_probe_time or condition.last_transition_time)
    ]
    if moments:  # a job without a time to live may have taken longer, and ended only now
        due = max(due, max(moments).timestamp() + RETENTION / SECOND)
    return act(DeleteJob()) if due <= now else act(None, wake_at=due)


def _delete_unused_reservation(view: JobView) -> DeleteReservation | None:
    """Return the deletion of the Reservation that the job created; None if a pod or another job uses it."""
    reservation = view.created or view.reservation
    if reservation is None or not is_created_by(view.job, reservation) or is_used(reservation):
        return None
    if exchange.is_taken_over(view) or view.keeps_created:
        return None
    meta = reservation.metadata
    if meta.deletion_timestamp is not None:
        return None
    return DeleteReservation(name=meta.name, uid=Uid(meta.uid), resource_version=meta.resource_version)
