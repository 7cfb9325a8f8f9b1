"""The page lists a reason only if some process can give it."""

import re
from pathlib import Path

import pytest

from dra.engine.claims.reasons import Code
from dra.engine.cpus.bind_policies import CpuFailureReason
from dra.engine.cpus.failure_guidance import REPORTED_REASONS
from dra.engine.diagnosis.problems import ProblemCode
from dra.engine.reservations.phases import ReservationReason
from dra.engine.reservations.rejections import RejectionReason

ROOT = Path(__file__).parents[4]
WORDS = {
    "meanings.py",
    "failure_guidance.py",
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
CPUS = Path("dra/engine/cpus")
CALLED = {
    path: text
    for path, text in SOURCES.items()
    if CPUS not in path.parents
    or any(f"cpus.{path.stem} import" in other for at, other in SOURCES.items() if CPUS not in at.parents)
    or path.stem == "accumulator"  # through choice.py
}
"""The modules about CPUs that others use, but for the functions of binding.py, which none does."""


def given(member):
    name = rf"\b{type(member).__name__}\.{member.name}\b"
    uses = (path for path, text in CALLED.items() if re.search(name, text))
    return any(path != CPUS / "bind_policies.py" for path in uses)


@pytest.mark.parametrize(
    "member",
    [*Code, *ProblemCode, *ReservationReason, *RejectionReason, *REPORTED_REASONS],
    ids=lambda each: f"{type(each).__name__}.{each.name}",
)
def test_each_reason_of_the_page_is_given_by_some_process(member):
    assert given(member)


@pytest.mark.parametrize("member", sorted(set(CpuFailureReason) - set(REPORTED_REASONS)), ids=lambda each: each.name)
def test_what_no_process_gives_is_not_on_the_page(member):
    assert not given(member)
    assert member.value not in (ROOT / "docs/reference/reasons.md").read_text()
