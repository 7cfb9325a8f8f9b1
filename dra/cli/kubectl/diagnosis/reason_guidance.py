"""Guidance for each reason that users see: what it means, its cause, and its remedy in words."""

from enum import StrEnum
from itertools import chain
from typing import Final

from dra.engine.claims.meanings import CODES
from dra.engine.cpus.failures import CPU_FAILURE_GUIDANCE
from dra.engine.cpus.node_policies import NODE_LABEL_GUIDANCE
from dra.engine.diagnosis.problem_guidance import PROBLEM_GUIDANCE
from dra.engine.diagnosis.problems import ProblemCode
from dra.engine.messages.impairments import CLAIM_IMPAIRMENTS, IMPAIRMENTS
from dra.engine.messages.object_sizes import OBJECT_SIZE_GUIDANCE
from dra.engine.messages.texts import Guidance
from dra.engine.migration.guidance import MIGRATION_REASON_GUIDANCE
from dra.engine.prepare_refusals.reasons import PREPARE_REFUSAL_GUIDANCE
from dra.engine.resctrl.reasons import RESCTRL_GUIDANCE
from dra.engine.reservations.reservation_guidance import REJECTION_GUIDANCE, RESERVATION_REASON_GUIDANCE
from dra.engine.suppression.notices import BATCH_POD_GUIDANCE

_GUIDANCE: Final[tuple[tuple[StrEnum, Guidance], ...]] = tuple(
    chain(
        CODES.items(),
        PROBLEM_GUIDANCE.items(),
        RESERVATION_REASON_GUIDANCE.items(),
        REJECTION_GUIDANCE.items(),
        IMPAIRMENTS.items(),
        OBJECT_SIZE_GUIDANCE.items(),
        CLAIM_IMPAIRMENTS.items(),
        MIGRATION_REASON_GUIDANCE.items(),
        CPU_FAILURE_GUIDANCE.items(),
        NODE_LABEL_GUIDANCE.items(),
        PREPARE_REFUSAL_GUIDANCE.items(),
        RESCTRL_GUIDANCE.items(),
        BATCH_POD_GUIDANCE.items(),
    )
)

NOTHING_TO_DO: Final = "Nothing"
"""First word of a remedy where there is nothing to do."""


def reason_names() -> list[str]:
    """Return the names of all reasons."""
    return sorted({member.value for member, _ in _GUIDANCE})


def find_guidance(word: str) -> tuple[str, Guidance] | None:
    """Return a reason with its guidance, regardless of upper and lower case; None for an unknown name."""
    return next(
        ((member.value, guidance) for member, guidance in _GUIDANCE if member.value.lower() == word.lower()), None
    )


def without_code_marks(markdown: str) -> str:
    """Return a text without its backquotes."""
    return markdown.replace("`", "")


def guidance_remedy(code: ProblemCode) -> str:
    """Return the remedy for a problem that has no command; empty if there is nothing to do."""
    remedy = without_code_marks(PROBLEM_GUIDANCE[code].remedy)
    return "" if remedy.startswith(NOTHING_TO_DO) else remedy
