"""Describes a workload: its claims and pods, and why pods make no progress, with equal reasons counted."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from dra.cli.kubectl import printers
from dra.cli.kubectl.diagnosis import advice_texts, describer, problem_texts
from dra.cli.kubectl.printers import coloured
from dra.engine.claims.reasons import LISTED_NAMES
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.diagnosis.workloads import AlikePods, CountedProblem, WorkloadDiagnosis
from dra.engine.messages.texts import singularize

SHOWN_GROUPS_MAX: Final = 3
"""Maximum number of groups of alike pods whose nodes are shown; -o json has all."""


def describe_workload(facts: WorkloadDiagnosis) -> Iterator[str]:
    """Yield the description of a workload."""
    yield f"{facts.kind.lower()} {'/'.join(facts.key)}: {workload_state_text(facts)}"
    yield f"  pods      {describer.stages_text(facts.users)}"
    for names, text in _claim_lines(facts.claims):
        label = "claim " if len(names) == 1 else "claims"
        yield f"  {label}    {_counted_names('', names, len(names))}: {text}"
    for group in (candidate for candidate in facts.groups if candidate.example.gates):
        yield f"  gates     {_pods_text(group)}: {', '.join(group.example.gates)}"
    waiting = [alike for alike in facts.groups if alike.example.stage == "waiting"]
    for group in waiting[:SHOWN_GROUPS_MAX]:
        yield from _group_lines(group)
    rest = sum(alike.count for alike in waiting[SHOWN_GROUPS_MAX:]) + facts.unexplained
    if rest:
        yield f"  pods      {rest:,} more wait for other reasons; -o json shows more of them"
    for counted in facts.problems:
        yield from _problem_lines(counted, within=facts.key[0])
    advised = (advice_texts.advice_remedy(group.example.advice) for group in waiting)
    for remedy in dict.fromkeys(advice for advice in advised if advice is not None):
        yield from printers.remedy_lines(remedy)


def workload_state_text(facts: WorkloadDiagnosis) -> str:
    """Return the state of a workload in a few words."""
    if not facts.exists:
        return singularize(f"does not exist; {len(facts.claims)} claims are reserved for it")
    state = "has finished" if facts.finished else "is suspended" if facts.suspended else "exists"
    return singularize(f"{state}, uses {len(facts.claims)} claims")


def workload_data(facts: WorkloadDiagnosis, snapshot: Snapshot) -> dict[str, Any]:
    """Return a diagnosis as data for JSON and YAML."""
    within = facts.key[0]
    steps = (_next_step(counted, within=within) for counted in facts.problems)
    advised = (printers.remedy_data(advice_texts.advice_remedy(group.example.advice)) for group in facts.groups)
    commands = [*steps, *(remedy.get("command", "") for remedy in advised)]
    return {
        "kind": facts.kind,
        "metadata": {"namespace": facts.key[0], "name": facts.key[1], "uid": facts.uid},
        "reference": facts.reference,
        "state": workload_state_text(facts),
        "users": msgspec.to_builtins(facts.users),
        "claims": [describer.diagnosis_data(claim, snapshot) for claim in facts.claims],
        "groups": [_group_data(group, snapshot) for group in facts.groups],
        "problems": [
            {
                **describer.problem_data(counted.problem, within=within),
                "count": counted.count,
                "objects": list(counted.names),
            }
            for counted in facts.problems
        ],
        "next": next(filter(None, commands), ""),
        "unknown": [{"resource": gap.resource, "why": gap.why} for gap in snapshot.gaps],
        "controller": describer.controller_text(snapshot.leader),
    }


def _group_data(group: AlikePods, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "count": group.count,
        "pods": list(group.names),
        "example": describer.diagnosis_data(group.example, snapshot),
    }


def _claim_lines(claims: Sequence[ClaimDiagnosis]) -> Iterator[tuple[list[str], str]]:
    """Yield names of claims, and what these claims have in common."""
    counted: dict[str, list[str]] = {}
    for facts in claims:
        released = f"; released when {describer.release_condition(facts)}" if facts.holds else ""
        text = f"{describer.claim_state_text(facts)}{released}"
        counted.setdefault(text, []).append(facts.key[1])
    for text, names in counted.items():
        yield names, text


def _group_lines(group: AlikePods) -> Iterator[str]:
    example = group.example
    if example.message:
        yield f"  message   {_pods_text(group)}, from the scheduler: {example.message}"
    holders = {holder.key: holder for holder in example.holders}
    for nodes in example.groups:
        yield f"  nodes     {describer.node_group_text(nodes, holders)}"


def _problem_lines(counted: CountedProblem, *, within: str) -> Iterator[str]:
    """Yield a problem with the number of its objects, and the step for the first of the objects."""
    if counted.count == 1:
        yield from describer.problem_lines((counted.problem,), within=within)
        return
    severity = coloured(counted.problem.severity.value.ljust(9), describer.SEVERITY_COLOURS[counted.problem.severity])
    noun = "pods" if counted.problem.subject.kind == "Pod" else "claims"
    note = problem_texts.problem_note(counted.problem)
    yield f"  {severity} {counted.problem.code}: {_counted_names(noun, counted.names, counted.count)}, each: {note}"
    yield from printers.remedy_lines(describer.remedy_or_guidance(counted.problem, within=within))


def _next_step(counted: CountedProblem, *, within: str) -> str:
    return problem_texts.safe_command(counted.problem, within=within)


def _pods_text(group: AlikePods) -> str:
    return _counted_names("pods", group.names, group.count)


def _counted_names(noun: str, names: Sequence[str], count: int) -> str:
    """Return ``5 pods (a, b, c and 2 more)``; one object by its name."""
    if count == 1:
        return f"{noun.removesuffix('s')} {names[0]}".strip()
    more = count - len(names[:LISTED_NAMES])
    listed = ", ".join(names[:LISTED_NAMES]) + (f" and {more:,} more" if more > 0 else "")
    return f"{count:,} {noun} ({listed})".replace("  ", " ")
