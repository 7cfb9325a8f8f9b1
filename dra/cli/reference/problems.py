"""Generates the table of problems in docs/how-to/kubectl-dra.md from the texts that the commands print."""

from typing import Final

from dra.cli.kubectl.diagnosis.problem_texts import PROBLEM_TEXTS
from dra.engine.claims.reasons import Subject
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem
from dra.engine.messages.remedies import SafeCommand, WeighedChoice
from dra.model.meta import Uid

BEGIN: Final = "<!-- problems -->\n"
END: Final = "<!-- /problems -->\n"

_REMEDY_LABELS: Final = {SafeCommand: "`next`", WeighedChoice: "`do`"}

_NO_SUBJECT: Final = Subject(kind="", key=("", ""), uid=Uid(""))


def problem_table() -> str:
    """Return a table of all problems, with code, grade and text."""
    lines = ["| problem | grade | text | |", "|---|---|---|---|"]
    for code in ProblemCode:
        words = PROBLEM_TEXTS[code]
        severity = Problem(code=code, subject=_NO_SUBJECT).severity.value
        text = words.text.replace("{", "*").replace("}", "*")
        kinds = {type(remedy): None for remedy in (words.remedy, words.otherwise) if remedy is not None}
        remedy = " or ".join(_REMEDY_LABELS[kind] for kind in kinds)
        lines.append(f"| `{code.value}` | {severity} | {text} | {remedy} |")
    return "\n".join(lines) + "\n"


def updated_page(text: str) -> str:
    """Return a page with its table of problems replaced."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + problem_table() + END + rest.partition(END)[2]
