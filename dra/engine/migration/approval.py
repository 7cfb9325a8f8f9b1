"""Approval of migrations by people: which jobs wait for one, and the writes that approve or reject a job.

With ``approval: Required`` the descheduler makes its jobs paused. A person approves a job by the end of its pause, and
rejects one by phase Aborted; a person who sets phase Failed, as Koordinator's manual says, ends the job as well. A job
that nobody approves expires: its time to live goes on while the job waits.
"""

from typing import Any, Final

from dra.api.migration.model import ENDED_PHASES, MigrationPhase, PodMigrationJob
from dra.api.migration.well_known import ANNOTATION_APPROVAL, APPROVAL_REQUIRED
from dra.engine.migration.conditions import has_evicted_pod, spec_write, status_write
from dra.engine.migration.reasons import MigrationReason


class NotApprovableError(ValueError):
    """A job that cannot be approved or rejected; the text begins with the job and says why."""


def needs_approval(job: PodMigrationJob) -> bool:
    """Return whether a job waits for the approval of a person; a job that a person paused does not."""
    return (
        job.metadata.annotations.get(ANNOTATION_APPROVAL) == APPROVAL_REQUIRED
        and job.spec.paused
        and job.status.phase is MigrationPhase.PENDING
    )


APPROVAL_MESSAGE: Final = (
    "waits for approval: approve or reject the migration, see kubectl dra approve --help; the time to live goes on"
)
"""What a person can do. No command with the job's name: whoever pastes one lets a pod be evicted."""


def approve(job: PodMigrationJob) -> dict[str, Any]:
    """Return the merge patch of a job that approves it, on condition of its resourceVersion.

    Raises NotApprovableError for a job that does not wait for approval.
    """
    if not needs_approval(job):
        raise NotApprovableError(f"podmigrationjob {job.metadata.name}: does not wait for approval{_phase(job)}")
    return dict(spec_write(job, {"paused": False}).body)


def reject(job: PodMigrationJob, *, by: str = "") -> dict[str, Any]:
    """Return the merge patch of the subresource status that rejects a job, on condition of its resourceVersion.

    The descheduler then deletes the job's Reservation, and the pod stays; ``by`` is the person, for the message. Raises
    NotApprovableError for a job that has ended, or whose pod is evicted already.
    """
    name = job.metadata.name
    if job.status.phase in ENDED_PHASES:
        raise NotApprovableError(f"podmigrationjob {name}: has ended{_phase(job)}")
    if has_evicted_pod(job):
        raise NotApprovableError(f"podmigrationjob {name}: the pod is evicted already; the job holds its new place")
    text = f"rejected by {by}; the pod stays" if by else "rejected by a person; the pod stays"
    changes = {"phase": MigrationPhase.ABORTED, "reason": MigrationReason.REJECTED.value, "message": text}
    write = status_write(job, job.status.model_copy(update=changes))
    return {} if write is None else dict(write.body)


def _phase(job: PodMigrationJob) -> str:
    return f" (phase {job.status.phase})"
