"""Implements the ``kubectl dra downgrade`` command."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import checklist, printers
from dra.cli.kubectl.checklist import CheckResult
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.downgrade import cluster_checks, stand_down
from dra.cli.kubectl.downgrade.cluster_checks import DowngradeCheckOptions
from dra.cli.kubectl.downgrade.survey import DowngradeSurvey, GatedPod, SurveyReader, UnreadableObjectError
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, format_table, print_to_stderr
from dra.engine.claims import patches
from dra.engine.claims.actions import Deallocate
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.downgrade import DowngradeAssessment, DowngradeState, assess, next_write
from dra.engine.claims.kept_nodes import annotation_changes
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.errors import Conflict, NotFound
from dra.kube.leader_election import LeaderElector
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, NODES, PODS, Resource
from dra.model.meta import Key, PartialObjectMetadata
from dra.model.nodes import Node
from dra.requests.claim_patcher import ClaimPatcher
from dra.requests.leadership import Leadership

ATTEMPTS_MAX: Final = 64
"""Maximum number of reads of one claim before the command reports that another client keeps writing the claim.

Pods that start and end write it, too.
"""


class ClaimConverter:
    """Converts claims while the command holds the lease of the controllers, or where no lease can be held."""

    def __init__(
        self,
        connection: Connection,
        reader: SurveyReader,
        *,
        election: LeaderElector | None,
        given_up: frozenset[Key] = frozenset(),
    ) -> None:
        self._client = connection.client
        self._clock = connection.clock
        self._reader = reader
        self._leadership = Leadership(election)
        self._given_up = given_up
        self._patcher = ClaimPatcher(connection.client)

    async def convert(self, key: Key) -> DowngradeAssessment:
        """Convert one claim as far as possible and return its final assessment; raise ApiError, FailedError."""
        for _ in range(ATTEMPTS_MAX):
            view = await self._reader.read_view(key)
            if view is None:
                return DowngradeAssessment(claim=key, state=DowngradeState.READY)
            write = next_write(view, given_up=key in self._given_up)
            if write is None:
                return assess(view, given_up=key in self._given_up)
            if isinstance(write, Deallocate) and await self._wait_for_late_writes():
                continue  # waiting took time: read the claim again first
            try:
                await self._patcher.patch(
                    write, view.claim, priority=RequestPriority.NORMAL, write_timeout=self._write_timeout
                )
            except Conflict:
                continue
            except NotFound:
                return DowngradeAssessment(claim=key, state=DowngradeState.READY)
            print_to_stderr(patches.describe_write(write, view.claim))
        raise FailedError(f"claim {'/'.join(key)}: another client keeps writing it; run the command again")

    async def remove_gate(self, gated: GatedPod) -> None:
        """Remove only our scheduling gate from a pod; raise ApiError.

        A pod that is gone or has changed is left as it is: the next survey shows its state.
        """
        kept = [{"name": name} for name in gated.gates if name != SCHEDULING_GATE]
        try:
            await self._client.merge_patch(
                PODS,
                gated.key,
                {"spec": {"schedulingGates": kept or None}},
                model=PartialObjectMetadata,
                uid=gated.uid,
                resource_version=gated.resource_version,
                timeout_seconds=self._write_timeout(),
            )
        except (Conflict, NotFound):
            return

    async def release_node(self, node: Node) -> None:
        """Remove the annotations that the controller has set on a node, and no others; raise ApiError.

        A node that is gone or has changed is left as it is: the next survey shows its state.
        """
        changes = annotation_changes(node.metadata.annotations, kept=False)
        try:
            await self._client.merge_patch(
                NODES,
                node.metadata.key,
                {"metadata": {"annotations": changes}},
                model=PartialObjectMetadata,
                resource_version=node.metadata.resource_version,
                timeout_seconds=self._write_timeout(),
            )
        except (Conflict, NotFound):
            return
        print_to_stderr(f"node {node.metadata.name}: no longer kept from autoscalers")

    async def remove_annotations(self, kind: Resource, key: Key, names: tuple[str, ...]) -> None:
        """Remove our annotations from a claim or a pod."""
        patch = {"metadata": {"annotations": dict.fromkeys(names)}}
        try:
            await self._client.merge_patch(
                kind, key, patch, model=PartialObjectMetadata, timeout_seconds=self._write_timeout()
            )
        except NotFound:
            return

    async def _wait_for_late_writes(self) -> bool:
        """Wait until no late write of the former leader can arrive; return whether that took time."""
        left = self._leadership.previous_writes_until() - self._clock.now()
        if left <= 0:
            return False
        print_to_stderr(f"waiting {left:.0f} s: the former leader's last writes may still arrive")
        await asyncio.sleep(left)
        return True

    def _write_timeout(self) -> float:
        return self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now())


CLAIM_COLUMNS: Final = ("NAMESPACE", "CLAIM", "STATE", "PODS", "LISTED", "DETAIL")

CONVERTIBLE_STATES: Final = frozenset({DowngradeState.CONVERTIBLE, DowngradeState.ORPHAN})


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeOptions:
    """The checked options of ``kubectl dra downgrade``."""

    checks: DowngradeCheckOptions
    namespace: str | None
    given_up: frozenset[Key]
    apply: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeReport:
    """The result of a downgrade: the claims as they are now, and the other steps."""

    survey: DowngradeSurvey
    steps: tuple[CheckResult, ...]

    @property
    def unready_claims(self) -> list[DowngradeAssessment]:
        """The claims that are not ready for stock Kubernetes, in order."""
        return self.survey.unready_claims


def run_downgrade(  # noqa: PLR0913 - one for each option
    *,
    cluster_flags: ClusterFlags,
    output: PrintOptions,
    namespace: str | None,
    apply: bool,
    given_up: frozenset[Key],
    purge: bool,
    probe: bool,
    lease_namespace: str,
    lease_name: str,
) -> None:
    """Run ``kubectl dra downgrade``; the declaration describes the options."""
    lease = (lease_namespace, lease_name)
    flags = cluster_checks.repeated_flags(namespace=namespace, lease=lease)
    checks = DowngradeCheckOptions(lease=lease, probe=probe, purge=purge, repeated_flags=flags)
    options = DowngradeOptions(checks=checks, namespace=namespace, given_up=given_up, apply=apply)
    report = run(cluster_flags, lambda connection: _run(connection, options))
    click.echo(_format_report(report, output, flags))
    if report.unready_claims or not checklist.is_ready(report.steps):
        raise SystemExit(1)


async def _run(connection: Connection, options: DowngradeOptions) -> DowngradeReport:
    reader = SurveyReader(connection, given_up=options.given_up)
    try:
        if options.apply:
            await _convert_claims(connection, reader, options)
        survey = await reader.survey(options.namespace)
    except UnreadableObjectError as error:
        raise FailedError(str(error)) from error
    return DowngradeReport(
        survey=survey, steps=tuple(await cluster_checks.run_checks(connection, survey, options.checks))
    )


async def _convert_claims(connection: Connection, reader: SurveyReader, options: DowngradeOptions) -> None:
    client, lease = connection.client, options.checks.lease
    current = await stand_down.get_lease(client, lease)
    if current is None:
        await _refuse_without_lease(connection, options)

    async def work(election: LeaderElector | None) -> None:
        survey = await reader.survey(options.namespace)
        converter = ClaimConverter(connection, reader, election=election, given_up=options.given_up)
        for assessment in sorted(survey.assessments, key=lambda assessment: assessment.claim):
            if assessment.state in CONVERTIBLE_STATES:
                await converter.convert(assessment.claim)
        await asyncio.gather(*(converter.remove_gate(pod) for pod in survey.gated.values()))
        await asyncio.gather(*(converter.release_node(node) for node in survey.annotated_nodes))
        if options.checks.purge:
            noted = [*((CLAIMS, *marked) for marked in survey.annotated_claims.items())]
            noted += [*((PODS, *marked) for marked in survey.annotated_pods.items())]
            await asyncio.gather(*(converter.remove_annotations(kind, key, names) for kind, key, names in noted))

    if await stand_down.set_stand_down(client, lease, "kubectl dra downgrade"):
        adopt = cluster_checks.adopt_command(lease).command
        print_to_stderr(f"controllers stand down (lease {'/'.join(lease)}); to re-enable them: {adopt}")
        await stand_down.run_while_stood_down(connection, lease, work)
    else:
        print_to_stderr(f"namespace {lease[0]} does not exist or is being deleted: no controller holds a lease in it")
        await work(None)


async def _refuse_without_lease(connection: Connection, options: DowngradeOptions) -> None:
    """Refuse to convert where controllers run without a lease: they cannot be made to stand down."""
    step = await cluster_checks.check_controllers(connection.client, options.checks)
    if step.state is checklist.CheckState.MISSING:
        raise FailedError(f"controller {step.detail}; nothing was changed. First: {printers.remedy_text(step.remedy)}")


def _format_report(report: DowngradeReport, output: PrintOptions, flags: str = "") -> str:
    if output.format is not OutputFormat.TABLE:
        content = {
            "ready": not report.unready_claims and checklist.is_ready(report.steps),
            "claims": [_claim_data(assessment, flags) for assessment in report.unready_claims],
            "checks": [step.to_data() for step in report.steps],
        }
        return output.render(content)
    parts = []
    if report.unready_claims:
        parts.append(format_claims(report.unready_claims, output))
    parts.append(checklist.format_checklist(report.steps, output))
    return "\n\n".join(filter(None, parts))


def format_claims(assessments: Sequence[DowngradeAssessment], output: PrintOptions) -> str:
    """Return the claims that are not ready for stock Kubernetes as a table, and below it what each waits for."""
    rows = [
        (
            *assessment.claim,
            assessment.state.value,
            str(assessment.consuming),
            str(assessment.listed),
            assessment.detail,
        )
        for assessment in assessments
    ]
    advised = [assessment for assessment in assessments if assessment.state not in CONVERTIBLE_STATES]
    remedies = "\n".join(
        f"claim {'/'.join(assessment.claim)}: {printers.remedy_text(cluster_checks.claim_remedy(assessment))}"
        for assessment in advised
    )
    table = format_table(CLAIM_COLUMNS, rows, headers=output.headers)
    return "\n\n".join(filter(None, (table, remedies)))


def _claim_data(assessment: DowngradeAssessment, flags: str) -> dict[str, Any]:
    namespace, name = assessment.claim
    return {
        "namespace": namespace,
        "name": name,
        "state": assessment.state.value,
        "pods": assessment.consuming,
        "listed": assessment.listed,
        "room": assessment.capacity,
        "entries": list(assessment.entries),
        "detail": assessment.detail,
        **printers.remedy_data(cluster_checks.claim_remedy(assessment, flags)),
    }
