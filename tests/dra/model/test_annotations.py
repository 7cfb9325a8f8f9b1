"""A tenant's annotations cost a bounded amount of memory, and no rule misses one of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model import annotations
from dra.model.annotations import (
    CLAIM_RULE_ANNOTATIONS,
    RETAIN_ALL_MAX_CHARACTERS,
    RETAINED_VALUE_MAX_CHARACTERS,
    retained_annotations,
    trim_annotations,
)
from dra.model.meta import ObjectMeta
from dra.model.workload_reservations import FORCE_RELEASE, RESERVED_FOR

BULK = {"mallory.example.com/bulk": "x" * 250_000}


@pytest.mark.parametrize(
    ("given", "left"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"a": "b", RESERVED_FOR: "jobs/x"}, {"a": "b", RESERVED_FOR: "jobs/x"}, id="few"),
        pytest.param({**BULK, RESERVED_FOR: "jobs/x"}, {RESERVED_FOR: "jobs/x"}, id="much-of-others"),
        pytest.param(
            {RESERVED_FOR: "x" * 250_000}, {RESERVED_FOR: "x" * RETAINED_VALUE_MAX_CHARACTERS}, id="much-in-ours"
        ),
        pytest.param({f"reserve.dra/{n}": "x" * 1000 for n in range(200)}, {}, id="many-that-look-like-ours"),
    ],
)
def test_what_is_kept(given, left):
    metadata = ObjectMeta(annotations=dict(given))
    trim_annotations(metadata)
    assert metadata.annotations == left


@given(
    st.dictionaries(st.sampled_from([*sorted(CLAIM_RULE_ANNOTATIONS), "a", "b"]), st.text(max_size=3000), max_size=12)
)
def test_what_is_kept_is_bounded_and_stays_so(given):
    found = retained_annotations(given)
    assert retained_annotations(found) == found
    assert found.keys() <= given.keys()
    assert given.keys() & CLAIM_RULE_ANNOTATIONS <= found.keys()
    assert sum(map(len, found.values())) <= max(
        RETAIN_ALL_MAX_CHARACTERS, RETAINED_VALUE_MAX_CHARACTERS * len(CLAIM_RULE_ANNOTATIONS)
    )


def test_an_object_without_annotations_is_left_alone():
    metadata = ObjectMeta()
    trim_annotations(metadata)
    assert metadata.annotations is None
    assert annotations.retained_annotations({FORCE_RELEASE: "u"}) == {FORCE_RELEASE: "u"}
