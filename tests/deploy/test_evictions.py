"""The controller's evictions: in namespaces that have opted in, and of one version of a pod alone."""

import pytest

from tests.deploy.judging import judge
from tests.deploy.test_own_writes import asked, policy

OF_EVICTIONS = policy("koordinator/own-writes.yaml", "controller-evictions.reserve.dra")
ENABLED = {"metadata": {"labels": {"reserve.dra/koordinator": "enabled"}}}
BOTH = {"uid": "uid-p", "resourceVersion": "7"}


def eviction(preconditions):
    options = {} if preconditions is None else {"deleteOptions": {"preconditions": preconditions}}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "ml"}, **options}


@pytest.mark.parametrize(
    ("preconditions", "namespace", "text"),
    [
        pytest.param(BOTH, ENABLED, "", id="as-the-controller-does"),
        pytest.param({"uid": "uid-p"}, ENABLED, "resourceVersion", id="any-version"),
        pytest.param({"resourceVersion": "7"}, ENABLED, "uid", id="any-pod-of-the-name"),
        pytest.param(None, ENABLED, "preconditions", id="no-preconditions"),
        pytest.param(BOTH, {"metadata": {}}, "lacks the label", id="namespace-without-labels"),
        pytest.param(
            BOTH, {"metadata": {"labels": {"reserve.dra/koordinator": "no"}}}, "lacks the label", id="not-enabled"
        ),
    ],
)
def test_a_token_of_the_controller_evicts_no_other_pods(preconditions, namespace, text):
    passed, said = judge(OF_EVICTIONS, asked("CREATE"), obj=eviction(preconditions), namespace=namespace)
    assert passed is not bool(text)
    assert text in said
    assert not text or said.startswith("the controller may not evict pod ml/p: ")
    assert judge(OF_EVICTIONS, asked("CREATE", user="kubelet"), obj=eviction(preconditions), namespace=namespace)[0]
