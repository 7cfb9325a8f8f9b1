"""What a cluster that enforces the restricted Pod Security Standard asks of the pods that a command tries."""

import pytest

from dra.cli.kubectl.preflight import stock_controller_reader
from dra.cli.kubectl.trial_pods import restricted_pod
from dra.cli.kubectl.verify.trial import TrialOptions, manifests

CLAIM = {"name": "device", "resourceClaimName": "verify"}


def of_verify(*, own_user):
    _, job = manifests(TrialOptions(device_class="gpu", image="busybox", timeout=1.0, own_user=own_user))
    return job["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(restricted_pod({"name": "main", "image": "busybox"}, claim=CLAIM), id="any"),
        pytest.param(of_verify(own_user=True), id="verify"),
        pytest.param(of_verify(own_user=False), id="verify-on-openshift"),
        pytest.param(stock_controller_reader._POD["spec"], id="preflight"),
    ],
)
def test_every_pod_is_restricted_and_uses_its_claim(spec):
    (container,) = spec["containers"]
    (claim,) = spec["resourceClaims"]
    assert container["resources"]["claims"] == [{"name": claim["name"]}]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec["automountServiceAccountToken"]


def test_no_user_is_named_unless_it_is_given():
    container = {"name": "main", "image": "busybox"}
    assert "runAsUser" not in restricted_pod(container, claim=CLAIM)["securityContext"]
    assert restricted_pod(container, claim=CLAIM, user=65534)["securityContext"]["runAsUser"] == 65534
