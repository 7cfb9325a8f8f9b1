"""Implements ``kubectl dra approve`` and ``kubectl dra reject``: answers to migrations that wait for a person."""

from collections.abc import Sequence
from typing import Final

import click

from dra.api.migration.model import MalformedPodMigrationJobError, PodMigrationJob, parse_pod_migration_job
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.migrations import migration_requests
from dra.cli.kubectl.migrations.migration_texts import KIND_NAME
from dra.cli.kubectl.printers import did_you_mean, print_to_stderr
from dra.engine.diagnosis import migrations as explaining
from dra.engine.migration import approval
from dra.engine.migration.approval import NotApprovableError
from dra.kube.errors import Conflict, Forbidden, NotFound
from dra.kube.resources import POD_MIGRATION_JOBS
from dra.model.meta import Uid, UnstructuredObject

ATTEMPTS_MAX: Final = 5
"""Maximum number of writes of one answer."""


def answer_migrations(
    *, names: Sequence[str], approved: bool, all_waiting: bool, dry_run: str, cluster_flags: ClusterFlags
) -> None:
    """Run ``kubectl dra approve`` or ``reject``; the declaration describes the options."""
    if bool(names) == all_waiting:
        raise click.UsageError("give the names of migrations, or --all")
    work = Answers(approved=approved, dry_run=dry_run != "none")
    if not run(cluster_flags, lambda connection: work.give(connection, names)):
        raise SystemExit(1)


class Answers:
    """Sends the same answer to one job after the other; a job that cannot be answered does not stop the others."""

    def __init__(self, *, approved: bool, dry_run: bool) -> None:
        self._approved = approved
        self._dry_run = dry_run

    async def give(self, connection: Connection, names: Sequence[str]) -> bool:
        """Answer the named jobs, or all that wait; return whether each could be answered."""
        by_name = {job.metadata.name: job for job in await migration_requests.list_jobs(connection.client)}
        waiting = [job.metadata.name for job in explaining.parse_jobs(by_name.values()) if approval.needs_approval(job)]
        if not names and not waiting:
            print_to_stderr("no migration waits for approval")
        done = [
            await self._answer(connection, name, by_name.get(name), waiting=waiting)
            for name in dict.fromkeys(names or waiting)
        ]
        return all(done)

    async def _answer(
        self, connection: Connection, name: str, job_object: UnstructuredObject | None, *, waiting: Sequence[str]
    ) -> bool:
        if job_object is None:
            print_to_stderr(f"migration {name}: not found{did_you_mean(name, waiting)}. See: kubectl dra migrations")
            return False
        try:
            await self._write(connection, job_object)
        except (MalformedPodMigrationJobError, NotApprovableError) as error:
            print_to_stderr(str(error))
            return False
        except (Conflict, Forbidden, NotFound) as error:
            print_to_stderr(f"migration {name}: {error}")
            return False
        verb = "approved" if self._approved else "rejected"
        click.echo(f"{KIND_NAME}/{name} {verb}{' (dry run)' if self._dry_run else ''}")
        return True

    async def _write(self, connection: Connection, job_object: UnstructuredObject) -> None:
        """Write the answer; after a conflict, decide again on the job as it is: the descheduler reports steps."""
        for attempts_left in reversed(range(ATTEMPTS_MAX)):
            job = parse_pod_migration_job(job_object.content)
            body = approval.approve(job) if self._approved else approval.reject(job)
            try:
                await self._send(connection, job, body)
            except Conflict:
                if not attempts_left:
                    raise
                key = ("", job.metadata.name)
                job_object = await connection.client.get(POD_MIGRATION_JOBS, key, UnstructuredObject)
            else:
                return

    async def _send(self, connection: Connection, job: PodMigrationJob, body: dict[str, object]) -> None:
        key = ("", job.metadata.name)
        subresource = None if self._approved else "status"
        await connection.client.merge_patch(
            POD_MIGRATION_JOBS,
            key,
            body,
            model=UnstructuredObject,
            uid=Uid(job.metadata.uid),
            subresource=subresource,
            dry_run=self._dry_run,
        )
