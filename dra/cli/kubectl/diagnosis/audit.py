"""Implements ``kubectl dra audit``, for interactive use as well as for cron and CI."""

import time
from collections import Counter
from typing import Final

import click

from dra.cli.kubectl import printers, resource_table
from dra.cli.kubectl.diagnosis import describer, problem_texts
from dra.cli.kubectl.diagnosis.describer import SEVERITY_COLOURS
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, coloured, format_table, print_to_stderr, terminal_width
from dra.cli.kubectl.resource_table import ResourceTable, TableRow
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.diagnosis.audit import audit as judged
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode, ProblemSeverity
from dra.engine.diagnosis.problems import Problem
from dra.engine.messages.remedies import Remedy, WeighedChoice

HEADER: Final = ("GRADE", "PROBLEM", "OBJECT", "WHAT")

AUDITED: Final = (
    SnapshotScope.ALL
    | SnapshotScope.MIGRATIONS
    | SnapshotScope.PREEMPTION
    | SnapshotScope.COLOCATION
    | SnapshotScope.ALL_START_FAILURES
    | SnapshotScope.DEPLOYMENTS
)

OF_ALL_NAMESPACES: Final = frozenset({"Lease", "Deployment"})
"""Kinds of dra-reserve's own objects, whose problems concern each namespace."""

SHOWN_PER_CODE_MAX: Final = 10
"""Maximum number of problems of one code in the table; the exit code and the other formats count all."""


def print_audit(*, source: SnapshotSource, output: PrintOptions, fail_on: str, settle: float) -> None:
    """Run ``kubectl dra audit``; the declaration describes the options."""
    snapshot = source.read(AUDITED)
    problems = judged(ClusterState(snapshot))
    if settle and source.bundle_path is None:
        time.sleep(settle)  # noqa: TID251 - a command line waits for nobody but whoever typed it
        snapshot = source.read(AUDITED)
        again = {_problem_key(problem) for problem in judged(ClusterState(snapshot))}
        problems = tuple(problem for problem in problems if _problem_key(problem) in again)
    if source.requested_namespace and not source.all_namespaces:
        problems = tuple(
            problem
            for problem in problems
            if problem.subject.kind in OF_ALL_NAMESPACES or problem.subject.key[0] == source.requested_namespace
        )
    if output.format is OutputFormat.TABLE:
        click.echo(_format_problems(problems, output))
        for gap in snapshot.gaps:
            print_to_stderr(f"not read: {gap.resource}: {gap.why}")
        print_to_stderr(f"controller: {describer.controller_text(snapshot.leader)}")
    elif not output.is_structured:
        resource_table.print_table(_problem_table(problems), output)
    else:
        content = {
            "taken": snapshot.taken,
            "claims": len(snapshot.claims),
            "pods": len(snapshot.pods),
            "problems": [describer.problem_data(problem, within=None) for problem in problems],
            "unknown": [{"resource": gap.resource, "why": gap.why} for gap in snapshot.gaps],
        }
        output.print(content)
    grades = list(ProblemSeverity)
    if any(grades.index(problem.severity) <= grades.index(ProblemSeverity(fail_on)) for problem in problems):
        raise SystemExit(1)


def _problem_key(problem: Problem) -> tuple[str, str]:
    return (problem.code, problem.subject.uid)


def _problem_table(problems: tuple[Problem, ...]) -> ResourceTable:
    """Return a table of all problems, one row for each."""
    return ResourceTable(header=HEADER, wide=("NEXT",), rows=tuple(problem_row(problem) for problem in problems))


def problem_row(problem: Problem) -> TableRow:
    """Return the row of a problem."""
    cells = (problem.severity.value, problem.code.value, str(problem.subject), problem_texts.problem_note(problem))
    return TableRow(
        name=describer.resource_name(problem.subject.kind, problem.subject.key[1]),
        cells=cells,
        wide=(printers.remedy_text(problem_texts.problem_remedy(problem)) or "<none>",),
        content=lambda: describer.problem_data(problem, within=None),
    )


def _format_problems(problems: tuple[Problem, ...], output: PrintOptions) -> str:
    if not problems:
        return "no problems found"
    shown = _first_of_each_code(problems)
    rows = [
        (
            coloured(problem.severity.value, SEVERITY_COLOURS[problem.severity]),
            problem.code.value,
            str(problem.subject),
            problem_texts.problem_note(problem),
        )
        for problem in shown
    ]
    text = format_table(HEADER, rows, headers=output.headers, wrapped=terminal_width())
    counts = Counter(problem.code for problem in problems)
    more = counts - Counter(problem.code for problem in shown)
    text += "".join(f"\n… {count:,} more {code}: -o json shows all" for code, count in more.items())
    paste = dict.fromkeys(command for problem in shown if (command := problem_texts.safe_command(problem)))
    weigh = dict.fromkeys(
        f"{problem.subject}: {decision.text}"
        for problem in shown
        if isinstance(decision := _weighed_choice(problem), WeighedChoice)
    )
    for title, lines in (("To do", paste), ("To decide", weigh)):
        text += f"\n\n{title}:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
    return text


def _weighed_choice(problem: Problem) -> Remedy | None:
    """Return the choice that a problem leaves to the user; None for a mere note."""
    return describer.remedy_or_guidance(problem, within=None) if problem.severity is not ProblemSeverity.INFO else None


def _first_of_each_code(problems: tuple[Problem, ...]) -> list[Problem]:
    """Return the first problems of each code: a thousand pods behind one gate are one problem for the reader."""
    seen: Counter[ProblemCode] = Counter()
    shown = []
    for problem in problems:
        seen[problem.code] += 1
        if seen[problem.code] <= SHOWN_PER_CODE_MAX:
            shown.append(problem)
    return shown
