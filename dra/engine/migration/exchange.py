"""The exchange of Reservations between migrations of one workload.

The owners of a Reservation are all pods of the workload. So the replacement of a pod may be placed in the Reservation
of another job whose pod is not evicted yet, perhaps because a budget refuses the eviction; then the Reservation of the
first job stays free. Counted together nothing is lost, and both jobs go on:

1. The job whose pod is still there takes the free Reservation over, and refers to this Reservation from then on.
2. The job whose pod has left takes the pod in the Reservation of the other job as the replacement.
3. If the other job cannot take the free Reservation over, because the Reservation is on the node of its pod, say, then
   the other job fails, and the first one takes the pod nevertheless.

A Reservation that another job has taken over is kept when the job that created the Reservation ends. (Koordinator's
second job fails, and the first one waits for a pod until its time to live is over.)
"""

from collections.abc import Iterator

from dra.api.migration.model import ENDED_PHASES, MigrationPhase, PodMigrationJob
from dra.api.reservations.model import Reservation, ReservationPhase
from dra.engine.migration.conditions import is_true
from dra.engine.migration.pod_state import created_at
from dra.engine.migration.reasons import MigrationConditionType
from dra.engine.migration.reservation_fit import is_used
from dra.engine.migration.reservation_manifest import is_created_by
from dra.engine.migration.reserving import reservation_reference, unsuitable
from dra.engine.migration.view import JobView, MigrationPod, Sibling
from dra.model.meta import Struct


class Exchange(Struct, frozen=True):
    """The Reservation of a sibling, and the pod there, which is the replacement of the pod of a job."""

    reservation: Reservation
    pod: MigrationPod | None


def concerns_siblings(job: PodMigrationJob, reservation: Reservation | None) -> bool:
    """Return whether a decision about a job depends on its siblings, given the Reservation that the job refers to."""
    if reservation is None:
        return False
    if job.status.phase in ENDED_PHASES:
        return True
    begun = job.status.condition(MigrationConditionType.EVICTION) is not None
    return job.status.pod_ref is None and (begun or is_used(reservation))


def free_reservation(view: JobView) -> Reservation | None:
    """Return the Reservation of a sibling that a job takes over whose own one is used; None if there is none (rule 1).

    A job takes over once: its own Reservation then tells which pod belongs to the sibling.
    """
    reference = reservation_reference(view.job)
    if reference is None or not is_created_by(view.job, reference.name):
        return None
    return next((each for each in _free_reservations(view) if not unsuitable(view, each)), None)


def _free_reservations(view: JobView) -> Iterator[Reservation]:
    for each in view.siblings:
        found = each.reservation
        if (
            found is not None
            and each.is_leaving
            and each.job.status.condition(MigrationConditionType.EVICTION) is not None
            and each.job.status.phase not in ENDED_PHASES
            and each.job.status.pod_ref is None
            and is_created_by(each.job, found.metadata.name)
            and found.status.phase is ReservationPhase.AVAILABLE
            and found.metadata.deletion_timestamp is None
            and _successor(view, each.job.metadata.uid) is None
        ):
            yield found


def exchanged(view: JobView) -> Exchange | None:
    """Return where the replacement of a job's pod is instead of the job's Reservation (rules 2 and 3), if anywhere."""
    successor = _successor(view, view.job.metadata.uid)
    if successor is not None and successor.created is not None:
        return Exchange(reservation=successor.created, pod=successor.created_user)
    if view.reservation is None or is_used(view.reservation):
        return None
    lost = next((each for each in view.siblings if _has_lost(each, view.job)), None)
    return None if lost is None or lost.reservation is None else Exchange(reservation=lost.reservation, pod=lost.user)


def is_taken_over(view: JobView) -> bool:
    """Return whether a job that goes on refers to the Reservation that the job of the view created."""
    return any(
        each.job.status.phase not in ENDED_PHASES and _refers_to(each.job, view.job.metadata.uid)
        for each in view.siblings
    )


def _successor(view: JobView, creator: str) -> Sibling | None:
    """Return the sibling that has taken over the Reservation of another job, given the uid of this job."""
    return next(
        (each for each in view.siblings if each.job.metadata.uid != creator and _refers_to(each.job, creator)), None
    )


def _refers_to(job: PodMigrationJob, name: str) -> bool:
    reference = reservation_reference(job)
    return reference is not None and reference.name == name


def _has_lost(sibling: Sibling, job: PodMigrationJob) -> bool:
    """Return whether a sibling has failed since the replacement of a job's pod uses its Reservation."""
    pod = sibling.user
    scheduled = job.status.condition(MigrationConditionType.RESERVATION_SCHEDULED)
    since = scheduled.last_transition_time if scheduled is not None else None
    return (
        sibling.job.status.phase is MigrationPhase.FAILED
        and not is_true(sibling.job, MigrationConditionType.EVICTION)
        and pod is not None
        and not sibling.is_user_recorded
        and since is not None
        and created_at(pod) >= since.timestamp()
    )
