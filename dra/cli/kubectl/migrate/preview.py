"""Previews migrations for ``kubectl dra migrate --dry-run``: where each pod would be, or why it would stay."""

from collections.abc import Iterable, Iterator
from typing import Final

import click

from dra.api.migration.model import PodMigrationJob, parse_pod_migration_job
from dra.api.rbac import LEASE_NAME
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.migrate.pod_choice import MigrateOptions, choose_pods
from dra.cli.kubectl.migrations import migration_requests
from dra.cli.kubectl.migrations.migration_requests import MigrationRequest
from dra.cli.kubectl.migrations.migration_texts import SCHEDULABLE_NODE
from dra.cli.kubectl.printers import format_table, print_to_stderr, terminal_width
from dra.cli.kubectl.reservations.reservation_describer import NONE_TEXT
from dra.cli.kubectl.simulate.simulated_migrations import migration_outcome_text, simulate_migrations
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader, SnapshotScope
from dra.engine.diagnosis import migrations as explaining
from dra.engine.migration.view import MigrationPod
from dra.model.preemption import PodDisruptionBudget

PREVIEW_COLUMNS: Final = ("POD", "TO", "WHAT WOULD HAPPEN")


async def preview_migrations(connection: Connection, options: MigrateOptions) -> bool:
    """Print what would happen to each pod; return whether all pods could be migrated."""
    jobs = await migration_requests.list_jobs(connection.client)
    chosen = await choose_pods(connection, options)
    reader = SnapshotReader(connection, namespace=None, lease=(options.lease_namespace, LEASE_NAME))
    snapshot = await reader.read(SnapshotScope.EVERYTHING)
    wanted = [_preview_job(pod, chosen.options_for(pod, options.request)) for pod in chosen.pods]
    outcomes = {each.pod: each for each in simulate_migrations(snapshot, wanted).outcomes}
    running = {
        pod.metadata.key: job.metadata.name
        for pod in chosen.pods
        if (job := explaining.job_of_pod(explaining.parse_jobs(jobs), pod.metadata.key, pod.metadata.uid))
    }
    pods = {pod.metadata.key: pod for pod in chosen.pods}
    rows = [
        (
            "/".join(key),
            each.to_node or NONE_TEXT,
            f"migrates already: job {running[key]}"
            if key in running
            else "; ".join((migration_outcome_text(each), *_budget_waits(pods[key], snapshot.budgets))),
        )
        for key, each in outcomes.items()
    ]
    rows += [("/".join(each.pod.metadata.key), NONE_TEXT, f"stays: it {each.reason.value}") for each in chosen.staying]
    if rows:
        click.echo(format_table(PREVIEW_COLUMNS, rows, wrapped=terminal_width()))
    for gap in snapshot.gaps:
        print_to_stderr(f"not read: {gap.resource}: {gap.why}")
    if chosen.node is not None and not chosen.node.spec.unschedulable:
        follows = "would be marked unschedulable first" if options.cordon else SCHEDULABLE_NODE
        print_to_stderr(f"node {options.name} {follows}")
    return all(each.moves or each.pod in running for each in outcomes.values()) and (
        bool(chosen.pods) or chosen.node is not None
    )


def _budget_waits(pod: MigrationPod, budgets: Iterable[PodDisruptionBudget]) -> Iterator[str]:
    """Yield the disruption budgets that a migration of a pod would wait for now."""
    for budget in budgets:
        if budget.matches_pod(pod.metadata) and budget.status.disruptions_allowed <= 0:
            yield f"waits for budget {'/'.join(budget.metadata.key)}, which allows no eviction now"


def _preview_job(pod: MigrationPod, request: MigrationRequest) -> PodMigrationJob:
    """Return the job that would be created for a pod, as the API server would complete it."""
    name = migration_requests.next_job_name(pod, ())
    content = migration_requests.job_manifest(pod, request, name=name)
    content["metadata"]["uid"] = f"simulated-migration-{name}"
    return parse_pod_migration_job(content)
