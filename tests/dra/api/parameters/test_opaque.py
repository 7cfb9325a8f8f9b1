"""Which of several parameters apply to a request."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.parameters.applicable import applies_to_request, last_applicable
from dra.api.parameters.cpu import CpuConfig
from dra.api.parameters.gpu import GpuConfig
from dra.api.parameters.opaque import (
    API_VERSION,
    MalformedParametersError,
    decode_parameters,
)
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param((), "a", True, id="for-all"),
        pytest.param(("a",), "a", True, id="by-name"),
        pytest.param(("b",), "a", False, id="for-another"),
        pytest.param(("a",), "a/first", True, id="for-all-alternatives"),
        pytest.param(("a/first",), "a/first", True, id="for-the-alternative"),
        pytest.param(("a/second",), "a/first", False, id="for-another-alternative"),
        pytest.param(("a/first",), "a", False, id="an-alternative-is-not-the-whole"),
        pytest.param(("a",), "ab/first", False, id="not-by-prefix"),
    ]
)
def test_an_entry_is_for_the_requests_it_names(requests, request_, found):
    assert applies_to_request(requests, request_) is found


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
    assert last_applicable(entries, "a") == found


@given(
    st.lists(st.tuples(st.lists(st.sampled_from(["a", "b", "a/x"]), max_size=2), st.integers())),
    st.sampled_from(["a", "b", "a/x", "a/y"]),
)
def test_what_applies_is_the_last_that_matches(entries, request):
    matching = [value for requests, value in entries if applies_to_request(requests, request)]
    assert last_applicable(entries, request) == (matching[-1] if matching else None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
GOOD = {
    GpuConfig: {
        "apiVersion": API_VERSION,
        "kind": "GpuConfig",
        "sharing": {
            "strategy": "TimeSlicing",
            "timeSlicingConfig": {"interval": "Long"},
            "memory": {"limit": "8Gi", "enforcement": "Advisory"},
        },
    },
    CpuConfig: {
        "apiVersion": API_VERSION,
        "kind": "CpuConfig",
        "requiredCPUBindPolicy": "FullPCPUs",
        "preferredCPUExclusivePolicy": "PCPULevel",
        "strategy": "LeastAllocated",
    },
}
ROOTS = ("apiVersion:", "kind:")


def taken_or_refused(parameters, kind):
    try:
        found = decode_parameters(parameters, kind)
    except MalformedParametersError as error:
        text = str(error)
        assert text.startswith((*ROOTS, kind.__name__)) or "not both" in text
        assert len(text) > len("kind: ")
        return None
    assert isinstance(found, kind)
    return found


@pytest.mark.parametrize("kind", GOOD, ids=lambda each: each.__name__)
@given(parameters=st.dictionaries(st.text(max_size=10), JSON, max_size=5))
def test_whatever_else_is_written_is_refused_with_the_path_of_a_field(kind, parameters):
    assert taken_or_refused(parameters, kind) is None
    head = {"apiVersion": API_VERSION, "kind": kind.__name__}
    assert (taken_or_refused(parameters | head, kind) is not None) == (not parameters.keys() - head.keys())


@pytest.mark.parametrize("kind", GOOD, ids=lambda each: each.__name__)
@given(data=st.data())
def test_one_wrong_value_in_good_parameters_is_refused_or_means_what_it_says(kind, data):
    content = json.loads(json.dumps(GOOD[kind]))
    at, key = content, data.draw(st.sampled_from(sorted(content)))
    while isinstance(at[key], dict) and data.draw(st.booleans()):
        at = at[key]
        key = data.draw(st.sampled_from(sorted(at)))
    at[key] = data.draw(JSON | st.sampled_from(["0", "9" * 6000, "1e3", "8Gi\n", "Long", "MPS", "FullPCPUs"]))
    taken_or_refused(content, kind)


@pytest.mark.parametrize(
    ("content", "end"),
    [
        pytest.param({f"x{n}": {} for n in range(3000)}, "; and 2992 more errors", id="many-fields"),
        pytest.param({"x" * 10_000: {}}, "sharedWith, strategy", id="a-long-name"),
        pytest.param({"strategy": "x" * 10_000}, "xxx…", id="a-long-value"),
        pytest.param({"kind": "x" * 10_000}, "xxx…", id="a-long-kind"),
    ],
)
def test_a_message_stays_readable_whatever_a_user_writes(content, end):
    with pytest.raises(MalformedParametersError) as refused:
        decode_parameters({"apiVersion": API_VERSION, "kind": "CpuConfig", **content}, CpuConfig)
    assert str(refused.value).endswith(end)
    assert len(str(refused.value)) < 3000
