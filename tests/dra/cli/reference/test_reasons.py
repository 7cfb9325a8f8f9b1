"""The page lists a reason only if some process can give it."""

import re
from pathlib import Path

import pytest

from dra.engine.claims.reasons import Code
from dra.engine.cpus.failures import CpuFailureReason
from dra.engine.diagnosis.problems import ProblemCode
from dra.engine.reservations.phases import ReservationReason
from dra.engine.reservations.rejections import RejectionReason

ROOT = Path(__file__).parents[4]
WORDS = {
    "meanings.py",
    "failures.py",
    "reservation_guidance.py",
    "problem_guidance.py",
    "remedies.py",
    "reference.py",
}
SOURCES = {
    path.relative_to(ROOT): path.read_text()
    for package in ("dra", "localplane", "controller", "kubeletplugin")
    for path in (ROOT / package).rglob("*.py")
    if path.name not in WORDS
}


def given(member):
    name = rf"\b{type(member).__name__}\.{member.name}\b"
    return any(re.search(name, text) for text in SOURCES.values())


@pytest.mark.parametrize(
    "member",
    [*Code, *ProblemCode, *ReservationReason, *RejectionReason, *CpuFailureReason],
    ids=lambda each: f"{type(each).__name__}.{each.name}",
)
def test_each_reason_of_the_page_is_given_by_some_process(member):
    assert given(member)
