"""Looks up reasons by name and returns what docs/reference/reasons.md says about each."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from dra.engine.claims.meanings import CODES
from dra.engine.cpus.failure_guidance import CPU_FAILURE_GUIDANCE, REPORTED_REASONS
from dra.engine.diagnosis.problem_guidance import PROBLEM_GUIDANCE
from dra.engine.diagnosis.problems import ProblemCode
from dra.engine.messages.impairments import IMPAIRMENTS
from dra.engine.messages.texts import Guidance
from dra.engine.reservations.reservation_guidance import REJECTION_GUIDANCE, RESERVATION_REASON_GUIDANCE

NOTHING_TO_DO: Final = "Nothing"
"""First word of a remedy where there is nothing to do."""


def _all_guidance() -> Iterator[tuple[StrEnum, Guidance]]:
    for meanings in (CODES, PROBLEM_GUIDANCE, RESERVATION_REASON_GUIDANCE, REJECTION_GUIDANCE, IMPAIRMENTS):
        yield from meanings.items()
    yield from ((each, CPU_FAILURE_GUIDANCE[each]) for each in REPORTED_REASONS)


def reason_names() -> list[str]:
    """Return the names of all reasons."""
    return sorted({member.value for member, _ in _all_guidance()})


def find_guidance(word: str) -> tuple[str, Guidance] | None:
    """Return a reason with its guidance, regardless of upper and lower case; None for an unknown name."""
    return next(
        ((member.value, said) for member, said in _all_guidance() if member.value.lower() == word.lower()), None
    )


def without_code_marks(markdown: str) -> str:
    """Return a text without its backquotes."""
    return markdown.replace("`", "")


def guidance_remedy(trouble: ProblemCode) -> str:
    """Return the remedy for a problem that has no command; empty if there is nothing to do."""
    told = without_code_marks(PROBLEM_GUIDANCE[trouble].remedy)
    return "" if told.startswith(NOTHING_TO_DO) else told
