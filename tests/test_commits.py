"""The form of commit messages."""

import pytest

from tests.commits import faults
from tests.violations import for_each_case

BODY = "\n\nThe reason.\n"


@for_each_case(
    [
        pytest.param("kube: abort streams" + BODY, "", id="good"),
        pytest.param("tests/clients: describe one key" + BODY, "", id="scope-with-a-slash"),
        pytest.param("Merge branch 'x'", "", id="merges-are-exempt"),
        pytest.param("Abort streams" + BODY, "scope", id="no-scope"),
        pytest.param("kube: Abort streams" + BODY, "scope", id="upper-case"),
        pytest.param("kube: abort streams." + BODY, "scope", id="full-stop"),
        pytest.param(f"kube: {'abort ' * 12}streams" + BODY, "72 at most", id="long"),
        pytest.param("kube: abort streams", "body", id="no-body"),
        pytest.param("kube: abort streams\n# a comment of git\n", "body", id="only-comments"),
        pytest.param("kube: abort streams\nThe reason.\n", "not empty", id="no-empty-line"),
    ]
)
def test_a_message_has_a_scope_an_imperative_and_a_reason(message, fault):
    found = "; ".join(faults(message))
    assert fault in found
    assert bool(found) == bool(fault)
