"""Rounds of descheduling, as far as their PodMigrationJobs show: who was to move, and what became of it.

Rounds are stored nowhere; each job carries the time at which its round began. A round that has moved nobody leaves no
trace here: its notes are in the descheduler's log, and the dry run tells what the next one would do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from dra.api.migration.model import MigrationPhase
from dra.engine.diagnosis.migrations import MigrationDiagnosis, MigrationStep
from dra.model.meta import Struct


class RoundDiagnosis(Struct, frozen=True):
    """One round with its jobs, counted by where they are."""

    began: str
    """RFC 3339."""

    profiles: tuple[str, ...]
    plugins: tuple[str, ...]
    jobs: int
    unapproved: int = 0
    waiting: int = 0
    """For a limit or a budget, or paused."""

    moving: int = 0
    moved: int = 0
    ended: int = 0
    """Failed or aborted."""


def rounds(migrations: Iterable[MigrationDiagnosis]) -> Iterator[RoundDiagnosis]:
    """Yield the rounds that the jobs of the descheduler name, the newest first; jobs of people belong to none."""
    groups: dict[str, list[MigrationDiagnosis]] = {}
    for migration in migrations:
        if migration.round:
            groups.setdefault(migration.round, []).append(migration)
    for began in sorted(groups, reverse=True):
        yield _round(began, groups[began])


def _round(began: str, jobs: list[MigrationDiagnosis]) -> RoundDiagnosis:
    counts = Counter(map(_place, jobs))
    return RoundDiagnosis(
        began=began,
        profiles=tuple(sorted({job.profile for job in jobs} - {""})),
        plugins=tuple(sorted({job.plugin for job in jobs} - {""})),
        jobs=len(jobs),
        unapproved=counts["unapproved"],
        waiting=counts["waiting"],
        moving=counts["moving"],
        moved=counts["moved"],
        ended=counts["ended"],
    )


def _place(job: MigrationDiagnosis) -> str:
    match job.step:
        case MigrationStep.UNAPPROVED:
            return "unapproved"
        case MigrationStep.WAITING | MigrationStep.PAUSED:
            return "waiting"
        case MigrationStep.ENDED:
            return "moved" if job.phase == MigrationPhase.SUCCEEDED else "ended"
        case _:
            return "moving"
