"""``kubectl dra downgrade``."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.cli.kubectl import findings, remedies, standdown
from dra.cli.kubectl.connection import Connection, FailedError, run
from dra.cli.kubectl.downgrade import advice, outside
from dra.cli.kubectl.downgrade.converting import Converter
from dra.cli.kubectl.downgrade.outside import Wish
from dra.cli.kubectl.downgrade.reading import Reader, Survey, UnreadableError
from dra.cli.kubectl.findings import Finding
from dra.cli.kubectl.options import Place, Style, namespace_options, place_options, style_options
from dra.cli.kubectl.output import Format, say, table
from dra.engine.claims.downgrade import DowngradeAssessment, DowngradeState
from dra.kube.leader_election import LeaderElector
from dra.kube.resources import CLAIMS, PODS
from dra.model.meta import Key

HEADER: Final = ("NAMESPACE", "CLAIM", "STATE", "PODS", "LISTED", "DETAIL")

MOVABLE: Final = frozenset({DowngradeState.CONVERTIBLE, DowngradeState.ORPHAN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the command line asks for."""

    wish: Wish
    namespace: str | None
    given_up: frozenset[Key]
    apply: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How things stand."""

    survey: Survey
    steps: tuple[Finding, ...]

    @property
    def left(self) -> list[DowngradeAssessment]:
        """The claims with which something is to be done, in order."""
        found = (each for each in self.survey.assessments if each.standing is not DowngradeState.READY)
        return sorted(found, key=lambda each: each.claim)


def _claims(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> frozenset[Key]:
    found = set()
    for value in values:
        namespace, slash, name = value.partition("/")
        if not slash or not namespace or not name:
            raise click.BadParameter(f"{value!r} is no NAMESPACE/NAME")
        found.add((namespace, name))
    return frozenset(found)


@click.command()
@place_options
@style_options
@namespace_options
@click.option("--apply", is_flag=True, help="Do what can be done; without it nothing is changed.")
@click.option(
    "--give-up",
    "given_up",
    multiple=True,
    metavar="NAMESPACE/NAME",
    callback=_claims,
    help="A claim that nobody uses now and whose workload need not keep it.",
)
@click.option("--purge", is_flag=True, help="Uninstall: leave nothing behind that is needed to come back.")
@click.option("--probe", is_flag=True, help="Make certain of the stock controller, as `kubectl dra preflight` does.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Where the controllers' lease is …")
@click.option("--lease-name", default=LEASE_NAME, show_default=True, help="… and its name.")
def downgrade(  # noqa: PLR0913 - one for each option
    *,
    place: Place,
    style: Style,
    namespace: str | None,
    apply: bool,
    given_up: frozenset[Key],
    purge: bool,
    probe: bool,
    lease_namespace: str,
    lease_name: str,
) -> None:
    """Go back to stock Kubernetes without losing a device or stopping a pod.

    Tells what is left to do, claim by claim and around them. With --apply the controllers stand down, every pod that
    uses a claim is listed in it, and then what only dra-reserve understands is taken out. May be killed and started
    again at any moment. Exit code: 0 ready, 1 work is left, 2 an error.
    """
    lease = (lease_namespace, lease_name)
    given = advice.options(namespace=namespace, lease=lease)
    wish = Wish(lease=lease, probe=probe, purge=purge, given=given)
    order = Order(wish=wish, namespace=namespace, given_up=given_up, apply=apply)
    report = run(place, lambda connection: _work(connection, order))
    click.echo(_written(report, style, given))
    if report.left or not findings.ready(report.steps):
        raise SystemExit(1)


async def _work(connection: Connection, order: Order) -> Report:
    reader = Reader(connection, given_up=order.given_up)
    try:
        if order.apply:
            await _apply(connection, reader, order)
        survey = await reader.survey(order.namespace)
    except UnreadableError as error:
        raise FailedError(str(error)) from error
    return Report(survey=survey, steps=tuple(await outside.look(connection, survey, order.wish)))


async def _apply(connection: Connection, reader: Reader, order: Order) -> None:
    client, lease = connection.client, order.wish.lease
    found = await standdown.lease(client, lease)
    if found is None:
        await _refuse_without_lease(connection, order)

    async def work(election: LeaderElector | None) -> None:
        survey = await reader.survey(order.namespace)
        converter = Converter(connection, reader, election=election, given_up=order.given_up)
        for each in sorted(survey.assessments, key=lambda found: found.claim):
            if each.standing in MOVABLE:
                await converter.convert(each.claim)
        await asyncio.gather(*(converter.let_go(pod) for pod in survey.gated.values()))
        if order.wish.purge:
            noted = [*((CLAIMS, *each) for each in survey.noted_claims.items())]
            noted += [*((PODS, *each) for each in survey.noted_pods.items())]
            await asyncio.gather(*(converter.clean(kind, key, names) for kind, key, names in noted))

    if await standdown.note(client, lease, "kubectl dra downgrade"):
        say(f"controllers stand down (lease {'/'.join(lease)}); they go on with: {advice.adopt(lease).command}")
        await standdown.in_silence(connection, lease, work)
    else:
        say(f"namespace {lease[0]} is not there: no controller holds a lease in it")
        await work(None)


async def _refuse_without_lease(connection: Connection, order: Order) -> None:
    """Refuse where controllers run that take no lease: nobody could tell them to stop."""
    step = await outside.controllers(connection.client, order.wish)
    if step.verdict is findings.Verdict.LEFT:
        raise FailedError(f"controller {step.detail}; nothing was changed. First: {remedies.said(step.remedy)}")


def _written(report: Report, style: Style, given: str = "") -> str:
    if style.output is not Format.TABLE:
        content = {
            "ready": not report.left and findings.ready(report.steps),
            "claims": [_content(each, given) for each in report.left],
            "checks": [each.content() for each in report.steps],
        }
        return style.data(content)
    parts = []
    if report.left:
        rows = [
            (*each.claim, each.standing.value, str(each.consuming), str(each.listed), each.detail)
            for each in report.left
        ]
        parts.append(table(HEADER, rows, headers=style.headers))
        advised = [each for each in report.left if each.standing not in MOVABLE]
        parts += ["\n".join(f"claim {'/'.join(each.claim)}: {remedies.said(advice.remedy(each))}" for each in advised)]
    parts.append(findings.written(report.steps, style))
    return "\n\n".join(filter(None, parts))


def _content(each: DowngradeAssessment, given: str) -> dict[str, Any]:
    namespace, name = each.claim
    return {
        "namespace": namespace,
        "name": name,
        "state": each.standing.value,
        "pods": each.consuming,
        "listed": each.listed,
        "room": each.room,
        "entries": list(each.entries),
        "detail": each.detail,
        **remedies.data(advice.remedy(each, given)),
    }
