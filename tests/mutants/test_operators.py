import ast

import pytest

from tests.mutants import campaign
from tests.mutants.operators import mutants

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        pytest.param("x = a < b", {"(a <= b)"}, id="comparison"),
        pytest.param("x = a and b", {"(a or b)", "(a)", "(b)"}, id="boolean-operation"),
        pytest.param("x = not a", {"(a)"}, id="negation"),
        pytest.param("x = a + 1", {"(a - 1)", "(2)"}, id="sum-and-number"),
        pytest.param("x = True", {"(False)"}, id="truth-value"),
        pytest.param("if a:\n    f()", {"True", "False", "pass"}, id="condition-and-call"),
        pytest.param("x = a if b else c", {"(c if b else a)"}, id="conditional-expression"),
        pytest.param("x = [a for a in b if a]", {"([a for a in b])"}, id="filter"),
        pytest.param("x = y.replace(a=1)", {"(y.replace())", "(2)"}, id="change-of-desired"),
        pytest.param("x: Final[int]", set(), id="annotation"),
        pytest.param('"""Text of 3 lines."""', set(), id="docstring"),
        pytest.param('_log.info("%s", 1)', set(), id="log-call"),
        pytest.param("T: TypeAlias = A | B", set(), id="type-alias"),
    ],
)
def test_each_place_is_changed_in_each_way(code, changed):
    assert {mutant.after for mutant in mutants(code)} == changed


@pytest.mark.long
def test_every_mutant_of_the_tree_can_be_compiled_and_differs():
    for file in campaign.files(("dra/engine/claims",)):
        text = (campaign.ROOT / file).read_text()
        for mutant in mutants(text):
            assert mutant.text != text
            ast.parse(mutant.text)


def test_a_seed_is_the_same_draw_each_time():
    assert campaign.drawn(7, 20) == campaign.drawn(7, 20)
    assert campaign.drawn(7, 20) != campaign.drawn(8, 20)
