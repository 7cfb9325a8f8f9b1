"""Guidance for each reason that users see: what it means, its cause, and its remedy in words."""

from itertools import chain
from typing import Final

from dra.engine.claims.codes import Code
from dra.engine.cpus.failures import CpuFailureReason
from dra.engine.cpus.node_policies import NodeLabelReason
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.impairments import ClaimImpairment, Impairment
from dra.engine.messages.object_sizes import ObjectSizeReason
from dra.engine.messages.texts import ExplainedReason, Guidance
from dra.engine.migration.reasons import MigrationReason
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.engine.resctrl.reasons import ResctrlCode
from dra.engine.reservations.rejections import RejectionReason
from dra.engine.reservations.reservation_reasons import ReservationReason
from dra.engine.suppression.notices import NoticeReason

REASON_SETS: Final[tuple[type[ExplainedReason], ...]] = (
    Code,
    ProblemCode,
    ReservationReason,
    RejectionReason,
    Impairment,
    ObjectSizeReason,
    ClaimImpairment,
    MigrationReason,
    CpuFailureReason,
    NodeLabelReason,
    PrepareRefusalReason,
    ResctrlCode,
    NoticeReason,
)
"""All sets of reasons; of a word that is in several, the first set explains it."""

NOTHING_TO_DO: Final = "Nothing"
"""First word of a remedy where there is nothing to do."""


def reason_names() -> list[str]:
    """Return the names of all reasons."""
    return sorted({reason.value for reason in chain.from_iterable(REASON_SETS)})


def find_guidance(word: str) -> tuple[str, Guidance] | None:
    """Return a reason with its guidance, regardless of upper and lower case; None for an unknown name."""
    reasons = chain.from_iterable(REASON_SETS)
    return next(((reason.value, reason.guidance) for reason in reasons if reason.value.lower() == word.lower()), None)


def without_code_marks(markdown: str) -> str:
    """Return a text without its backquotes."""
    return markdown.replace("`", "")


def guidance_remedy(code: ProblemCode) -> str:
    """Return the remedy for a problem that has no command; empty if there is nothing to do."""
    remedy = without_code_marks(code.guidance.remedy)
    return "" if remedy.startswith(NOTHING_TO_DO) else remedy
