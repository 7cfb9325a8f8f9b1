"""Declares the commands about descheduling; the modules that do the work are imported on use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dra.cli.kubectl.client_flags import client_options
from dra.cli.kubectl.declarations.management import namespace_option
from dra.cli.kubectl.option_types import DryRunCommand
from dra.cli.kubectl.option_values import DRY_RUN_STRATEGIES
from dra.cli.kubectl.print_flags import list_print_options
from dra.cli.kubectl.resource_args import complete_names_of
from dra.cli.kubectl.resource_table import selector_options
from dra.cli.kubectl.snapshots.snapshot_source import bundle_option, lease_namespace_option

if TYPE_CHECKING:
    from dra.cli.cluster_flags import Command

dry_run_option = click.option(
    "--dry-run",
    type=click.Choice(DRY_RUN_STRATEGIES),
    default="none",
    help="client, server, or no value: print what would be done without doing it.",
)


@click.command(cls=DryRunCommand)
@client_options
@dry_run_option
@click.option(
    "-f",
    "--config",
    "config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration of the round: a file of dra-reserve descheduler, a DeschedulerConfiguration of Koordinator or "
    "a DeschedulerPolicy of the community. Default: the configuration of the installed descheduler.",
)
@namespace_option("Print only the pods of this namespace; the round is that of the whole cluster all the same.")
@selector_options
@bundle_option
@list_print_options
@lease_namespace_option
def deschedule(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Display which pods a round of descheduling would move, by which plugin, why, and where each would fit.

    The command needs --dry-run: it evicts nothing, and the descheduler alone does. It runs one round with the code of
    the descheduler on the present cluster, or with --from on a bundle. FROM shows the node of a pod, TO a node that has
    room for it; kube-scheduler may choose another one. Candidates that stay follow with the filter, the budget or the
    limit that keeps each. Exit code: 0 the round was complete, 1 a plugin has failed or objects could not be read, 2
    error.
    """
    from dra.cli.kubectl.descheduling.command import run_round_dry  # noqa: PLC0415 - see the head of the module

    run_round_dry(**options)


def _answer_options(verb: str) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        command = client_options(command)
        command = dry_run_option(command)
        all_option = click.option(
            "--all", "all_waiting", is_flag=True, help=f"{verb} all migrations that wait for approval."
        )
        names = click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=complete_names_of("migration"))
        return names(all_option(command))

    return add


@click.command(cls=DryRunCommand)
@_answer_options("Approve")
def approve(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Approve migrations that wait for a person, so that they begin.

    With approval: Required in its configuration, the descheduler creates PodMigrationJobs that wait. kubectl dra
    migrations shows them with the plugin and the reason. Exit code: 0 all are approved, 1 some do not wait for
    approval, 2 error.
    """
    from dra.cli.kubectl.migrations.approvals import answer_migrations  # noqa: PLC0415 - see the head of the module

    answer_migrations(approved=True, **options)


@click.command(cls=DryRunCommand)
@_answer_options("Reject")
def reject(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Reject migrations that wait for a person; their pods stay where they are.

    A rejected PodMigrationJob ends in phase Aborted. Exit code: 0 all are rejected, 1 some do not wait for approval, 2
    error.
    """
    from dra.cli.kubectl.migrations.approvals import answer_migrations  # noqa: PLC0415 - as above

    answer_migrations(approved=False, **options)
