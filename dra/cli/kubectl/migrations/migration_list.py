"""Implements ``kubectl dra migrations``: pod, nodes, phase and step of each PodMigrationJob."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

import click

from dra.api import durations
from dra.api.migration.model import MalformedPodMigrationJobError, PodMigrationJob, parse_pod_migration_job
from dra.cli.kubectl import resource_table
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.migrations import migration_texts
from dra.cli.kubectl.migrations.migration_reader import read_migrations
from dra.cli.kubectl.migrations.migration_texts import NOT_INSTALLED
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.kubectl.reservations.reservation_describer import NONE_TEXT
from dra.cli.kubectl.resource_table import ResourceTable, SelectorOptions, TableRow
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.diagnosis import migrations as explaining
from dra.engine.diagnosis.snapshot import ControllerPresence, Snapshot
from dra.engine.migration.approval import needs_approval
from dra.kube.resources import POD_MIGRATION_JOBS
from dra.model.meta import Key, Uid, UnstructuredObject

MIGRATION_COLUMNS: Final = ("NAME", "POD", "FROM", "TO", "PHASE", "AGE", "STEP")
MIGRATION_WIDE_COLUMNS: Final = ("MODE", "TTL", "RESERVATION", "NEWPOD", "SINCE", "PLUGIN", "ROUND", "WHY")


def print_migrations(
    source: SnapshotSource, name: str | None, *, selectors: SelectorOptions, output: PrintOptions, watch: bool
) -> None:
    """Print the list of migrations, or one migration."""
    to_table = partial(_build_table, name=name, selectors=selectors)
    if watch:
        from dra.cli.kubectl.snapshots import watch_printer  # noqa: PLC0415 - only who watches needs it

        watched: dict[tuple[Uid, str], TableRow] = {}
        watch_printer.watch_kind(
            source,
            (POD_MIGRATION_JOBS, UnstructuredObject),
            to_table=partial(to_table, cached_rows=watched),
            output=output,
            missing=NOT_INSTALLED,
        )
        return
    if source.bundle_path is not None and selectors.labels:
        raise click.UsageError("a bundle has no labels; select by name with --field-selector metadata.name=NAME")
    snapshot = read_migrations(source)
    if snapshot.migrations is None:
        raise FailedError(NOT_INSTALLED)
    table = to_table(snapshot.migrations, now=source.now(snapshot), nodes=pod_nodes(snapshot))
    if name is not None and not table.rows:
        raise FailedError(f"migration {name}: not found")
    if not table.rows and not output.is_structured:
        print_to_stderr(resource_table.no_resources_message(None))
        return
    resource_table.print_table(table, output)
    for gap in snapshot.gaps if source.bundle_path is None else ():
        print_to_stderr(f"not read: {gap.resource}: {gap.why}")
    if warning := idle_warning(snapshot):
        print_to_stderr(warning)
    if text := approval_text(snapshot.migrations):
        print_to_stderr(text)


def approval_text(migrations: Iterable[UnstructuredObject]) -> str:
    """Return how to answer the jobs that wait for a person; empty if none does.

    The command itself is not printed with a name: it lets a pod be evicted, and printed commands are pasted.
    """
    waiting = [job.metadata.name for job in explaining.parse_jobs(migrations) if needs_approval(job)]
    return f"{len(waiting)} waiting for approval. To answer: kubectl dra approve --help" if waiting else ""


def pod_nodes(snapshot: Snapshot) -> Mapping[Key, str]:
    """Return the nodes of all pods, by the keys of the pods."""
    return {pod.metadata.key: pod.spec.node_name for pod in snapshot.pods}


def idle_warning(snapshot: Snapshot) -> str:
    """Return a warning if jobs wait and no descheduler is known to run; else an empty text."""
    waiting = [job for job in explaining.parse_jobs(snapshot.migrations or ()) if not explaining.has_ended(job)]
    descheduler = snapshot.descheduler
    if not waiting or descheduler.presence not in {ControllerPresence.ABSENT, ControllerPresence.STALE}:
        return ""
    return no_descheduler_text(descheduler.name)


def no_descheduler_text(lease: str) -> str:
    """Return the warning that no descheduler works; `lease` is NAMESPACE/NAME of its Lease."""
    return (
        f"No descheduler is known to run (lease {lease}): the jobs wait until one does, or until their ttl has passed. "
        f"See: kubectl get pods -n {lease.partition('/')[0]}"
    )


def _build_table(
    migrations: Iterable[UnstructuredObject],
    *,
    name: str | None,
    selectors: SelectorOptions,
    now: datetime,
    nodes: Mapping[Key, str] | None = None,
    cached_rows: dict[tuple[Uid, str], TableRow] | None = None,
) -> ResourceTable:
    """Return the table of jobs; `cached_rows` are reused, so that the passing of time counts as no change."""
    rows_by_version = {} if cached_rows is None else cached_rows
    rows = []
    for migration in sorted(migrations, key=_creation_order):
        if name not in {None, migration.metadata.name} or not selectors.matches_labels(migration.metadata.labels):
            continue
        version = (migration.metadata.uid, migration.metadata.resource_version)
        if version not in rows_by_version:
            rows_by_version[version] = migration_row(migration, now=now, nodes=nodes or {})
        rows.append(rows_by_version[version])
    table = ResourceTable(
        header=MIGRATION_COLUMNS, wide=MIGRATION_WIDE_COLUMNS, rows=tuple(rows), single=name is not None
    )
    return resource_table.select_rows(table, selectors)


def migration_row(migration: UnstructuredObject, *, now: datetime, nodes: Mapping[Key, str]) -> TableRow:
    """Return the row of a job; the row of an unreadable job holds the error."""
    content = {**migration.content}
    name = migration.metadata.name
    try:
        job = parse_pod_migration_job(migration.content)
    except MalformedPodMigrationJobError as error:
        blank = (NONE_TEXT,) * 3
        cells: tuple[str, ...] = (name, *blank, "Unreadable", NONE_TEXT, str(error))
        wide: tuple[str, ...] = (NONE_TEXT,) * len(MIGRATION_WIDE_COLUMNS)
    else:
        cells, wide = _cells(job, now=now, nodes=nodes)
    return TableRow(name=f"{migration_texts.KIND_NAME}/{name}", cells=cells, wide=wide, content=lambda: content)


def _cells(job: PodMigrationJob, *, now: datetime, nodes: Mapping[Key, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    facts = explaining.explain(job, from_node=nodes.get(explaining.pod_key(job), ""))
    cells = (
        facts.name,
        "/".join(facts.pod),
        facts.from_node or NONE_TEXT,
        facts.to_node or NONE_TEXT,
        facts.phase,
        migration_texts.age_text(job.metadata.creation_timestamp, now=now),
        migration_texts.step_text(facts),
    )
    wide = (
        job.spec.mode.value if job.spec.mode is not None else NONE_TEXT,
        durations.format_duration(job.spec.ttl) if job.spec.ttl is not None else NONE_TEXT,
        facts.reservation or NONE_TEXT,
        "/".join(facts.new_pod) if facts.new_pod is not None else NONE_TEXT,
        facts.since or NONE_TEXT,
        facts.plugin or NONE_TEXT,
        facts.round or NONE_TEXT,
        facts.cause or NONE_TEXT,
    )
    return cells, wide


def _creation_order(migration: UnstructuredObject) -> tuple[str, str]:
    return (migration.metadata.creation_timestamp or "", migration.metadata.name)
