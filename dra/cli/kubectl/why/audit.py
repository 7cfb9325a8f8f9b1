"""``kubectl dra audit``: for people once, for cron and CI again and again."""

import time
from collections import Counter
from typing import Final

import click

from dra.cli.kubectl import listings
from dra.cli.kubectl import remedies as printed
from dra.cli.kubectl.listings import Listing, Row
from dra.cli.kubectl.options import Style, rows_options
from dra.cli.kubectl.output import Format, coloured, say, table, terminal_width
from dra.cli.kubectl.reading.live import Parts
from dra.cli.kubectl.reading.source import Source, source_options
from dra.cli.kubectl.why import remedies, words
from dra.cli.kubectl.why.words import COLOURS
from dra.engine.diagnosis.audit import audit as judged
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problems import Problem, ProblemCode, ProblemSeverity
from dra.engine.messages.remedies import Remedy, WeighedChoice

HEADER: Final = ("GRADE", "PROBLEM", "OBJECT", "WHAT")

SHOWN: Final = 10
"""Problems of one kind that the table has; the exit code and the other formats know all."""


@click.command()
@source_options
@rows_options
@click.option(
    "--fail-on",
    type=click.Choice(["error", "leak", "warning"]),
    default="leak",
    show_default=True,
    help="From which grade on the exit code is 1.",
)
@click.option(
    "--settle",
    type=click.FloatRange(min=0.0),
    default=0.0,
    metavar="SECONDS",
    help="Look again after so long, and tell only what was seen both times: what is just under way is no finding.",
)
def audit(*, source: Source, style: Style, fail_on: str, settle: float) -> None:
    """Check a whole cluster: devices used twice, leaks, zombies, gates that nobody opens; each with a fix.

    All namespaces, unless -n names one. Exit code: 0 nothing of the grade of --fail-on or worse, 1 something,
    2 it could not be looked at.
    """
    snapshot = source.read(Parts.ALL)
    found = judged(ClusterState(snapshot))
    if settle and source.bundle is None:
        time.sleep(settle)  # noqa: TID251 - a command line waits for nobody but whoever typed it
        snapshot = source.read(Parts.ALL)
        again = {_identity(problem) for problem in judged(ClusterState(snapshot))}
        found = tuple(problem for problem in found if _identity(problem) in again)
    if source.given and not source.everywhere:
        found = tuple(each for each in found if each.subject.kind == "Lease" or each.subject.key[0] == source.given)
    if style.output is Format.TABLE:
        click.echo(_written(found, style))
        for gap in snapshot.gaps:
            say(f"not looked at: {gap.resource}: {gap.why}")
        say(f"controller: {words.leader(snapshot.leader)}")
    elif not style.as_data:
        listings.write(_listing(found), style)
    else:
        content = {
            "taken": snapshot.taken,
            "claims": len(snapshot.claims),
            "pods": len(snapshot.pods),
            "problems": [words.problem_data(each, within=None) for each in found],
            "unknown": [{"resource": gap.resource, "why": gap.why} for gap in snapshot.gaps],
        }
        style.write(content)
    grades = list(ProblemSeverity)
    if any(grades.index(each.grade) <= grades.index(ProblemSeverity(fail_on)) for each in found):
        raise SystemExit(1)


def _identity(problem: Problem) -> tuple[str, str]:
    return (problem.trouble, problem.subject.uid)


def _listing(found: tuple[Problem, ...]) -> Listing:
    """Return all problems, a row for each."""
    return Listing(header=HEADER, wide=("NEXT",), rows=tuple(_row(each) for each in found))


def _row(problem: Problem) -> Row:
    cells = (problem.grade.value, problem.trouble.value, str(problem.subject), remedies.note(problem))
    return Row(
        name=words.resource_name(problem.subject.kind, problem.subject.key[1]),
        cells=cells,
        wide=(printed.said(remedies.found(problem)) or "<none>",),
        content=lambda: words.problem_data(problem, within=None),
    )


def _written(found: tuple[Problem, ...], style: Style) -> str:
    if not found:
        return "nothing found"
    shown = _few(found)
    rows = [
        (coloured(each.grade.value, COLOURS[each.grade]), each.trouble.value, str(each.subject), remedies.note(each))
        for each in shown
    ]
    text = table(HEADER, rows, headers=style.headers, wrapped=terminal_width())
    counts = Counter(each.trouble for each in found)
    more = counts - Counter(each.trouble for each in shown)
    text += "".join(f"\n… {count:,} more {trouble}: -o json shows all" for trouble, count in more.items())
    paste = dict.fromkeys(command for each in shown if (command := remedies.command(each)))
    weigh = dict.fromkeys(
        f"{each.subject}: {decision.text}" for each in shown if isinstance(decision := _decision(each), WeighedChoice)
    )
    for title, lines in (("To do", paste), ("To weigh", weigh)):
        text += f"\n\n{title}:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
    return text


def _decision(problem: Problem) -> Remedy | None:
    """Return what is to be weighed; of what is no more than noted, nothing is."""
    return words.remedy(problem, within=None) if problem.grade is not ProblemSeverity.INFO else None


def _few(found: tuple[Problem, ...]) -> list[Problem]:
    """Return the first of each kind: a thousand pods behind one gate are one problem to whoever reads this."""
    seen: Counter[ProblemCode] = Counter()
    shown = []
    for each in found:
        seen[each.trouble] += 1
        if seen[each.trouble] <= SHOWN:
            shown.append(each)
    return shown
