"""The page lists a reason only if some process can give it."""

import re
from functools import cache

from dra.engine.claims.codes import Code
from dra.engine.cpus.failures import CpuFailureReason
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.reservations.rejections import RejectionReason
from dra.engine.reservations.reservation_reasons import ReservationReason
from tests.sources import modules
from tests.violations import for_each

WORDS = {
    "problem_codes.py",
    "remedies.py",
    "reference.py",
}
GIVEN = re.compile(r"\b([A-Z]\w+)\.([A-Z][A-Z0-9_]*)\b")


@cache
def given():
    """Return the members of enumerations that the product names, by the names of class and member."""
    return {pair for path, source in modules() if path.name not in WORDS for pair in GIVEN.findall(source)}


@for_each(
    [*Code, *ProblemCode, *ReservationReason, *RejectionReason, *CpuFailureReason],
    name=lambda member: f"{type(member).__name__}.{member.name}",
)
def test_each_reason_of_the_page_is_given_by_some_process(member):
    assert (type(member).__name__, member.name) in given()
