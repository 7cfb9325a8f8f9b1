"""Selectors of PromQL: no name selects anything but what has that name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.device_usage.promql import NAMES_BYTES_MAX, MalformedLabelError, selector, split_names

HOSTILE = ['x"} or {claim_namespace=~".*', ".*", "a|b", "x\\", 'x\\"', "a\nb", "(?i)ML", "^ml$", "[a-z]+", "ml", ""]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param({"ml"}, '{namespace="ml"}', id="one-name-is-compared"),
        pytest.param({".*"}, '{namespace=".*"}', id="one-pattern-too"),
        pytest.param({"ml", "web"}, '{namespace=~"ml|web"}', id="several-are-alternatives"),
        pytest.param({"a.b", "c"}, '{namespace=~"a\\\\.b|c"}', id="operators-are-escaped-twice"),
        pytest.param({'a"b', "c"}, '{namespace=~"a\\"b|c"}', id="a-quote-ends-nothing"),
        pytest.param(set(), '{namespace=~""}', id="no-name-selects-nothing-of-ours"),
    ],
)
def test_names_become_one_matcher(names, text):
    assert selector({}, any_of={"namespace": names}) == text


def decoded(text):
    """Return the regular expression in a selector, as Go reads the literal."""
    literal = re.fullmatch(r'\{namespace=~"((?:[^"\\\n]|\\.)*)"\}', text)
    assert literal is not None, "the literal ends where the selector ends"
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), literal[1])


@given(
    names=st.sets(st.text(max_size=8) | st.sampled_from(HOSTILE), min_size=2, max_size=6),
    other=st.text(max_size=8) | st.sampled_from(HOSTILE),
)
def test_alternatives_match_their_names_alone(names, other):
    pattern = re.compile(decoded(selector({}, any_of={"namespace": names})))
    assert all(pattern.fullmatch(name) for name in names)
    assert bool(pattern.fullmatch(other)) == (other in names)


def test_a_label_that_is_none_is_refused():
    with pytest.raises(MalformedLabelError, match="cluster=eu-1"):
        selector({'a="x",b': "x"}, any_of={})


@given(names=st.lists(st.text(min_size=1, max_size=400), max_size=40))
def test_parts_have_every_name_once_and_fit(names):
    parts = list(split_names(names))
    assert [name for part in parts for name in part] == names
    assert all(len(part) == 1 or sum(len(name.encode()) for name in part) <= NAMES_BYTES_MAX for part in parts)
