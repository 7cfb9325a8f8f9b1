"""Previews migrations for ``kubectl dra migrate --dry-run``: where each pod would be, or why it would stay."""

from collections.abc import Iterable
from typing import Final

import click
import msgspec

from dra.api.migration.model import PodMigrationJob, parse_pod_migration_job
from dra.api.rbac import LEASE_NAME
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.descheduling.configuration_reader import (
    AssumedConfiguration,
    read_configuration,
    read_configuration_file,
)
from dra.cli.kubectl.migrate.pod_choice import MigrateOptions, choose_pods
from dra.cli.kubectl.migrations import migration_requests
from dra.cli.kubectl.migrations.migration_texts import SCHEDULABLE_NODE
from dra.cli.kubectl.printers import format_table, print_to_stderr, terminal_width
from dra.cli.kubectl.reservations.reservation_describer import NONE_TEXT
from dra.cli.kubectl.simulate.simulated_migrations import MigrationOutcome, migration_outcome_text, simulate_migrations
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.engine.diagnosis import migrations as explaining
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.migration.arbitration import ArbitrationVerdict, ArbitrationView, Outcome, arbitrate, workloads_to_read
from dra.engine.migration.job_manifests import MigrationRequest, next_job_name, requested_job
from dra.engine.migration.pod_index import PodIndex
from dra.engine.migration.view import MigrationPod
from dra.requests.workload_replicas import WorkloadReplicas

PREVIEW_COLUMNS: Final = ("POD", "TO", "WHAT WOULD HAPPEN")
UNREAD_BUDGETS: Final = "PodUnavailableBudgets are not read"


async def preview_migrations(connection: Connection, options: MigrateOptions) -> bool:
    """Print what would happen to each pod; return whether all pods could be migrated."""
    assumed = await _configuration(connection, options)
    jobs = tuple(explaining.parse_jobs(await migration_requests.list_jobs(connection.client)))
    chosen = await choose_pods(connection, options)
    reader = SnapshotReader(connection, namespace=None, lease=(options.lease_namespace, LEASE_NAME))
    snapshot = await reader.read(SnapshotScope.EVERYTHING)
    running = {
        pod.metadata.key: job.metadata.name
        for pod in chosen.pods
        if (job := explaining.job_of_pod(jobs, pod.metadata.key, pod.metadata.uid))
    }
    wanted = [_preview_job(pod, chosen.options_for(pod, options.request)) for pod in chosen.pods]
    simulated = simulate_migrations(snapshot, wanted, args=assumed.args).outcomes
    begun = {outcome.job for outcome in simulated if not outcome.refusal and outcome.pod not in running}
    asking = [job for job in wanted if job.metadata.name in begun]
    now = connection.clock.wall().timestamp()
    view = await _arbitration_view(connection, snapshot, chosen.pods, jobs=(*jobs, *asking))
    verdicts = {verdict.job: verdict for verdict in arbitrate(view, args=assumed.args, now=now)}
    outcomes = [_with_refusal(outcome, verdicts.get(outcome.job)) for outcome in simulated]
    rows = [
        (
            "/".join(outcome.pod),
            outcome.to_node or NONE_TEXT,
            f"migrates already: job {running[outcome.pod]}"
            if outcome.pod in running
            else migration_outcome_text(outcome) + _wait(outcome, verdicts.get(outcome.job)),
        )
        for outcome in outcomes
    ]
    rows += [
        ("/".join(staying_pod.pod.metadata.key), NONE_TEXT, f"stays: it {staying_pod.reason.value}")
        for staying_pod in chosen.staying
    ]
    if rows:
        click.echo(format_table(PREVIEW_COLUMNS, rows, wrapped=terminal_width()))
    if wanted:
        print_to_stderr(assumed.text)
    if asking:
        print_to_stderr(UNREAD_BUDGETS)
    for gap in snapshot.gaps:
        print_to_stderr(f"not read: {gap.resource}: {gap.why}")
    if chosen.node is not None and not chosen.node.spec.unschedulable:
        follows = "would be marked unschedulable first" if options.cordon else SCHEDULABLE_NODE
        print_to_stderr(f"node {options.name} {follows}")
    return all(outcome.moves or outcome.pod in running for outcome in outcomes) and (
        bool(chosen.pods) or chosen.node is not None
    )


async def _configuration(connection: Connection, options: MigrateOptions) -> AssumedConfiguration:
    if options.configuration_path is not None:
        return read_configuration_file(options.configuration_path)
    return await read_configuration(connection, options.lease_namespace)


async def _arbitration_view(
    connection: Connection, snapshot: Snapshot, chosen: Iterable[MigrationPod], *, jobs: tuple[PodMigrationJob, ...]
) -> ArbitrationView:
    """Return what the descheduler would read for its next arbitration, as far as the user may read it."""
    pods = PodIndex(msgspec.convert(msgspec.to_builtins(cluster_pod), MigrationPod) for cluster_pod in snapshot.pods)
    for pod in chosen:  # with the fields that a snapshot leaves out, such as volumes
        pods.observe(pod)
    view = ArbitrationView(jobs=jobs, pods=pods, disruption_budgets=snapshot.budgets)
    reader = WorkloadReplicas(connection.client, clock=connection.clock)
    return msgspec.structs.replace(view, replicas=await reader.read(workloads_to_read(view)))


def _with_refusal(outcome: MigrationOutcome, verdict: ArbitrationVerdict | None) -> MigrationOutcome:
    if verdict is None or verdict.outcome is not Outcome.REFUSED:
        return outcome
    return msgspec.structs.replace(outcome, refusal=verdict.message, to_node="")


def _wait(outcome: MigrationOutcome, verdict: ArbitrationVerdict | None) -> str:
    is_waiting = outcome.moves and verdict is not None and verdict.outcome is Outcome.WAITING
    return f"; waits first: {verdict.message}" if is_waiting and verdict is not None else ""


def _preview_job(pod: MigrationPod, request: MigrationRequest) -> PodMigrationJob:
    """Return the job that would be created for a pod, as the API server would complete it."""
    name = next_job_name(pod.metadata, ())
    content = requested_job(pod.metadata, request, name=name)
    content["metadata"]["uid"] = f"simulated-migration-{name}"
    return parse_pod_migration_job(content)
