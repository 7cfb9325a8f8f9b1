"""Implements ``kubectl dra deschedule --dry-run``."""

from pathlib import Path

import click

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import run
from dra.cli.kubectl.descheduling import round_table
from dra.cli.kubectl.descheduling.configuration_reader import (
    AssumedConfiguration,
    read_configuration,
    read_configuration_file,
)
from dra.cli.kubectl.descheduling.dry_round import NO_PROFILES, plan_round, run_dry_round
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.kubectl.resource_table import SelectorOptions
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource

ONLY_DRY = (
    "this command evicts nothing: give --dry-run to see what a round would do. The descheduler runs the rounds of its "
    "own configuration; to move a pod yourself, see kubectl dra migrate --help"
)
NO_CONFIGURATION = "a bundle has no configuration of the descheduler: give one with -f FILE"


def run_round_dry(  # noqa: PLR0913 - one for each option
    *,
    cluster_flags: ClusterFlags,
    dry_run: str,
    config: Path | None,
    namespace: str | None,
    selectors: SelectorOptions,
    bundle: str | None,
    output: PrintOptions,
    lease_namespace: str,
) -> None:
    """Run ``kubectl dra deschedule``; the declaration describes the options."""
    if dry_run == "none":
        raise click.UsageError(ONLY_DRY)
    source = SnapshotSource(cluster_flags=cluster_flags, bundle_path=bundle, lease_namespace=lease_namespace)
    plan = plan_round(assumed := _configuration(source, config))
    if plan is None:
        raise FailedError(f"{NO_PROFILES}. {assumed.text}")
    snapshot = source.read_for_descheduling()
    now = source.now(snapshot)
    report, _ = run_dry_round(plan, snapshot, now=now, bundled=bundle is not None)
    round_table.print_round(report, selectors=selectors, output=output, namespace=namespace)
    print_to_stderr(round_table.summary(report))
    if report.result.faults or report.incomplete:
        raise SystemExit(1)


def _configuration(source: SnapshotSource, config: Path | None) -> AssumedConfiguration:
    if config is not None:
        return read_configuration_file(config)
    if source.bundle_path is not None:
        raise FailedError(NO_CONFIGURATION)
    return run(source.cluster_flags, lambda connection: read_configuration(connection, source.lease_namespace))
