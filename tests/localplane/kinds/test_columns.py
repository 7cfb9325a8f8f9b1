"""Spans and selectors as kubectl shows them."""

import pytest

from localplane.kinds import columns
from tests.violations import for_each_case

DAY = 86400


@for_each_case(
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (99, "99s"),
        (120, "2m"),
        (183, "3m3s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (26 * 3600, "26h"),
        (2 * DAY + 3600, "2d1h"),
        (9 * DAY, "9d"),
        (3 * 365 * DAY + DAY, "3y1d"),
        (9 * 365 * DAY, "9y"),
    ]
)
def test_a_span_has_about_two_digits(seconds, text):
    assert columns.human_duration(seconds) == text


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param(None, "<none>", id="none"),
        pytest.param({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2", id="labels"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}, "a in (x,y)", id="expression"
        ),
    ],
)
def test_a_selector_in_one_line(selector, text):
    assert columns.format_label_selector(selector) == text
