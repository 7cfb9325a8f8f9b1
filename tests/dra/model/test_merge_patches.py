"""JSON merge patches, by the examples of RFC 7386, appendix A, whose patches are objects."""

import pytest

from dra.model.merge_patches import merged


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="a-field-is-replaced"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="a-field-is-added"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="null-removes"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a-list-is-replaced"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="objects-are-merged"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists-are-not-merged"),
        pytest.param(["a"], {"a": "b"}, {"a": "b"}, id="what-is-no-object-becomes-one"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="null-in-the-target-stays"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="null-is-in-no-result"),
    ],
)
def test_a_patch_is_applied(target, patch, result):
    assert merged(target, patch) == result


def test_the_target_stays_as_it_is():
    target = {"a": {"b": 1}}
    merged(target, {"a": {"b": 2}, "c": 3})
    assert target == {"a": {"b": 1}}
