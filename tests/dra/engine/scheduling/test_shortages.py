"""What a node lacks more than before."""

import pytest

from dra.engine.scheduling.shortages import growth, shrunk_text


@pytest.mark.parametrize(
    ("before", "after", "grown"),
    [
        pytest.param(None, {"cpu": 1}, {}, id="the-node-was-unknown"),
        pytest.param({}, None, {}, id="the-node-is-unknown"),
        pytest.param({}, {"cpu": 1}, {"cpu": 1}, id="it-lacks-something-now"),
        pytest.param({"cpu": 1}, {"cpu": 1, "memory": 2}, {"memory": 2}, id="another-resource"),
        pytest.param({"cpu": 1}, {"cpu": 3}, {"cpu": 3}, id="more-of-the-same-is-told-whole"),
        pytest.param({"cpu": 3}, {"cpu": 1}, {}, id="less-than-before"),
    ],
)
def test_only_what_grows_is_reported(before, after, grown):
    assert growth(before, after) == grown


def test_the_text_names_the_node_first_and_what_to_do():
    text = shrunk_text("n1", {"pods": 2 * 10**9, "cpu": 10**9})
    assert text.startswith("node n1: ")
    assert "short of cpu 1, pods 2. Give the node back" in text
