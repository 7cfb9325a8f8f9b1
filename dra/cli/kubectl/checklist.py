"""What was looked at, and what is to be done: the rows of a checklist."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from dra.cli.kubectl import remedy_printer
from dra.cli.kubectl.options import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, coloured, format_table
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice


class CheckState(StrEnum):
    """What looking has shown."""

    OK = "ok"
    LEFT = "missing"  # work is left to do
    WARNING = "warning"  # it works, less well
    UNKNOWN = "unknown"  # nobody could tell


_STATE_COLOURS: Final = {
    CheckState.OK: "green",
    CheckState.LEFT: "red",
    CheckState.WARNING: "yellow",
    CheckState.UNKNOWN: "yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One thing that was looked at."""

    check: str
    verdict: CheckState
    detail: str
    sure: str = ""
    """By what it is known, where that is not the API server's plain word."""

    remedy: Remedy | None = None
    """What to do next; None if nothing is."""

    def content(self) -> dict[str, Any]:
        """Return it for JSON."""
        told = {"check": self.check, "verdict": self.verdict.value, "detail": self.detail}
        return {**told, **({"sure": self.sure} if self.sure else {}), **remedy_printer.remedy_data(self.remedy)}


def is_ready(findings: Iterable[CheckResult]) -> bool:
    """Whether nothing is left to do."""
    return all(finding.verdict is not CheckState.LEFT for finding in findings)


def format_checklist(findings: Sequence[CheckResult], style: PrintOptions) -> str:
    """Return the checklist: a table, and below it what to do, or the whole of it as data."""
    if style.output is not OutputFormat.TABLE:
        return style.data({"ready": is_ready(findings), "checks": [each.content() for each in findings]})
    rows = [
        (
            each.check,
            coloured(each.verdict.value, _STATE_COLOURS[each.verdict]),
            f"{each.detail} ({each.sure})" if each.sure else each.detail,
        )
        for each in findings
    ]
    text = format_table(("CHECK", "STATE", "DETAIL"), rows, headers=style.headers)
    for title, kind in (("To do", SafeCommand), ("To weigh", WeighedChoice)):
        todo = [
            f"  {each.check}: {remedy_printer.remedy_text(each.remedy)}"
            for each in findings
            if isinstance(each.remedy, kind)
        ]
        text += f"\n\n{title}:\n" + "\n".join(todo) if todo else ""
    return text
