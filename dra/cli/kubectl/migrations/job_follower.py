"""Follows migrations: prints each step of each job until all jobs have ended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dra.api.migration.model import MigrationPhase
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.migrations import migration_requests, migration_texts
from dra.cli.kubectl.migrations.migration_requests import RequestedMigration
from dra.engine.diagnosis import migrations as explaining
from dra.kube.errors import ServerError, TooManyRequests, Unreachable

POLL_INTERVAL: Final = 1.0
"""Seconds between two reads of the jobs."""


@dataclass(slots=True)
class FollowedMigrations:
    """The result of following: the jobs by how they have ended, and those that have not."""

    succeeded: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


async def follow(
    connection: Connection,
    requested: Sequence[RequestedMigration],
    *,
    timeout_seconds: float,
    report: Callable[[str], None],
) -> FollowedMigrations:
    """Report the steps of jobs until all have ended or the time is up; 0 means without limit."""
    until = connection.clock.now() + timeout_seconds if timeout_seconds else float("inf")
    found = FollowedMigrations(unfinished=[each.job for each in requested])
    pods = {each.job: "/".join(each.pod.metadata.key) for each in requested}
    nodes = {each.job: each.pod.spec.node_name for each in requested}
    printed: dict[str, str] = {}
    while found.unfinished:
        try:
            jobs = await migration_requests.read_jobs(connection.client)
        except (ServerError, TooManyRequests, Unreachable) as error:  # the migrations go on meanwhile
            if printed.get("") != str(error):
                report(f"the jobs cannot be read, trying again: {error}")
                printed[""] = str(error)
            if connection.clock.now() >= until:
                break
            await asyncio.sleep(POLL_INTERVAL)
            continue
        for name in list(found.unfinished):
            job = jobs.get(name)
            if job is None:
                found.unfinished.remove(name)
                found.failed.append(name)
                report(f"pod {pods[name]}: job {name} was deleted, or cannot be read")
                continue
            text = migration_texts.step_text(explaining.explain(job, from_node=nodes[name]))
            if printed.get(name) != text:
                report(f"pod {pods[name]}: {text}")
                printed[name] = text
            if explaining.has_ended(job):
                found.unfinished.remove(name)
                ended = found.succeeded if job.status.phase is MigrationPhase.SUCCEEDED else found.failed
                ended.append(name)
        if not found.unfinished or connection.clock.now() >= until:
            break
        await asyncio.sleep(min(POLL_INTERVAL, max(until - connection.clock.now(), 0.01)))
    return found
