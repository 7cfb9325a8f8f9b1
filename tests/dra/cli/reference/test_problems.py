from pathlib import Path

from dra.cli.reference import problems
from dra.engine.diagnosis.problem_codes import ProblemCode

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "kubectl-dra.md"


def test_the_page_has_each_problem_as_the_commands_word_it():
    assert PAGE.read_text() == problems.updated_page(PAGE.read_text())


def test_no_problem_is_left_out():
    assert all(f"`{trouble.value}`" in problems.problem_table() for trouble in ProblemCode)
