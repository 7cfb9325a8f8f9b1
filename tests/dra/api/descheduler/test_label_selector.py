"""Selectors as objects and as texts; both forms select the same."""

import pytest
from pydantic import TypeAdapter, ValidationError

from dra.api.descheduler.label_selector import LabelsOrSelector, Selector
from tests.violations import for_each_case

SELECTOR = TypeAdapter(Selector)
LABELS = {"pool": "batch", "zone": "a", "gpu": ""}


@for_each_case(
    [
        pytest.param("", True, id="empty-text-selects-all"),
        pytest.param({}, True, id="empty-object-selects-all"),
        pytest.param("pool=batch", True, id="equal"),
        pytest.param("pool==batch", True, id="equal-twice"),
        pytest.param("pool=web", False, id="another-value"),
        pytest.param("pool!=web", True, id="not-equal"),
        pytest.param("team!=web", True, id="not-equal-of-a-missing-label"),
        pytest.param("zone in (a,b)", True, id="in"),
        pytest.param("zone notin ( b , c )", True, id="notin-with-spaces"),
        pytest.param("team in (a)", False, id="in-of-a-missing-label"),
        pytest.param("gpu", True, id="exists"),
        pytest.param("!gpu", False, id="does-not-exist"),
        pytest.param("gpu=", True, id="empty-value"),
        pytest.param("pool=batch, zone in (a,b), !spot", True, id="all-must-hold"),
        pytest.param("pool=batch,pool=web", False, id="contradiction"),
        pytest.param("in in (a)", False, id="a-label-named-in"),
        pytest.param({"matchLabels": {"pool": "batch"}}, True, id="match-labels"),
        pytest.param({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, False, id="notin"),
    ],
)
def test_what_a_selector_selects(given, selected):
    assert SELECTOR.validate_python(given).selects(LABELS) is selected


def test_an_object_without_labels_is_selected_by_an_empty_selector_only():
    assert SELECTOR.validate_python("").selects(None)
    assert not SELECTOR.validate_python("pool").selects(None)


@for_each_case(
    [
        pytest.param("pool in a", "is not a selector from 'pool in a' on", id="no-parentheses"),
        pytest.param("a=b,pool in (a", "from 'pool in (a' on", id="open-parenthesis"),
        pytest.param("pool > 5", "is not a selector", id="greater"),
        pytest.param("=b", "is not a selector", id="no-key"),
        pytest.param("a b", "is not a selector", id="two-words"),
        pytest.param("-a=b", "'-a' is not a valid label key", id="key"),
        pytest.param("a=b/c", "'b/c' is not a valid label value", id="value"),
        pytest.param("x" * 5000 + "=a", "is not a valid label key", id="long-key"),
        pytest.param({"matchLabels": {"a": 1}}, "valid string", id="number"),
        pytest.param({"app": "web"}, "Extra inputs", id="labels-alone"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "no values", id="val"
        ),
    ]
)
def test_what_is_no_selector(given, text):
    with pytest.raises(ValidationError) as refused:
        SELECTOR.validate_python(given)
    assert text in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_where_labels_alone_were_always_read_they_still_are():
    adapter = TypeAdapter(LabelsOrSelector)
    assert adapter.validate_python({"app": "web"}) == adapter.validate_python({"matchLabels": {"app": "web"}})
    assert adapter.validate_python("app=web").selects({"app": "web"})
