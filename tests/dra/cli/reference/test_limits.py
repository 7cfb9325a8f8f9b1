"""What is limited is said once, where the constant is declared."""

import pytest

from dra.cli.reference import limits


@pytest.mark.parametrize(
    ("docstring", "resource"),
    [
        pytest.param("Maximum number of claims of a pod: more take long.", "claims of a pod", id="number-and-why"),
        pytest.param("Maximum bytes of a claim; beyond it, none.", "bytes of a claim", id="amount-and-consequence"),
        pytest.param("Seconds between two writes.", "seconds between two writes", id="whole-sentence"),
        pytest.param("Maximum number of API groups in v1.2.", "API groups in v1.2", id="full-stop-within-a-word"),
    ],
)
def test_a_row_begins_as_the_docstring_of_its_constant(monkeypatch, docstring, resource):
    monkeypatch.setattr(limits, "docstrings_below", lambda _: {"GROUPS_MAX": docstring})
    assert limits.limited_resource("dra.kube.discovery", "GROUPS_MAX") == resource


def test_a_limit_without_a_docstring_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "docstrings_below", lambda _: {})
    with pytest.raises(ValueError, match=r"dra\.kube\.discovery\.GROUPS_MAX: write a docstring"):
        limits.limited_resource("dra.kube.discovery", "GROUPS_MAX")
