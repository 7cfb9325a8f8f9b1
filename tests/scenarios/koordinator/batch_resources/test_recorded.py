"""The controller offers what koord-manager offered, by the records of Koordinator, but for the decided differences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.koordinator.batch_resources import engine
from tests.scenarios.koordinator.batch_resources.cases import NUMBERS, SPECIAL
from tests.scenarios.koordinator.batch_resources.differences import DECIDED, Difference, compare, undecided
from tests.scenarios.koordinator.batch_resources.drafts import all_cases
from tests.scenarios.koordinator.batch_resources.outcomes import recorded

if TYPE_CHECKING:
    from tests.scenarios.koordinator.batch_resources.cases import Case

ROOT = Path(__file__).parents[4]
MOST_DIFFERENT = 0.01
"""Share of the usual nodes that may differ, apart from what batch pods hold."""


@pytest.fixture(scope="module")
def cases() -> dict[int, Case]:
    return {each.number: each for each in all_cases()}


@pytest.fixture(scope="module")
def differences(cases: dict[int, Case]) -> list[Difference]:
    theirs = {number: each.outcome for number, each in recorded().items()}
    configuration = engine.configuration()
    ours = {number: engine.offer(case, configuration) for number, case in cases.items()}
    return compare(cases.values(), theirs, ours)


def test_each_case_has_a_record(cases: dict[int, Case]) -> None:
    assert {number: each.digest for number, each in recorded().items()} == {
        number: each.digest for number, each in cases.items()
    }
    assert sum(NUMBERS.values()) >= 300


def test_batch_resources_are_those_of_koordinator(cases: dict[int, Case], differences: list[Difference]) -> None:
    assert undecided(cases, differences) == []


def test_nothing_is_offered_beyond_koordinator_but_what_is_held(differences: list[Difference]) -> None:
    assert [each for each in differences if each.more] == []


def test_few_usual_nodes_differ(cases: dict[int, Case], differences: list[Difference]) -> None:
    usual = [number for number, case in cases.items() if case.kind not in SPECIAL]
    different = [each for each in differences if each.kind not in SPECIAL and not each.is_floor]
    assert len(usual) >= 300
    assert len(different) <= MOST_DIFFERENT * len(usual), different


def test_most_nodes_have_something_to_offer() -> None:
    offers = [each.outcome for each in recorded().values() if all(each.outcome.offered)]
    assert len(offers) >= 0.75 * sum(NUMBERS.values())


def test_each_decided_difference_is_seen(cases: dict[int, Case], differences: list[Difference]) -> None:
    seen = {decided.row for each in differences for decided in DECIDED if decided.condition(cases[each.case], each)}
    assert {each.row for each in DECIDED} == seen


def test_decided_differences_name_rows_of_the_notes() -> None:
    notes = (ROOT / "KEP-notes.md").read_text(encoding="utf-8")
    assert [each.row for each in DECIDED if f"| Batch resources: {each.row}" not in notes] == []
