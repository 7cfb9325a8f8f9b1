"""Errors of an API server say what to do next."""

import pytest

from dra.cli.kubectl.connection import error_text
from dra.kube.errors import Status, StatusDetails, Unreachable, error_of


def answered(code, message="", **details):
    return error_of(
        Status(code=code, message=message, details=StatusDetails(**details)), "resourceclaims.resource.k8s.io"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            answered(404), "the server does not serve resource.k8s.io/v1, which requires Kubernetes 1.34", id="old"
        ),
        pytest.param(
            answered(404, "claim not found", name="a"), "resourceclaims.resource.k8s.io: claim not found", id="gone"
        ),
        pytest.param(answered(401, "Unauthorized"), "does not accept these credentials. Log in again", id="expired"),
        pytest.param(
            answered(403, "may not."), "may not. List your permissions: kubectl auth can-i --list", id="rights"
        ),
        pytest.param(
            Unreachable("pods", "cannot connect", outcome_unknown=False),
            "cannot connect. Check that the cluster is running",
            id="down",
        ),
        pytest.param(answered(500, "etcd is gone"), "resourceclaims.resource.k8s.io: etcd is gone", id="others"),
    ],
)
def test_the_text_of_an_error_has_the_next_step(error, said):
    assert said in error_text(error)
