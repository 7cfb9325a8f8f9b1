"""Implements ``kubectl dra migrate``: moves pods to other nodes, capacity first.

The command only creates PodMigrationJobs and follows them; the descheduler does the work, and goes on when the command
is interrupted. Only ``--cordon`` changes a node, as the option says.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from dra.api.durations import parse_duration
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.migrate.pod_choice import ChosenPods, MigrateOptions, choose_pods
from dra.cli.kubectl.migrate.preview import preview_migrations
from dra.cli.kubectl.migrations import (
    job_follower,
    migration_list,
    migration_requests,
    migration_texts,
)
from dra.cli.kubectl.migrations.job_follower import FollowedMigrations
from dra.cli.kubectl.migrations.migration_requests import RequestedMigration
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.kubectl.resource_args import MIGRATED_KINDS, parse_resource_args
from dra.cli.kubectl.snapshots import lease_reader
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.snapshot import ControllerPresence
from dra.engine.messages.remedies import SafeCommand
from dra.engine.migration.job_manifests import MigrationRequest
from dra.kube.errors import Forbidden, Invalid
from dra.kube.resources import NODES
from dra.model.nodes import Node

NODE_TTL: Final = "1h"
"""Time to live of the jobs of a node: it counts while a job waits for the others, two at a time by default."""


def run_migrations(  # noqa: PLR0913 - one for each option
    *,
    kind: str,
    name: str | None,
    cluster_flags: ClusterFlags,
    namespace: str | None,
    mode: str | None,
    ttl: str,
    cordon: bool,
    without_cpus: bool,
    dry_run: str,
    config: Path | None,
    wait: bool,
    timeout: float,
    lease_namespace: str,
) -> None:
    """Run ``kubectl dra migrate``; the declaration describes the options."""
    kind, found_name = parse_resource_args(kind, name, among=MIGRATED_KINDS)
    assert found_name  # noqa: S101 - for mypy: it was asked for
    if cordon and kind != "node":
        raise click.UsageError("--cordon requires node/NAME")
    if without_cpus and kind != "node":
        raise click.UsageError("--without-cpus requires node/NAME")
    if config is not None and dry_run == "none":
        raise click.UsageError("--config requires --dry-run: the descheduler has its own configuration")
    if ttl:
        try:
            parse_duration(ttl)
        except ValueError as error:
            raise click.UsageError(f"--ttl: {error}") from error
    source = SnapshotSource(cluster_flags=cluster_flags, requested_namespace=namespace)
    options = MigrateOptions(
        kind=kind,
        name=found_name,
        namespace=source.namespace if kind == "pod" else "",
        request=requested_options(kind, mode=mode or "", ttl=ttl),
        lease_namespace=lease_namespace,
        timeout_seconds=timeout,
        wait=wait,
        cordon=cordon,
        without_cpus=without_cpus,
        configuration_path=config,
    )
    if dry_run != "none":
        done = run(cluster_flags, lambda connection: preview_migrations(connection, options))
    else:
        done = run(cluster_flags, lambda connection: migrate_pods(connection, options, report=click.echo))
    if not done:
        raise SystemExit(1)


def requested_options(kind: str, *, mode: str, ttl: str) -> MigrationRequest:
    """Return the options of the jobs; empty ones leave the configured default, except for the ttl of a node's jobs."""
    return MigrationRequest(mode=mode, ttl=ttl or (NODE_TTL if kind == "node" else ""))


async def migrate_pods(connection: Connection, options: MigrateOptions, *, report: Callable[[str], None]) -> bool:
    """Create the jobs and follow them; return whether all pods have moved, or were at least requested to."""
    jobs = await migration_requests.list_jobs(connection.client)
    chosen = await choose_pods(connection, options)
    _report_staying(chosen)
    if not chosen.pods:
        if chosen.node is not None:
            report(f"node {options.name}: no pods to migrate")
        return chosen.node is not None
    if chosen.node is not None:
        await _prepare_node(connection, chosen.node, options, report=report)
    requested, refused = [], False
    for pod in chosen.pods:
        try:
            wanted = chosen.options_for(pod, options.request)
            migration = await migration_requests.request_migration(connection.client, pod, wanted, jobs=jobs)
        except (Forbidden, Invalid) as error:  # an admission policy may allow the other pods
            refused = True
            print_to_stderr(f"pod {'/'.join(pod.metadata.key)}: no job created: {error}")
            continue
        requested.append(migration)
        report(f"{migration_texts.KIND_NAME}/{migration.job} {'created' if migration.created else 'exists: followed'}")
    if not requested:
        return False
    if warning := await _descheduler_warning(connection, options):
        print_to_stderr(warning)
    if not options.wait:
        print_to_stderr(f"To see how the migrations go on: {_list_command(requested)}")
        return not refused
    followed = FollowedMigrations(requested)
    try:
        await job_follower.follow(connection, followed, timeout_seconds=options.timeout_seconds, report=report)
    except asyncio.CancelledError:
        _report_interruption(followed)
        raise
    _report_result(followed, options)
    return not (refused or followed.failed or followed.unfinished)


async def _prepare_node(
    connection: Connection, node: Node, options: MigrateOptions, *, report: Callable[[str], None]
) -> None:
    """Mark the node unschedulable if asked to; else say what follows from a schedulable node."""
    if node.spec.unschedulable:
        return
    if not options.cordon:
        print_to_stderr(f"node {options.name} {migration_texts.SCHEDULABLE_NODE}")
        return
    body = {"spec": {"unschedulable": True}}
    await connection.client.merge_patch(NODES, ("", options.name), body, model=Node, uid=node.metadata.uid)
    report(f"node/{options.name} cordoned")


async def _descheduler_warning(connection: Connection, options: MigrateOptions) -> str:
    lease = await lease_reader.read_descheduler_lease(connection.client, options.lease_namespace)
    if lease.presence in {ControllerPresence.ABSENT, ControllerPresence.STALE}:
        return migration_list.no_descheduler_text(lease.name)
    return ""


def _report_staying(chosen: ChosenPods) -> None:
    for staying_pod in chosen.staying:
        print_to_stderr(f"pod {'/'.join(staying_pod.pod.metadata.key)} stays: it {staying_pod.reason.value}")


def _report_interruption(followed: FollowedMigrations) -> None:
    print_to_stderr(f"The migrations go on. To see them: {_list_command(followed.requested)}")
    if followed.stoppable:
        command = SafeCommand(f"kubectl delete podmigrationjobs {' '.join(followed.stoppable)}")
        print_to_stderr(f"To stop those whose pods are not evicted yet: {command.command}")


def _report_result(followed: FollowedMigrations, options: MigrateOptions) -> None:
    for name in followed.failed:
        print_to_stderr(f"migration {name} failed. See: kubectl dra explain migration {name}")
    if followed.unfinished:
        print_to_stderr(
            f"not ended within {options.timeout_seconds:g} s, and going on: {list_names(followed.unfinished)}. "
            "See: kubectl dra migrations"
        )


def _list_command(requested: Sequence[RequestedMigration]) -> str:
    return f"kubectl dra migrations {requested[0].job}" if len(requested) == 1 else "kubectl dra migrations"
