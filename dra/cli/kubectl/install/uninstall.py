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
from dra.cli.kubectl.downgrade.command import format_claims
from dra.cli.kubectl.downgrade.survey import DowngradeSurvey, SurveyReader, UnreadableObjectError
from dra.cli.kubectl.install.removal import PlannedRemoval, RemovalAction, Remover
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, format_table, print_to_stderr
from dra.engine.claims.reasons import list_names
from dra.model.workload_reservations import RESERVED_FOR

_COLOURS: Final = {RemovalAction.DELETE: "red", RemovalAction.KEEP: ""}


def run_uninstall(*, cluster_flags: ClusterFlags, output: PrintOptions, crds: bool, dry_run: bool, yes: bool) -> None:
    """Print the plan, ask, and delete the objects of the plan.

    Raises SystemExit: 1 if a step of the downgrade remains or the user declines, 2 on an error.
    """

    async def work(connection: Connection) -> None:
        remover = Remover(connection, crds=crds)
        plan = await remover.plan()
        survey = await _survey(connection)
        steps = await _remaining_steps(connection, survey)
        click.echo(_format_plan(plan, steps, survey, output))
        if steps:
            print_to_stderr("error: steps of the downgrade remain, nothing was deleted. See: kubectl dra downgrade")
            raise SystemExit(1)
        if dry_run or not any(removal.action is RemovalAction.DELETE for removal in plan):
            return
        if not yes and not _is_confirmed():
            print_to_stderr("nothing was deleted")
            raise SystemExit(1)
        await remover.delete(plan, lambda removal: print_to_stderr(f"{removal.name} deleted"))

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


async def _survey(connection: Connection) -> DowngradeSurvey:
    try:
        return await SurveyReader(connection).survey(None)
    except UnreadableObjectError as error:
        print_to_stderr(f"error: {error}")
        raise SystemExit(2) from error


async def _remaining_steps(connection: Connection, survey: DowngradeSurvey) -> list[CheckResult]:
    """Return the steps of a downgrade that remain: without a controller, pods would wait or claims stay allocated."""
    steps = await cluster_checks.run_checks(connection, survey, DowngradeCheckOptions(lease=(NAMESPACE, LEASE_NAME)))
    return list(steps) if survey.unready_claims or not checklist.is_ready(steps) else []


def _reserved_note(survey: DowngradeSurvey) -> str:
    """Return what happens to the claims that name a workload; empty if none does."""
    reserved = sorted(key for key, marks in survey.annotated_claims.items() if RESERVED_FOR in marks)
    if not reserved:
        return ""
    names = list_names("/".join(key) for key in reserved)
    return (
        f"claims that name a workload: {names}. Their annotations stay, without effect: Kubernetes frees each claim "
        "when its last pod ends, also if its workload continues"
    )


def _format_plan(
    plan: Sequence[PlannedRemoval], steps: Sequence[CheckResult], survey: DowngradeSurvey, output: PrintOptions
) -> str:
    if output.format is not OutputFormat.TABLE:
        return output.render(
            {
                "ready": not steps,
                "checks": [step.to_data() for step in steps],
                "objects": [removal.to_data() for removal in plan],
            }
        )
    if not plan:
        return "nothing to delete: no object has the label of an installation"
    counts = Counter(removal.action for removal in plan)
    rows = [
        (removal.name, printers.coloured(removal.action.value, _COLOURS[removal.action]), removal.detail)
        for removal in plan
    ]
    parts = [
        format_claims(survey.unready_claims, output) if survey.unready_claims else "",
        checklist.format_checklist(steps, output) if steps else "",
        format_table(("OBJECT", "ACTION", "DETAIL"), rows, headers=output.headers),
        ", ".join(f"{counts[action]} {action.value}" for action in RemovalAction if counts[action]),
        _reserved_note(survey),
    ]
    return "\n\n".join(filter(None, parts))
