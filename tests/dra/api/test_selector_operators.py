import pytest

from dra.api.selector_operators import SelectorOperator


@pytest.mark.parametrize(
    ("operator", "named", "another", "missing"),
    [
        pytest.param("In", True, False, False, id="In"),
        pytest.param("NotIn", False, True, True, id="NotIn-is-met-by-a-missing-label"),
        pytest.param("Exists", True, True, False, id="Exists"),
        pytest.param("DoesNotExist", False, False, True, id="DoesNotExist"),
    ],
)
def test_an_operator_is_met_by_a_label_that_is_named_another_or_missing(operator, named, another, missing):
    values = ("a", "b")
    met = [SelectorOperator(operator).is_met(value, values) for value in ("b", "c", None)]
    assert met == [named, another, missing]
