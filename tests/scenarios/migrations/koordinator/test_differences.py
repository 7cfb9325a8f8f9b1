"""Each decided difference belongs to a case, and to a row of KEP-notes.md."""

from pathlib import Path

from tests.scenarios.migrations.koordinator.cases import CASES, name_of
from tests.scenarios.migrations.koordinator.differences import OTHER_DETAILS, OTHER_OUTCOMES
from tests.scenarios.migrations.koordinator.recording import RECORDED

ROOT = Path(__file__).parents[4]
NAMES = {name_of(case) for case in CASES}


def test_each_case_has_a_record():
    assert {each.stem for each in RECORDED.glob("*.yaml")} == NAMES


def test_differences_name_cases():
    named = {case for each in OTHER_DETAILS for case in each.cases} | OTHER_OUTCOMES.keys()
    assert named <= NAMES


def test_differences_name_rows_of_the_notes():
    notes = (ROOT / "KEP-notes.md").read_text(encoding="utf-8")
    rows = {each.row for each in (*OTHER_DETAILS, *OTHER_OUTCOMES.values())}
    assert [row for row in sorted(rows) if f"| PodMigrationJob: {row}" not in notes] == []
