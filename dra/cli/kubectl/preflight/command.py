"""Implements the ``kubectl dra preflight`` command."""

import click

from dra.api.configuration import ControllerMode
from dra.api.rbac import NAMESPACE, SERVICE_ACCOUNT
from dra.cli.kubectl import checklist
from dra.cli.kubectl.connection import Connection, FailedError, run
from dra.cli.kubectl.options import ClusterFlags, PrintOptions, cluster_options, print_options
from dra.cli.kubectl.preflight import access_review, checks
from dra.cli.kubectl.preflight.access_review import ReviewedUser
from dra.cli.kubectl.preflight.checks import PreflightOptions, PreflightReport
from dra.cli.kubectl.printers import print_to_stderr
from dra.kube.errors import Forbidden


@click.command()
@cluster_options
@print_options
@click.option(
    "--mode",
    type=click.Choice([each.value for each in ControllerMode]),
    default=ControllerMode.ALONGSIDE.value,
    show_default=True,
    help="The mode that the controller is to run in.",
)
@click.option(
    "--as",
    "user",
    default=f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}",
    show_default=True,
    help="Whose rights are asked for: whom the controller will be.",
)
@click.option("--self", "own", is_flag=True, help="Ask for your own rights instead.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Where the controller's lease is.")
@click.option(
    "--probe", is_flag=True, help="Make certain of the stock controller: a throw-away pod in a namespace of its own."
)
@click.option("--missing-rights", is_flag=True, help="Print the YAML that grants what is missing, and nothing else.")
def preflight(  # noqa: PLR0913 - one for each option
    *,
    place: ClusterFlags,
    style: PrintOptions,
    mode: str,
    user: str,
    own: bool,
    lease_namespace: str,
    probe: bool,
    missing_rights: bool,
) -> None:
    """Check whether this cluster is ready for dra-reserve.

    Nothing is changed, unless --probe is given. Exit code: 0 ready, 1 not, 2 it could not be looked at.
    """
    wish = PreflightOptions(
        identity=ReviewedUser(name="" if own else user),
        replace=mode == ControllerMode.REPLACE.value,
        namespace=lease_namespace,
        probe=probe,
    )
    if missing_rights:
        lacking = run(place, lambda connection: _find_missing_permissions(connection, wish))
        if own:
            raise FailedError("--missing-rights needs to know whom to grant them: --as USER")
        if lacking:
            click.echo(access_review.rbac_manifest(lacking, wish.identity), nl=False)
        else:
            print_to_stderr(f"{wish.identity} lacks nothing.")
        return
    report = run(place, lambda connection: _run_checks(connection, wish))
    click.echo(checklist.format_checklist(report.findings, style))
    if not checklist.is_ready(report.findings):
        raise SystemExit(1)


async def _run_checks(connection: Connection, wish: PreflightOptions) -> PreflightReport:
    try:
        return await checks.run_checks(connection, wish)
    except Forbidden as error:
        raise _access_review_error(error, wish) from error


async def _find_missing_permissions(connection: Connection, wish: PreflightOptions) -> access_review.MissingPermissions:
    wanted = access_review.needed_purposes(replace=wish.replace)
    try:
        return await access_review.find_missing_permissions(
            connection.client, wish.identity, wanted, namespace=wish.namespace
        )
    except Forbidden as error:
        raise _access_review_error(error, wish) from error


def _access_review_error(error: Forbidden, wish: PreflightOptions) -> FailedError:
    if "subjectaccessreviews" in str(error) and wish.identity.name:
        return FailedError(f"{error}; ask as an administrator, or for yourself: --self")
    return FailedError(str(error))
