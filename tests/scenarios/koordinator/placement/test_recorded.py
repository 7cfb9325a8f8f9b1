"""The engine places what koord-scheduler placed, by the records of Koordinator, but for the decided differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.koordinator.placement import engine
from tests.scenarios.koordinator.placement.comparison import Comparison, compare
from tests.scenarios.koordinator.placement.differences import DECIDED, undecided
from tests.scenarios.koordinator.placement.outcomes import recorded
from tests.scenarios.koordinator.placement.sets import NUMBERS, PlacementSet, all_sets

ROOT = Path(__file__).parents[4]
LEAST_COMPARED = 0.9
"""Share of the pods that are compared at least: after some differences the rest of a set is not."""


SAMPLE = 8
"""One of how many sets is played in `make test`; all are where tests marked long run."""


def _compared(sets: list[PlacementSet]) -> list[tuple[PlacementSet, Comparison]]:
    records = recorded()
    return [(made, compare(made, records[made.number], engine.play(made))) for made in sets]


@pytest.fixture(scope="module")
def comparisons() -> list[tuple[PlacementSet, Comparison]]:
    return _compared(all_sets())


def test_each_set_has_a_record() -> None:
    assert {number: each.digest for number, each in recorded().items()} == {
        each.number: each.digest for each in all_sets()
    }
    assert sum(NUMBERS.values()) >= 300


def test_outcomes_of_a_sample_are_those_of_koordinator() -> None:
    compared = _compared(all_sets()[::SAMPLE])
    assert [each for made, comparison in compared for each in undecided(made, comparison.differences)] == []


@pytest.mark.long
def test_outcomes_are_those_of_koordinator(comparisons: list[tuple[PlacementSet, Comparison]]) -> None:
    assert [each for made, found in comparisons for each in undecided(made, found.differences)] == []


@pytest.mark.long
def test_most_pods_are_compared(comparisons: list[tuple[PlacementSet, Comparison]]) -> None:
    pods = sum(len(each.outcomes) for each in recorded().values())
    assert sum(found.compared for _, found in comparisons) >= LEAST_COMPARED * pods


@pytest.mark.long
def test_each_decided_difference_is_seen(comparisons: list[tuple[PlacementSet, Comparison]]) -> None:
    seen = {
        decided.row
        for made, found in comparisons
        for difference in found.differences
        for decided in DECIDED
        if decided.covers(made, difference)
    }
    assert {each.row for each in DECIDED} == seen


def test_decided_differences_name_rows_of_the_notes() -> None:
    notes = (ROOT / "KEP-notes.md").read_text(encoding="utf-8")
    assert [each.row for each in DECIDED if f"| Placement: {each.row}" not in notes] == []
