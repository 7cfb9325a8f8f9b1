"""``kubectl dra adopt``: the way back in.

What people wrote on claims is still there after a downgrade, so the controllers need only be let; they then enter the
workloads of claims as they did before. Lists are mixed for a while, which every part of the system copes with.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.cli.kubectl import findings, plane, standdown
from dra.cli.kubectl.connection import Connection, FailedError, run
from dra.cli.kubectl.downgrade import advice
from dra.cli.kubectl.downgrade.reading import Reader, UnreadableError
from dra.cli.kubectl.findings import Finding, Verdict
from dra.cli.kubectl.options import Place, Style, place_options, style_options
from dra.cli.kubectl.output import say
from dra.engine.claims.reasons import list_names
from dra.engine.messages.remedies import SafeCommand, WeighedChoice
from dra.kube.lease_rules import Lease
from dra.model.meta import Key

LOOK_EVERY: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the command line asks for."""

    lease: Key
    seconds: float
    dry_run: bool


@click.command()
@place_options
@style_options
@click.option("--dry-run", is_flag=True, help="Only tell how things stand.")
@click.option("--timeout", type=click.FloatRange(min=0), default=90.0, show_default=True, help="Seconds to wait.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Where the controllers' lease is …")
@click.option("--lease-name", default=LEASE_NAME, show_default=True, help="… and its name.")
def adopt(*, place: Place, style: Style, dry_run: bool, timeout: float, lease_namespace: str, lease_name: str) -> None:
    """Come back from a downgrade: let the controllers act again, and see that they do.

    Exit code: 0 they act and each claim in use has the entry of its workload, 1 not so, 2 an error.
    """
    order = Order(lease=(lease_namespace, lease_name), seconds=timeout, dry_run=dry_run)
    steps = run(place, lambda connection: work(connection, order))
    click.echo(findings.written(steps, style))
    if not findings.ready(steps):
        raise SystemExit(1)


async def work(connection: Connection, order: Order) -> Sequence[Finding]:
    """Take the note off the lease, and look until all is well or the time is over; raises ApiError, FailedError."""
    if not order.dry_run and await standdown.note(connection.client, order.lease, None):
        say(f"controllers may act (lease {'/'.join(order.lease)})")
    until = connection.clock.now() + (0.0 if order.dry_run else order.seconds)
    told = ""
    while True:
        steps = await _look(connection, order)
        if findings.ready(steps) or connection.clock.now() >= until:
            return steps
        left = "; ".join(f"{each.check}: {each.detail}" for each in steps if each.verdict is Verdict.LEFT)
        if left != told:
            say(f"{left}; waiting up to {until - connection.clock.now():.0f} s")
            told = left
        await asyncio.sleep(LOOK_EVERY)


async def _look(connection: Connection, order: Order) -> Sequence[Finding]:
    lease, pid = await standdown.lease(connection.client, order.lease), await plane.controller(connection.client)
    acting = judge_lease(lease, order.lease, pid=pid)
    if acting.verdict is Verdict.LEFT and not order.dry_run:
        return [acting]
    try:
        survey = await Reader(connection).survey(None)
    except UnreadableError as error:
        raise FailedError(str(error)) from error
    return [acting, judge_entries(survey.without_entry)]


def judge_lease(lease: Lease | None, key: Key, *, pid: int | None = None) -> Finding:
    """Judge whether a controller acts. `pid` is that of a local plane's controller, which takes no lease."""
    where = "/".join(key)
    if lease is None and pid is not None:
        detail = f"the controller of the local plane acts (pid {pid})"
        return Finding(check="controllers", verdict=Verdict.OK, detail=detail)
    if lease is not None and lease.stood_down:
        detail = f"they were told to stand down (lease {where})"
        return Finding(check="controllers", verdict=Verdict.LEFT, detail=detail, remedy=advice.adopt(key))
    if lease is None or not lease.spec.holder_identity:
        detail = f"none has the lease {where}"
        remedy = WeighedChoice(
            "start the controller, or install it as you had it (deploy/kustomize, or the Helm chart)"
        )
        return Finding(check="controllers", verdict=Verdict.LEFT, detail=detail, remedy=remedy)
    return Finding(check="controllers", verdict=Verdict.OK, detail=f"{lease.spec.holder_identity} acts (lease {where})")


def judge_entries(without: Sequence[Key]) -> Finding:
    """Judge whether the workloads of claims in use are entered."""
    if not without:
        return Finding(check="claims", verdict=Verdict.OK, detail="each that is in use has the entry of its workload")
    namespace, name = without[0]
    detail = (
        f"{len(without)} are in use without the entry of their workload: {list_names('/'.join(key) for key in without)}"
    )
    remedy = SafeCommand(f"kubectl describe resourceclaim {name} -n {namespace}")
    return Finding(check="claims", verdict=Verdict.LEFT, detail=detail, remedy=remedy)
