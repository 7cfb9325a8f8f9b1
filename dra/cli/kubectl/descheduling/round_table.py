"""Prints what a round of descheduling would do: who goes, who stays, and what the round could not see."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from dra.cli.kubectl import resource_table
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, list_content, wrap_lines
from dra.cli.kubectl.reservations.reservation_describer import NONE_TEXT
from dra.cli.kubectl.resource_table import ResourceTable, SelectorOptions, TableRow
from dra.engine.descheduling.plugin import Refusal
from dra.engine.descheduling.round import Decision, Profile, RoundResult
from dra.engine.diagnosis import descheduling
from dra.engine.diagnosis.descheduling import StayingPods
from dra.engine.messages.texts import singularize
from dra.model.meta import Key

ROUND_COLUMNS: Final = ("POD", "FROM", "TO", "PLUGIN", "WHY")
ROUND_WIDE_COLUMNS: Final = ("PROFILE", "EVICTOR", "RECEIVERS")

NAMED_PODS_MAX: Final = 3
"""Maximum number of pods that are named of those that stay for one reason."""

RECORD_FORMATS: Final = {OutputFormat.NAME, OutputFormat.CSV, OutputFormat.COLUMNS}
"""Formats with one record for each pod that goes, and nothing else."""

_LABELS: Final = {
    Refusal.PROTECTED: "protected",
    Refusal.NODE_LIMIT: "limit",
    Refusal.NAMESPACE_LIMIT: "limit",
    Refusal.TOTAL_LIMIT: "limit",
    Refusal.WORKLOAD_LIMIT: "limit",
    Refusal.NO_PLACE: "no place",
    Refusal.MOVING: "moving",
}
"""Kind of a refusal → the label of its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """The result of a round, with what it is based on."""

    result: RoundResult
    profiles: Sequence[Profile]
    configuration: str
    """Whose configuration the round follows, as a sentence without a full stop."""
    warnings: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """What the round could not see."""
    incomplete: bool = False
    """Whether some objects could not be read."""

    @property
    def evictors(self) -> dict[str, str]:
        """Profile → the plugin that would carry its decisions out."""
        return {profile.name: profile.evictor for profile in self.profiles}


def print_round(
    report: RoundReport, *, selectors: SelectorOptions, output: PrintOptions, namespace: str | None = None
) -> None:
    """Print the report in the requested format, of all pods or of those of one namespace."""
    if namespace is not None:
        report = replace(report, result=_of_namespace(report.result, namespace))
    rows = tuple(
        _row(decision, report.evictors)
        for decision in descheduling.accepted(report.result)
        if selectors.matches_labels(decision.pod.metadata.labels)
    )
    table = ResourceTable(header=ROUND_COLUMNS, wide=ROUND_WIDE_COLUMNS, rows=rows)
    table = resource_table.select_rows(table, selectors)
    if output.is_structured:
        items = [row.content() for row in table.rows]
        output.print({**list_content(items), **_other_content(report)})
        return
    if table.rows or output.format in RECORD_FORMATS:
        resource_table.print_table(table, output)
    if output.format in RECORD_FORMATS:
        return
    lines = [*_other_lines(report)]
    if lines:
        click.echo("\n".join([*([""] if table.rows else []), *wrap_lines(lines)]))


def summary(report: RoundReport) -> str:
    """Return the numbers of a round in one sentence, without a full stop."""
    going = len([*descheduling.accepted(report.result)])
    named = descheduling.candidates(report.result.decisions)
    return singularize(f"{going} of {named} candidates would go; nothing was changed; {report.configuration}")


def decision_data(decision: Decision) -> dict[str, Any]:
    """Return a decision as data for JSON and YAML."""
    meta, verdict = decision.pod.metadata, decision.verdict
    content: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
        "from": decision.node,
        "to": verdict.node,
        "profile": decision.profile,
        "plugin": decision.plugin,
        "why": decision.reason,
        "accepted": verdict.accepted,
    }
    if decision.receivers is not None:
        content["receivers"] = sorted(decision.receivers)
    if verdict.refusal is not None:
        content |= {"refusal": verdict.refusal.value, "message": verdict.message}
    return content


def staying_text(group: StayingPods) -> str:
    """Return who stays, the plugin that named them, and why."""
    return singularize(f"{_pods_text(group.pods)}, named by {group.plugin}: {group.message}")


def _of_namespace(result: RoundResult, namespace: str) -> RoundResult:
    decisions = [decision for decision in result.decisions if decision.pod.metadata.namespace == namespace]
    return replace(result, decisions=decisions)


def _row(decision: Decision, evictors: dict[str, str]) -> TableRow:
    namespace, name = decision.pod.metadata.key
    cells = (
        f"{namespace}/{name}",
        decision.node or NONE_TEXT,
        decision.verdict.node or NONE_TEXT,
        decision.plugin,
        decision.reason if decision.verdict.node else f"{decision.reason}; no place is held",
    )
    evictor = evictors.get(decision.profile, "")
    receivers = NONE_TEXT if decision.receivers is None else f"{len(decision.receivers):,}"
    content = {**decision_data(decision), "evictor": evictor}
    return TableRow(
        name=f"pod/{name}", cells=cells, wide=(decision.profile, evictor, receivers), content=lambda: content
    )


def _other_lines(report: RoundReport) -> Iterator[str]:
    for group in descheduling.staying(report.result):
        yield f"  {_LABELS[group.refusal]:<10}{staying_text(group)}"
    for fault in report.result.faults:
        yield f"  fault     {fault.message}"
    for note in report.result.notes:
        yield f"  note      {note}"
    for warning in report.warnings:
        yield f"  warning   {warning}"
    for text in report.unknown:
        yield f"  unknown   {text}"


def _other_content(report: RoundReport) -> dict[str, Any]:
    result = report.result
    going = {decision.pod.metadata.uid for decision in descheduling.accepted(result)}
    refused: Iterable[Decision] = (decision for decision in result.decisions if decision.pod.metadata.uid not in going)
    return {
        "staying": [decision_data(decision) for decision in refused],
        "faults": [
            {"profile": fault.profile, "plugin": fault.plugin, "message": fault.message} for fault in result.faults
        ],
        "notes": [*result.notes],
        "warnings": [*report.warnings],
        "unknown": [*report.unknown],
        "configuration": report.configuration,
    }


def _pods_text(pods: Sequence[Key]) -> str:
    names = ", ".join("/".join(key) for key in pods[:NAMED_PODS_MAX])
    if len(pods) == 1:
        return f"pod {names}"
    more = len(pods) - NAMED_PODS_MAX
    return f"{len(pods):,} pods ({names}{f' and {more:,} more' if more > 0 else ''})"
