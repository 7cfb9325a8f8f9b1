"""The exchange of Reservations between migrations of one workload.

The owners of a Reservation are all pods of the workload. So the replacement of a pod may be placed in the Reservation
of another job whose pod is not evicted yet, perhaps because a budget refuses the eviction; then the Reservation of the
first job stays free. Counted together nothing is lost, and both jobs go on:

1. The job whose pod is still there refers to the free Reservation from now on.
2. The job whose pod has left, and whose Reservation another job refers to, refers to a Reservation that no job refers
   to any more, and takes the pod in there as the replacement. Only then the other job evicts its pod.
3. If the other job cannot use the free Reservation, which may be on the node of its pod, say, then the other job fails.
   The first job takes the pod in the Reservation of the failed job after a while without a pod in its own one.

Each step is one write, and what it leads to follows from the references alone, so a crash in between changes nothing. A
job that ends deletes the Reservation that it created only if no other job refers to the Reservation. (Koordinator's
second job fails, and the first one waits for a pod until its time to live is over.)
"""

from collections.abc import Iterable
from typing import Final

from dra.api.migration.model import ENDED_PHASES, PodMigrationJob
from dra.api.reservations.model import Reservation, ReservationPhase
from dra.engine.instants import WallTime
from dra.engine.migration.conditions import eviction_time
from dra.engine.migration.plan import MigrationPlan, act
from dra.engine.migration.reasons import MigrationConditionType
from dra.engine.migration.reservation_fit import is_used
from dra.engine.migration.reserving import refer_to, reservation_reference, unsuitable
from dra.engine.migration.view import JobView, Sibling
from dra.engine.reservations.reservation_info import creator_of

REPLACEMENT_SETTLES_SECONDS: Final = 10.0
"""Seconds from the eviction for which a replacement is expected in the job's own Reservation (step 3)."""

_EVICTION: Final = MigrationConditionType.EVICTION


def is_undecided(job: PodMigrationJob) -> bool:
    """Return whether a job goes on, and has not recorded the replacement of its pod."""
    return job.status.phase not in ENDED_PHASES and job.status.pod_ref is None


def concerns_siblings(job: PodMigrationJob, reservation: Reservation | None) -> bool:
    """Return whether a decision about a job depends on its siblings, given the Reservation that the job refers to."""
    if job.status.phase in ENDED_PHASES:
        return True
    begun = job.status.condition(_EVICTION) is not None
    return job.status.pod_ref is None and reservation is not None and (begun or is_used(reservation))


def free_reservation(view: JobView) -> Reservation | None:
    """Return the Reservation of a sibling that a job takes over whose own one is used; None if there is none (step 1).

    The caller has read the pod live.
    """
    if view.reservation is None or not _is_made_for_a_job(view.reservation):
        return None
    reservations = (
        sibling.reservation
        for sibling in view.siblings
        if _awaits_replacement(sibling) and not _is_shared(view, sibling)
    )
    return next(
        (
            reservation
            for reservation in reservations
            if reservation is not None and _is_free(reservation) and not unsuitable(view, reservation)
        ),
        None,
    )


def awaits_sibling(view: JobView) -> bool:
    """Return whether another job has to leave the Reservation of a job whose pod is to be evicted (step 2)."""
    reference, reservation = reservation_reference(view.job), view.reservation
    return (
        reference is not None
        and reservation is not None
        and _is_made_for_a_job(reservation)
        and any(_refers_to(sibling.job, reference.name) for sibling in view.siblings)
    )


def follow_exchange(view: JobView, *, now: WallTime) -> MigrationPlan | None:
    """Return the plan for a job whose pod leaves and whose replacement is elsewhere (steps 2 and 3); None otherwise."""
    reservation = view.reservation
    if reservation is None or not _is_made_for_a_job(reservation) or not view.unclaimed:
        return None
    me = Sibling(job=view.job, is_leaving=True)
    jobs = (me, *view.siblings)
    if _is_displaced(me, jobs):
        displaced = [member for member in jobs if _awaits_replacement(member) and _is_displaced(member, jobs)]
        turn = sorted(member.job.metadata.name for member in displaced).index(view.job.metadata.name)
        return act(refer_to(view.job, view.unclaimed[turn]) if turn < len(view.unclaimed) else None)
    evicted_at = eviction_time(view.job)
    if is_used(reservation) or evicted_at is None:
        return None
    settled_at = evicted_at + REPLACEMENT_SETTLES_SECONDS
    return act(refer_to(view.job, view.unclaimed[0])) if settled_at <= now else act(None, wake_at=settled_at)


def is_taken_over(view: JobView) -> bool:
    """Return whether another job refers to the Reservation that the job of the view created."""
    return any(_refers_to(sibling.job, view.job.metadata.uid) for sibling in view.siblings)


def _awaits_replacement(sibling: Sibling) -> bool:
    """Return whether a sibling's pod leaves, and its replacement is to come."""
    return sibling.is_leaving and sibling.job.status.condition(_EVICTION) is not None


def _is_shared(view: JobView, sibling: Sibling) -> bool:
    """Return whether another sibling refers to the Reservation of a sibling, too."""
    reference = reservation_reference(sibling.job)
    return reference is not None and any(
        other is not sibling and _refers_to(other.job, reference.name) for other in view.siblings
    )


def _is_displaced(one: Sibling, jobs: Iterable[Sibling]) -> bool:
    """Return whether a job has to leave its Reservation to another job whose pod is still there.

    If all pods have left, then all jobs but the last by name have to.
    """
    reference, rank = reservation_reference(one.job), (not one.is_leaving, one.job.metadata.name)
    return reference is not None and any(
        _refers_to(member.job, reference.name) and (not member.is_leaving, member.job.metadata.name) > rank
        for member in jobs
    )


def _is_free(reservation: Reservation) -> bool:
    return (
        _is_made_for_a_job(reservation)
        and reservation.status.phase is ReservationPhase.AVAILABLE
        and not is_used(reservation)
        and reservation.metadata.deletion_timestamp is None
    )


def _is_made_for_a_job(reservation: Reservation) -> bool:
    """Return whether a job created a Reservation; others belong to users, who may have several jobs refer to one."""
    return bool(creator_of(reservation))


def _refers_to(job: PodMigrationJob, name: str) -> bool:
    reference = reservation_reference(job)
    return reference is not None and reference.name == name
