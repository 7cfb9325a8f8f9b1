"""Implements the ``kubectl dra uninstall`` command."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import checklist, printers
from dra.cli.kubectl.checklist import CheckResult
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.downgrade import cluster_checks
from dra.cli.kubectl.downgrade.cluster_checks import DowngradeCheckOptions
from dra.cli.kubectl.downgrade.survey import SurveyReader, UnreadableObjectError
from dra.cli.kubectl.install.removal import PlannedRemoval, RemovalAction, Remover
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, format_table, print_to_stderr
from dra.engine.claims.downgrade import DowngradeState

_COLOURS: Final = {RemovalAction.DELETE: "red", RemovalAction.KEEP: ""}


def run_uninstall(*, cluster_flags: ClusterFlags, output: PrintOptions, crds: bool, dry_run: bool, yes: bool) -> None:
    """Print the plan, ask, and delete the objects of the plan.

    Raises SystemExit: 1 if a step of the downgrade remains or the user declines, 2 on an error.
    """

    async def work(connection: Connection) -> None:
        remover = Remover(connection, crds=crds)
        plan = await remover.plan()
        steps = await _remaining_steps(connection)
        click.echo(_format_plan(plan, steps, output))
        if steps:
            print_to_stderr("error: steps of the downgrade remain, nothing was deleted. See: kubectl dra downgrade")
            raise SystemExit(1)
        if dry_run or not any(each.action is RemovalAction.DELETE for each in plan):
            return
        if not yes and not _is_confirmed():
            print_to_stderr("nothing was deleted")
            raise SystemExit(1)
        await remover.delete(plan, lambda each: print_to_stderr(f"{each.name} deleted"))

    run(cluster_flags, work)


def is_interactive() -> bool:
    """Report whether a user can answer questions."""
    return sys.stdin.isatty()


def _is_confirmed() -> bool:
    """Ask whether the plan shall be carried out; without a terminal, the answer is no."""
    if not is_interactive():
        print_to_stderr("error: standard input is no terminal that could confirm the plan. Use --yes")
        return False
    return click.confirm("Uninstall?", err=True)


async def _remaining_steps(connection: Connection) -> list[CheckResult]:
    """Return the steps of a downgrade that remain: without a controller, pods would wait or claims stay allocated."""
    try:
        survey = await SurveyReader(connection).survey(None)
    except UnreadableObjectError as error:
        print_to_stderr(f"error: {error}")
        raise SystemExit(2) from error
    options = DowngradeCheckOptions(lease=(NAMESPACE, LEASE_NAME))
    steps = await cluster_checks.run_checks(connection, survey, options)
    unready = any(each.state is not DowngradeState.READY for each in survey.assessments)
    return list(steps) if unready or not checklist.is_ready(steps) else []


def _format_plan(plan: Sequence[PlannedRemoval], steps: Sequence[CheckResult], output: PrintOptions) -> str:
    if output.format is not OutputFormat.TABLE:
        return output.render(
            {
                "ready": not steps,
                "checks": [each.to_data() for each in steps],
                "objects": [each.to_data() for each in plan],
            }
        )
    if not plan:
        return "nothing to delete: no object has the label of an installation"
    counts = Counter(each.action for each in plan)
    rows = [(each.name, printers.coloured(each.action.value, _COLOURS[each.action]), each.detail) for each in plan]
    parts = [
        checklist.format_checklist(steps, output) if steps else "",
        format_table(("OBJECT", "ACTION", "DETAIL"), rows, headers=output.headers),
        ", ".join(f"{counts[action]} {action.value}" for action in RemovalAction if counts[action]),
    ]
    return "\n\n".join(filter(None, parts))
