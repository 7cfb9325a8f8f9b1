"""Implements ``kubectl dra reserve``, which works like kubectl create for a Reservation."""

from typing import Final

import click

from dra.cli.kubectl.connection import Connection, FailedError, run
from dra.cli.kubectl.options import ClusterFlags, cluster_options
from dra.cli.kubectl.printers import OutputFormat, format_structured, print_to_stderr
from dra.cli.kubectl.reservations import reservation_manifest
from dra.cli.kubectl.reservations.reservation_manifest import InvalidReserveOptionsError, ReserveOptions
from dra.cli.kubectl.snapshots.snapshot_source import DEFAULT_NAMESPACE
from dra.kube import credentials
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, NotFound
from dra.kube.resources import RESERVATIONS
from dra.model.meta import UnstructuredObject
from dra.model.references import GroupResource

NOT_INSTALLED: Final = (
    "the server knows no Reservations; deploy/reservations has their CRD and the scheduler's extender"
)

_DRY_RUN_SUFFIXES: Final = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


@click.command()
@click.argument("name")
@click.option("--cpu", metavar="AMOUNT", help="CPUs to hold: 6, 500m.")
@click.option("--memory", metavar="AMOUNT", help="Memory to hold: 20Gi.")
@click.option("--resource", "others", metavar="NAME=AMOUNT", multiple=True, help="Any other resource; may be repeated.")
@click.option(
    "--owner",
    "owners",
    metavar="RESOURCE/NAME",
    multiple=True,
    help="Who may use it, named as for kubectl get: jobs.batch/train or job/train for its pods, pod/NAME for one pod; "
    "may be repeated, need not exist yet.",
)
@click.option("-l", "--selector", "labels", metavar="SELECTOR", default="", help="Pods with these labels may use it.")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Where the owners are. Else that of the context.")
@click.option("-A", "--all-namespaces", is_flag=True, help="With -l: pods of any namespace that have the labels.")
@click.option("--ttl", metavar="DURATION", help="How long it lasts from now: 1h, 30m; 0s: for ever. Else 24h.")
@click.option("--expires", metavar="TIME", help="When it ends: 2026-11-21T15:00:00Z.")
@click.option("--node", metavar="NODE", help="On this node only.")
@click.option("--reusable", is_flag=True, help="For one owner after another, not for the first alone.")
@click.option(
    "--policy",
    type=click.Choice(["Aligned", "Restricted"]),
    help="Restricted: owners get what is held and no more of the node.",
)
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    is_flag=False,
    flag_value="client",
    help="client: only print it; server: have it checked, and not kept.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice([OutputFormat.NAME.value, OutputFormat.JSON.value, OutputFormat.YAML.value]),
    help="Print the object instead of a message.",
)
@cluster_options
def reserve(  # noqa: PLR0913 - one for each option
    *,
    name: str,
    cpu: str | None,
    memory: str | None,
    others: tuple[str, ...],
    owners: tuple[str, ...],
    labels: str,
    namespace: str | None,
    all_namespaces: bool,
    ttl: str | None,
    expires: str | None,
    node: str | None,
    reusable: bool,
    policy: str | None,
    dry_run: str,
    output: str | None,
    place: ClusterFlags,
) -> None:
    """Reserve CPUs, memory and other resources of a node for pods that do not exist yet.

    The capacity is held as soon as a scheduler that asks our extender has found a node for it; kubectl dra why
    reservation/NAME says where it is, or what keeps it from being.
    """
    try:
        wish = ReserveOptions(
            name=name,
            resources=reservation_manifest.parse_resources(cpu=cpu, memory=memory, others=others),
            owners=owners,
            labels=labels,
            namespace=_owner_namespace(place, namespace, dry_run),
            everywhere=all_namespaces,
            ttl=ttl,
            expires=expires,
            node=node,
            reusable=reusable,
            policy=policy,
        )
        foreign = reservation_manifest.unknown_owner_kinds(wish)
        if dry_run == "client":
            made = reservation_manifest.build_manifest(wish)
        else:
            made = run(place, lambda connection: _create(connection, wish, foreign, server=dry_run == "server"))
    except InvalidReserveOptionsError as error:
        raise click.UsageError(str(error)) from error
    if output in {OutputFormat.JSON.value, OutputFormat.YAML.value}:
        click.echo(format_structured(made, OutputFormat(output)))
    else:
        done = "" if output == OutputFormat.NAME.value else f" created{_DRY_RUN_SUFFIXES[dry_run]}"
        click.echo(f"reservation.{RESERVATIONS.group}/{name}{done}")
    if labels and all_namespaces:
        print_to_stderr("Whoever makes a pod with these labels, in whichever namespace, may use it.")


def _owner_namespace(place: ClusterFlags, given: str | None, dry_run: str) -> str:
    if given:
        return given
    try:
        return credentials.current_namespace(place.kubeconfig, context=place.context) or DEFAULT_NAMESPACE
    except ApiError as error:
        if dry_run == "client":  # a client-side dry run needs no cluster
            return DEFAULT_NAMESPACE
        raise FailedError(str(error)) from error


async def _create(
    connection: Connection, wish: ReserveOptions, foreign: tuple[GroupResource, ...], *, server: bool
) -> dict[str, object]:
    discovery = Discovery(connection.client)
    kinds = dict(reservation_manifest.POD_CONTROLLER_KINDS)
    for each in foreign:
        meant = await discovery.meant(each)
        if meant is None or each.group not in {"", meant.group}:
            continue  # the same name in another group is another kind
        if (found := await discovery.resolve(meant)) is not None:
            kinds[str(each)] = (found.api_version, found.kind)
    made = reservation_manifest.build_manifest(wish, kinds=kinds)
    try:
        answer = await connection.client.create(RESERVATIONS, made, model=UnstructuredObject, dry_run=server)
    except NotFound as error:
        raise FailedError(NOT_INSTALLED) from error
    return dict(answer.content)
