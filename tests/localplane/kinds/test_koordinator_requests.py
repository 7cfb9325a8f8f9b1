"""Requests in Koordinator's form on the local plane, which evaluates no policies and translates pods itself."""

import pytest

from tests.dra.engine.translation.examples import QOS, container, gpus, lsr, pod
from tests.localplane.kinds.registry_client import RegistryClient, refused


@pytest.fixture
def client():
    found = RegistryClient()
    labels = {"metadata": {"name": "default"}, "apiVersion": "v1", "kind": "Namespace"}
    found.update(labels, lambda obj: obj["metadata"].update(labels={"reserve.dra/koordinator": "enabled"}))
    value = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "prod"}, "value": 9500}
    found.create(value)
    return found


def sent(made):
    made["spec"].pop("priority")
    for each in made["spec"]["containers"]:
        each["image"] = "pause"
    return {"apiVersion": "v1", "kind": "Pod"} | made


def test_a_pod_gets_its_claims(client):
    made = client.create(sent(pod(gpus(gpu="50"))))
    assert made["spec"]["resourceClaims"] == [
        {"name": "koord-gpu-0", "resourceClaimTemplateName": "koord-gpu-c50-r50-s1"}
    ]
    (main,) = made["spec"]["containers"]
    assert main["resources"] == {"claims": [{"name": "koord-gpu-0"}]}


def test_the_priority_is_that_of_the_priority_class(client):
    made = client.create(sent(lsr("2", priorityClassName="prod")))
    assert made["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == "koord-cpu-2-default-lsr"


def test_a_pod_without_a_translation_is_refused_with_the_path(client):
    (said,) = refused(client.create, sent(pod(gpus(gpu="150"))))
    assert said.startswith("spec.containers[0].resources.limits[koordinator.sh/gpu]: Forbidden: must be at most 100")


def test_classes_are_immutable(client):
    given = client.create(sent(lsr("2", priorityClassName="prod")))
    (said,) = refused(client.update, given, lambda obj: obj["metadata"]["labels"].update({QOS: "LSE"}))
    assert said.startswith(f"metadata.labels[{QOS}]: Forbidden: field is immutable")
    client.update(given, lambda obj: obj["metadata"]["labels"].update(other="x"))


def test_other_namespaces_are_left_alone():
    client = RegistryClient()
    given = sent(pod(container(cpu="1500m"), qos="LSR"))
    made = client.create(given)
    assert "resourceClaims" not in made["spec"]
    client.update(made, lambda obj: obj["metadata"]["labels"].update({QOS: "LSE"}))
