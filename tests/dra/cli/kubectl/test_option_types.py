"""Durations on a command line, as kubectl takes them."""

import click
import pytest

from dra.cli.kubectl.option_types import WEEK, DurationParam, TimeoutParam
from tests.violations import for_each_case


@for_each_case(
    [("30s", 30), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25), ("90", 90), ("0.5", 0.5), ("0", 0)]
)
def test_forms_of_a_duration(text, seconds):
    assert DurationParam().convert(text, None, None) == seconds


@for_each_case(["", "5 m", "-5s", "five", "1d", "5s x", "1e3"])
def test_what_is_no_duration_is_refused_with_forms_that_are(text):
    with pytest.raises(click.BadParameter, match="is not a valid duration; use a form like 30s, 5m or 1h30m"):
        DurationParam().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("0", 0), ("0s", 0), ("-1", WEEK), ("-1s", WEEK), ("-5m", WEEK)]
)
def test_a_timeout_of_zero_checks_once_and_a_negative_one_waits_for_a_week(text, seconds):
    assert TimeoutParam().convert(text, None, None) == seconds


def test_a_negative_timeout_is_a_duration_too():
    with pytest.raises(click.BadParameter, match="is not a valid duration"):
        TimeoutParam().convert("-five", None, None)
