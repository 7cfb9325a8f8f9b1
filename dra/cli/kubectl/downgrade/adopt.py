"""Implements ``kubectl dra adopt``, which reverts a downgrade.

Users' annotations on claims are still there after a downgrade. So the controllers need only act again; they then enter
the workloads of claims as before. Lists are mixed for a while, which every component handles.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import checklist
from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.connection import Connection, controller_pid, run
from dra.cli.kubectl.downgrade import cluster_checks, stand_down
from dra.cli.kubectl.downgrade.survey import SurveyReader, UnreadableObjectError
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import print_to_stderr
from dra.engine.claims.reasons import list_names
from dra.engine.messages.remedies import SafeCommand, WeighedChoice
from dra.kube.lease_rules import Lease
from dra.model.meta import Key

POLL_INTERVAL: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptOptions:
    """The checked options of ``kubectl dra adopt``."""

    lease: Key
    timeout: float
    dry_run: bool


def print_adoption(
    *,
    cluster_flags: ClusterFlags,
    output: PrintOptions,
    dry_run: bool,
    timeout: float,
    lease_namespace: str,
    lease_name: str,
) -> None:
    """Run ``kubectl dra adopt``; the declaration describes the options."""
    options = AdoptOptions(lease=(lease_namespace, lease_name), timeout=timeout, dry_run=dry_run)
    steps = run(cluster_flags, lambda connection: run_adopt(connection, options))
    click.echo(checklist.format_checklist(steps, output))
    if not checklist.is_ready(steps):
        raise SystemExit(1)


async def run_adopt(connection: Connection, options: AdoptOptions) -> Sequence[CheckResult]:
    """Remove the stand-down annotation, then check until all is well or time is up; raise ApiError, FailedError."""
    if not options.dry_run and await stand_down.set_stand_down(connection.client, options.lease, None):
        print_to_stderr(f"controllers re-enabled (lease {'/'.join(options.lease)})")
    until = connection.clock.now() + (0.0 if options.dry_run else options.timeout)
    printed = ""
    while True:
        steps = await _check(connection, options)
        if checklist.is_ready(steps) or connection.clock.now() >= until:
            return steps
        left = "; ".join(f"{step.check}: {step.detail}" for step in steps if step.state is CheckState.MISSING)
        if left != printed:
            print_to_stderr(f"{left}; waiting up to {until - connection.clock.now():.0f} s")
            printed = left
        await asyncio.sleep(POLL_INTERVAL)


async def _check(connection: Connection, options: AdoptOptions) -> Sequence[CheckResult]:
    lease, pid = (
        await stand_down.get_lease(connection.client, options.lease),
        await controller_pid(connection.client),
    )
    acting = judge_lease(lease, options.lease, pid=pid)
    if acting.state is CheckState.MISSING and not options.dry_run:
        return [acting]
    try:
        survey = await SurveyReader(connection).survey(None)
    except UnreadableObjectError as error:
        raise FailedError(str(error)) from error
    return [acting, judge_entries(survey.claims_without_entry)]


def judge_lease(lease: Lease | None, key: Key, *, pid: int | None = None) -> CheckResult:
    """Judge whether a controller acts; `pid` is that of a local plane's controller, which takes no lease."""
    where = "/".join(key)
    if lease is None and pid is not None:
        detail = f"the controller of the local plane runs (pid {pid})"
        return CheckResult(check="controllers", state=CheckState.OK, detail=detail)
    if lease is not None and lease.is_stood_down:
        detail = f"controllers stand down (lease {where})"
        return CheckResult(
            check="controllers", state=CheckState.MISSING, detail=detail, remedy=cluster_checks.adopt_command(key)
        )
    if lease is None or not lease.spec.holder_identity:
        detail = f"no controller holds lease {where}"
        remedy = WeighedChoice(
            "start the controller, or install it again (kubectl dra install --help, or the Helm chart)"
        )
        return CheckResult(check="controllers", state=CheckState.MISSING, detail=detail, remedy=remedy)
    return CheckResult(
        check="controllers", state=CheckState.OK, detail=f"{lease.spec.holder_identity} is running (lease {where})"
    )


def judge_entries(without: Sequence[Key]) -> CheckResult:
    """Judge whether the workloads of claims in use are entered."""
    if not without:
        return CheckResult(check="claims", state=CheckState.OK, detail="every claim in use lists its workload")
    namespace, name = without[0]
    detail = f"claims in use that do not list their workload: {list_names('/'.join(key) for key in without)}"
    remedy = SafeCommand(f"kubectl describe resourceclaim {name} -n {namespace}")
    return CheckResult(check="claims", state=CheckState.MISSING, detail=detail, remedy=remedy)
