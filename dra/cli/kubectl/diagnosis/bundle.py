"""Implements the ``kubectl dra bundle`` command."""

from pathlib import Path

import click

import dra.cli.kubectl.snapshots.bundle_file as files
from dra.cli.kubectl.connection import FailedError
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource, source_options


@click.command()
@source_options
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(dir_okay=False, writable=True),
    default="dra-bundle.tgz",
    show_default=True,
    help="The file to write.",
)
def bundle(*, source: SnapshotSource, path: str) -> None:
    """Write what explanations need into a file that may be sent to somebody else.

    In it: claims, the pods' names, nodes, requests and priorities, nodes, slices, classes, templates, Reservations,
    disruption budgets, and the names and states of workloads. Not in it: what containers run, their environment,
    volumes, secrets, annotations of others, labels that no selector names, parameters of drivers. Every command that
    reads takes it: kubectl dra explain claim NAME --from FILE
    """
    snapshot = source.read(SnapshotScope.EVERYTHING)
    try:
        files.write_bundle(snapshot, Path(path))
    except OSError as error:
        raise FailedError(f"{path}: {error.strerror}") from error
    print_to_stderr(f"{path}: {len(snapshot.claims)} claims, {len(snapshot.pods)} pods, {len(snapshot.nodes)} nodes")
