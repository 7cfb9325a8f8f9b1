"""Which of several parameters apply to a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.parameters.opaque import applies, strongest


@pytest.mark.parametrize(
    ("requests", "request_", "found"),
    [
        pytest.param((), "a", True, id="for-all"),
        pytest.param(("a",), "a", True, id="by-name"),
        pytest.param(("b",), "a", False, id="for-another"),
        pytest.param(("a",), "a/first", True, id="for-all-alternatives"),
        pytest.param(("a/first",), "a/first", True, id="for-the-alternative"),
        pytest.param(("a/second",), "a/first", False, id="for-another-alternative"),
        pytest.param(("a/first",), "a", False, id="an-alternative-is-not-the-whole"),
        pytest.param(("a",), "ab/first", False, id="not-by-prefix"),
    ],
)
def test_an_entry_is_for_the_requests_it_names(requests, request_, found):
    assert applies(requests, request_) is found


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        pytest.param([], None, id="none"),
        pytest.param([((), "class"), ((), "claim")], "claim", id="of-the-claim-over-of-the-class"),
        pytest.param([(("a",), "class"), ((), "claim")], "claim", id="later-for-all-over-earlier-by-name"),
        pytest.param([((), "claim"), (("a",), "later")], "later", id="later-over-earlier"),
        pytest.param([((), "class"), (("b",), "claim")], "class", id="for-another-request"),
    ],
)
def test_the_last_entry_for_a_request_applies(entries, found):
    assert strongest(entries, "a") == found


@given(
    st.lists(st.tuples(st.lists(st.sampled_from(["a", "b", "a/x"]), max_size=2), st.integers())),
    st.sampled_from(["a", "b", "a/x", "a/y"]),
)
def test_what_applies_is_the_last_that_matches(entries, request):
    matching = [value for requests, value in entries if applies(requests, request)]
    assert strongest(entries, request) == (matching[-1] if matching else None)
