"""Implements ``kubectl dra release`` and ``kubectl dra wait``."""

import asyncio
import re

import click

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.cli.kubectl.claim_release import ReleaseOptions, ReleaseRefusedError, release_claim
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.options import ClusterFlags, cluster_options
from dra.cli.kubectl.printers import print_to_stderr, wrap_lines
from dra.cli.kubectl.resource_args import KindParam, NameParam, parse_resource_args
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader, SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import DEFAULT_NAMESPACE, SnapshotSource
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.kube.errors import NotFound
from dra.kube.resources import CLAIMS
from dra.model.claims import ResourceClaim

POLL_INTERVAL = 1.0
"""Seconds between two reads of the claim."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class _DurationParam(click.ParamType):  # type: ignore[type-arg] # not generic in click 8.3
    """A duration such as ``90``, ``30s``, ``5m`` or ``1h``, as kubectl accepts it."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value))
        if found is None:
            self.fail(f"{value!r} is no duration; write it as in: 30s, 5m", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


def _claim_name(what: str, name: str | None) -> str:
    """Return the name of the claim on the command line."""
    return str(parse_resource_args(what, name, among=("claim",))[1])


class _DryRunCommand(click.Command):
    """A command that accepts ``--dry-run`` without a value; the next word is then not its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--dry-run=client" if each == "--dry-run" else each for each in args])


@click.command(cls=_DryRunCommand)
@click.argument("what", metavar="claim", type=KindParam(("claim",)))
@click.argument("name", required=False, type=NameParam())
@cluster_options
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Else that of the context.")
@click.option("--timeout", type=_DurationParam(), default="240s", show_default=True, help="How long it may take.")
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    help="client, server, or nothing behind it: say what would be done, and do nothing.",
)
@click.option("--if-unused", is_flag=True, help="Vouch for nothing: refuse where anything keeps the claim.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Where our controller's lease is.")
def release(  # noqa: PLR0913 - one for each option
    *,
    what: str,
    name: str | None,
    place: ClusterFlags,
    namespace: str | None,
    timeout: float,
    dry_run: str,
    if_unused: bool,
    lease_namespace: str,
) -> None:
    """Give a claim back: you vouch that nobody uses it any more.

    A pod that uses it on a node that is Ready is never overridden, and one that may be bound any moment is waited for.
    Our controller does it where it runs, else this command. Exit code: 0 released, 1 refused, 2 an error.
    """
    meant = SnapshotSource(place=place, given=namespace).namespace or DEFAULT_NAMESPACE
    wish = ReleaseOptions(
        key=(meant, _claim_name(what, name)),
        lease=(lease_namespace, LEASE_NAME),
        within=timeout,
        dry=dry_run != "none",
        unused=if_unused,
    )
    try:
        click.echo(run(place, lambda connection: release_claim(connection, wish, say=print_to_stderr)))
    except ReleaseRefusedError as error:
        print_to_stderr(f"{error}")
        raise SystemExit(1) from error


@click.command()
@click.argument("what", metavar="claim", type=KindParam(("claim",)))
@click.argument("name", required=False, type=NameParam())
@cluster_options
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Else that of the context.")
@click.option(
    "--for",
    "state",
    type=click.Choice(["released", "allocated"]),
    default="released",
    show_default=True,
    help="What to wait for.",
)
@click.option("--timeout", type=_DurationParam(), default="30s", show_default=True, help="How long to wait.")
def wait(
    *, what: str, name: str | None, place: ClusterFlags, namespace: str | None, state: str, timeout: float
) -> None:
    """Wait until a claim is released, or allocated.

    A claim that is gone is released. When time is up, it says what keeps the claim. Exit code: 0 it is so, 1 it is not.
    """
    key = (SnapshotSource(place=place, given=namespace).namespace or DEFAULT_NAMESPACE, _claim_name(what, name))

    async def look(connection: Connection) -> list[str] | None:
        until, seen = connection.clock.now() + timeout, False
        while True:
            try:
                claim = await connection.client.get(CLAIMS, key, ResourceClaim)
                allocated, seen = claim.status.allocation is not None, True
            except NotFound as error:
                if state == "allocated" or not error.details.name:  # without a name, the API itself is missing
                    raise
                if not seen:
                    print_to_stderr(f"claim {'/'.join(key)}: is gone, or never was. See: kubectl dra get claims -A")
                allocated = False
            if allocated == (state == "allocated"):
                return None
            if connection.clock.now() >= until:
                break
            await asyncio.sleep(min(POLL_INTERVAL, max(until - connection.clock.now(), 0.01)))
        snapshot = await SnapshotReader(connection, namespace=key[0], lease=(NAMESPACE, LEASE_NAME)).read(
            SnapshotScope.ALL
        )
        facts = claims.explain(ClusterState(snapshot), key)
        return [*describer.describe_claim(facts, snapshot)] if facts is not None else []

    missed = run(place, look)
    if missed is None:
        click.echo(f"resourceclaim.resource.k8s.io/{key[1]} {state}")
        return
    print_to_stderr("\n".join([f"claim {'/'.join(key)}: not {state} within {timeout:g} s", *wrap_lines(missed)]))
    raise SystemExit(1)
