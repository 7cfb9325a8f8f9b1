"""``kubectl dra preflight``."""

import click

from dra.api.configuration import ControllerMode
from dra.api.rbac import NAMESPACE, SERVICE_ACCOUNT
from dra.cli.kubectl import findings
from dra.cli.kubectl.connection import Connection, FailedError, run
from dra.cli.kubectl.options import Place, Style, place_options, style_options
from dra.cli.kubectl.output import say
from dra.cli.kubectl.preflight import checks, granting
from dra.cli.kubectl.preflight.checks import Report, Wish
from dra.cli.kubectl.preflight.granting import Identity
from dra.kube.errors import Forbidden


@click.command()
@place_options
@style_options
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
    place: Place,
    style: Style,
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
    wish = Wish(
        identity=Identity(name="" if own else user),
        replace=mode == ControllerMode.REPLACE.value,
        namespace=lease_namespace,
        probe=probe,
    )
    if missing_rights:
        lacking = run(place, lambda connection: _missing(connection, wish))
        if own:
            raise FailedError("--missing-rights needs to know whom to grant them: --as USER")
        if lacking:
            click.echo(granting.manifest(lacking, wish.identity), nl=False)
        else:
            say(f"{wish.identity} lacks nothing.")
        return
    report = run(place, lambda connection: _look(connection, wish))
    click.echo(findings.written(report.findings, style))
    if not findings.ready(report.findings):
        raise SystemExit(1)


async def _look(connection: Connection, wish: Wish) -> Report:
    try:
        return await checks.look(connection, wish)
    except Forbidden as error:
        raise _unasked(error, wish) from error


async def _missing(connection: Connection, wish: Wish) -> granting.Missing:
    wanted = granting.purposes(replace=wish.replace)
    try:
        return await granting.missing(connection.client, wish.identity, wanted, namespace=wish.namespace)
    except Forbidden as error:
        raise _unasked(error, wish) from error


def _unasked(error: Forbidden, wish: Wish) -> FailedError:
    if "subjectaccessreviews" in str(error) and wish.identity.name:
        return FailedError(f"{error}; ask as an administrator, or for yourself: --self")
    return FailedError(str(error))
