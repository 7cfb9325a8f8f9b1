import pytest
from hypothesis import given
from hypothesis import strategies as st

from localplane.controller_manager.jobs import indexes


@pytest.mark.parametrize(
    ("found", "text"),
    [([], ""), ([3], "3"), ([1, 2], "1,2"), ([0, 1, 2], "0-2"), ([7, 1, 3, 4, 5], "1,3-5,7")],
)
def test_how_indexes_are_written(found, text):
    assert indexes.format_indexes(found) == text


@pytest.mark.parametrize(("text", "found"), [("x,1", {1}), ("5-3", set()), ("8-12", {8, 9}), ("1-x", {0} - {0})])
def test_what_cannot_be_read_or_is_not_wanted_is_left_out(text, found):
    assert indexes.parse_indexes(text, limit=10) == found


@given(st.sets(st.integers(min_value=0, max_value=300)))
def test_what_is_written_can_be_read(found):
    assert indexes.parse_indexes(indexes.format_indexes(found), limit=301) == found
