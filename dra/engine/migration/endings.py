"""The end of a migration, as metrics count it."""

from dra.api.migration.model import ENDED_PHASES, MigrationPhase, PodMigrationJob
from dra.engine.instants import WallTime
from dra.model.meta import Struct


class Ending(Struct, frozen=True):
    """The outcome of a migration."""

    phase: MigrationPhase
    reason: str = ""
    """Reason of a failure."""
    seconds: float | None = None
    """Seconds from the creation of the job to its success."""


def ending(before: PodMigrationJob, after: PodMigrationJob | None, *, now: WallTime) -> Ending | None:
    """Return how a job has ended by a write; None if the job goes on, is gone or had ended before the write."""
    if after is None or after.status.phase not in ENDED_PHASES or before.status.phase in ENDED_PHASES:
        return None
    if after.status.phase is not MigrationPhase.SUCCEEDED:
        return Ending(phase=after.status.phase, reason=after.status.reason)
    created = after.metadata.creation_timestamp
    return Ending(phase=after.status.phase, seconds=None if created is None else now - created.timestamp())
