"""The results of checks as a checklist: each with a state, a detail and a remedy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from dra.cli.kubectl import printers
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, coloured, format_table
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice


class CheckState(StrEnum):
    """The state that a check has found."""

    OK = "ok"
    MISSING = "missing"  # work remains to be done
    WARNING = "warning"  # works, with restrictions
    UNKNOWN = "unknown"  # the check could not be made


_STATE_COLOURS: Final = {
    CheckState.OK: "green",
    CheckState.MISSING: "red",
    CheckState.WARNING: "yellow",
    CheckState.UNKNOWN: "yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check, with a remedy if one is needed."""

    check: str
    state: CheckState
    detail: str
    certainty: str = ""
    """How certain the result is, where it is not a plain answer of the API server."""

    remedy: Remedy | None = None
    """Next command or decision; None if there is nothing to do."""

    def to_data(self) -> dict[str, Any]:
        """Return the result as data for JSON and YAML."""
        result = {"check": self.check, "verdict": self.state.value, "detail": self.detail}
        return {**result, **({"sure": self.certainty} if self.certainty else {}), **printers.remedy_data(self.remedy)}


def is_ready(findings: Iterable[CheckResult]) -> bool:
    """Report whether no check has work left."""
    return all(finding.state is not CheckState.MISSING for finding in findings)


def format_checklist(findings: Sequence[CheckResult], output: PrintOptions) -> str:
    """Return the checklist: a table with the remedies below it, or all of it as data."""
    if output.format is not OutputFormat.TABLE:
        return output.render({"ready": is_ready(findings), "checks": [finding.to_data() for finding in findings]})
    rows = [
        (
            finding.check,
            coloured(finding.state.value, _STATE_COLOURS[finding.state]),
            f"{finding.detail} ({finding.certainty})" if finding.certainty else finding.detail,
        )
        for finding in findings
    ]
    text = format_table(("CHECK", "STATE", "DETAIL"), rows, headers=output.headers)
    for title, kind in (("To do", SafeCommand), ("To decide", WeighedChoice)):
        todo = [
            f"  {finding.check}: {printers.remedy_text(finding.remedy)}"
            for finding in findings
            if isinstance(finding.remedy, kind)
        ]
        text += f"\n\n{title}:\n" + "\n".join(todo) if todo else ""
    return text
