import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localplane.schemas.body_parser import MAX_DEPTH, BodySyntaxError, parse_json
from localplane.schemas.go_decoder import DuplicateKeys, duplicate_fields

TRICKY = st.text(alphabet='"\\{}[]:,a')
WIDE = st.recursive(TRICKY, lambda inner: st.lists(inner) | st.dictionaries(TRICKY, inner), max_leaves=20)


def nested(value, levels):
    for level in range(levels):
        value = [value] if level % 2 else {'\\"]}': value}
    return value


def depth(value):
    match value:
        case dict():
            return 1 + max(map(depth, value.values()), default=0)
        case list():
            return 1 + max(map(depth, value), default=0)
        case _:
            return 0


@given(WIDE, st.integers(min_value=MAX_DEPTH - 8, max_value=MAX_DEPTH + 2), st.booleans())
def test_what_is_deeper_than_allowed_is_refused_whatever_its_texts_say(inner, levels, escaped):
    value = nested(inner, levels)
    raw = json.dumps(value, ensure_ascii=escaped).encode()
    if depth(value) > MAX_DEPTH:
        with pytest.raises(BodySyntaxError, match="exceeded max depth"):
            parse_json(raw)
    else:
        assert parse_json(raw) == value


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        pytest.param(b'{"a":1,"b":{"c":1}}', [], id="nothing"),
        pytest.param(b'{"a":"\\":"}', [], id="only-seemingly"),
        pytest.param(b'{"a":1,"a":2}', ['duplicate field "a"'], id="in-the-whole"),
        pytest.param(b'{"a":[{"b":1,"b":2}]}', ['duplicate field "a[0].b"'], id="deep-inside"),
    ],
)
def test_a_plain_object_says_nothing_twice(raw, said):
    value = parse_json(raw)
    assert list(duplicate_fields(value)) == said
    assert isinstance(value, DuplicateKeys) is bool(said)
    assert value == json.loads(raw)
