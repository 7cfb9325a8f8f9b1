"""Follows migrations: prints each step of each job until all jobs have ended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dra.api.migration.model import MigrationPhase, PodMigrationJob
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.migrations import migration_requests, migration_texts
from dra.cli.kubectl.migrations.migration_requests import RequestedMigration
from dra.engine.diagnosis import migrations as explaining
from dra.engine.diagnosis.migrations import MigrationStep
from dra.kube.errors import ServerError, TooManyRequests, Unreachable

POLL_INTERVAL: Final = 1.0
"""Seconds between two reads of the jobs."""


@dataclass(slots=True)
class FollowedMigrations:
    """The jobs that are followed, by how they have ended; the rest is unfinished."""

    requested: Sequence[RequestedMigration]
    unfinished: list[str] = field(default_factory=list)
    evicted: set[str] = field(default_factory=set)
    """Unfinished jobs whose pod is evicted, or about to be: deleting such a job takes the room from its replacement."""
    succeeded: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.unfinished = [migration.job for migration in self.requested]

    @property
    def stoppable(self) -> list[str]:
        """The jobs whose deletion leaves their pods where they are."""
        return [name for name in self.unfinished if name not in self.evicted]


async def follow(
    connection: Connection,
    followed: FollowedMigrations,
    *,
    timeout_seconds: float,
    report: Callable[[str], None],
) -> None:
    """Report the steps of jobs until all have ended or the time is up; 0 means without limit."""
    until = connection.clock.now() + timeout_seconds if timeout_seconds else float("inf")
    printed: dict[str, str] = {}
    while True:
        try:
            jobs = await migration_requests.read_jobs(connection.client)
        except (ServerError, TooManyRequests, Unreachable) as error:  # the migrations go on meanwhile
            if printed.get("") != str(error):
                report(f"the jobs cannot be read, trying again: {error}")
                printed[""] = str(error)
        else:
            for requested in followed.requested:
                if requested.job in followed.unfinished:
                    text = _observe(followed, requested, jobs.get(requested.job))
                    if printed.get(requested.job) != text:
                        report(f"pod {'/'.join(requested.pod.metadata.key)}: {text}")
                        printed[requested.job] = text
        if not followed.unfinished or connection.clock.now() >= until:
            return
        await asyncio.sleep(min(POLL_INTERVAL, max(until - connection.clock.now(), 0.01)))


def _observe(followed: FollowedMigrations, requested: RequestedMigration, job: PodMigrationJob | None) -> str:
    """Update what is known of a job, and return the text of its step."""
    name = requested.job
    if job is None:
        followed.unfinished.remove(name)
        followed.failed.append(name)
        return f"job {name} was deleted, or cannot be read"
    facts = explaining.explain(job, from_node=requested.pod.spec.node_name)
    if facts.evicted or facts.step is MigrationStep.EVICTING:
        followed.evicted.add(name)
    if facts.step is MigrationStep.ENDED:
        followed.unfinished.remove(name)
        ended = followed.succeeded if job.status.phase is MigrationPhase.SUCCEEDED else followed.failed
        ended.append(name)
    return migration_texts.step_text(facts)
