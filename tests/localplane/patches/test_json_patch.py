"""JSON patch, by the examples of RFC 6902 and by its dangers."""

from copy import deepcopy

import pytest

from localplane.patches import json_patch
from localplane.status_errors import StatusError
from tests.violations import for_each_case


def op(name, path, **more):
    return {"op": name, "path": path, **more}


@for_each_case(
    [
        pytest.param({"a": 1}, [op("add", "/b", value=2)], {"a": 1, "b": 2}, id="add-a-field"),
        pytest.param({"a": [1, 3]}, [op("add", "/a/1", value=2)], {"a": [1, 2, 3]}, id="add-into-a-list"),
        pytest.param({"a": [1]}, [op("add", "/a/-", value=2)], {"a": [1, 2]}, id="append"),
        pytest.param({"a": 1}, [op("remove", "/a")], {}, id="remove"),
        pytest.param({"a": [1, 2]}, [op("remove", "/a/0")], {"a": [2]}, id="remove-from-a-list"),
        pytest.param({"a": 1}, [op("replace", "/a", value=None)], {"a": None}, id="replace-with-null"),
        pytest.param({"a": 1}, [op("replace", "", value={"b": 2})], {"b": 2}, id="replace-it-all"),
        pytest.param({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}, id="move"),
        pytest.param({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}, id="copy"),
        pytest.param({"a/b": 1, "m~n": 2}, [op("test", "/a~1b", value=1), op("test", "/m~0n", value=2)], None, id="~"),
        pytest.param({"a": 1}, [op("test", "/b", value=None)], None, id="what-is-missing-is-null"),
    ]
)
def test_operations(obj, patch, result):
    assert json_patch.mutation(patch)(deepcopy(obj)) == (obj if result is None else result)


@for_each_case(
    [
        pytest.param([op("test", "/a", value=2)], id="test-fails"),
        pytest.param([op("test", "/a", value=True)], id="true-is-not-one"),
        pytest.param([op("remove", "/b")], id="nothing-to-remove"),
        pytest.param([op("replace", "/b", value=1)], id="nothing-to-replace"),
        pytest.param([op("add", "/b/c", value=1)], id="no-parent"),
        pytest.param([op("add", "/list/2", value=1)], id="beyond-the-list"),
        pytest.param([op("add", "/list/01", value=1)], id="no-index"),
        pytest.param([op("add", "/list/-1", value=1)], id="negative"),
        pytest.param([op("add", "b", value=1)], id="no-pointer"),
        pytest.param([op("add", "/b")], id="no-value"),
        pytest.param([op("jump", "/a")], id="no-such-operation"),
        pytest.param([{"op": "move", "from": "/list", "path": "/list/0"}], id="into-itself"),
        pytest.param([op("replace", "", value=[])], id="no-object"),
    ]
)
def test_an_operation_that_cannot_be_done_rejects_the_patch(patch):
    with pytest.raises(StatusError) as refused:
        json_patch.mutation(patch)({"a": 1, "list": [0]})
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("patch", "code"), [({}, 400), ([1], 400), ([{"op": "add"}], 400), ([op("test", "/a")] * 10_001, 413)]
)
def test_what_is_no_patch_is_refused_before_it_is_applied(patch, code):
    with pytest.raises(StatusError) as refused:
        json_patch.mutation(patch)
    assert refused.value.code == code
