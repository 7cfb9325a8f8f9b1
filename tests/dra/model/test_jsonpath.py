"""The paths of printer columns."""

import pytest

from dra.model.jsonpath import InvalidJsonPathError, find_values, parse_path
from tests.violations import for_each_case

OBJECT = {
    "spec": {"n": 1, "a.b": 2, "list": [{"x": 1}, {"x": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@for_each_case(
    [
        (".spec.n", [1]),
        ("spec.n", [1]),
        ("{.spec.n}", [1]),
        ("$.spec.n", [1]),
        (".spec.nope", []),
        (r".spec.a\.b", [2]),
        (".spec['a.b']", [2]),
        (".spec.list[0].x", [1]),
        (".spec.list[-1].x", [2]),
        (".spec.list[5]", []),
        (".spec.list[*].x", [1, 2]),
        (".spec.list[0:1].x", [1]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Other')].status", ["False"]),
        (".spec.list[?(@.x>1)].x", [2]),
        ("..x", [1, 2]),
        (".", [OBJECT]),
    ],
)
def test_paths_lead_to_values(path, found):
    assert find_values(path, OBJECT) == found


@pytest.mark.parametrize("path", [".spec[", ".a[?(@.b==)]", ".a[b]", ".a]"])
def test_what_is_no_path_is_said(path):
    with pytest.raises(InvalidJsonPathError):
        parse_path(path)
