from pathlib import Path

from dra.cli.kubectl.why import reference
from dra.engine.diagnosis.problems import ProblemCode

PAGE = Path(__file__).parents[5] / "docs" / "how-to" / "kubectl-dra.md"


def test_the_page_has_each_problem_as_the_commands_word_it():
    assert PAGE.read_text() == reference.page(PAGE.read_text())


def test_no_problem_is_left_out():
    assert all(f"`{trouble.value}`" in reference.table() for trouble in ProblemCode)
