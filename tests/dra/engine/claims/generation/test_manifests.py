"""What is written for owners."""

import pytest

from dra.engine.claims.generation import manifests
from dra.engine.claims.generation.decide import decide
from tests.dra.engine.claims.generation.examples import DEVICES, claim, entry, group, pod, record, template, view


@pytest.mark.parametrize(
    ("pod_name", "entry_name", "expected"),
    [
        pytest.param("train-0", "gpu", "train-0-gpu-", id="short"),
        pytest.param("p" * 50, "gpu-1", "p" * 50 + "-gpu-1-", id="just-short-enough"),
        pytest.param("p" * 60, "gpu", "p" * 52 + "-" + "gp", id="both-are-cut"),
        pytest.param("p" * 200, "c" * 60, "p" * 43 + "-" + "c" * 13, id="in-proportion"),
    ],
)
def test_names(pod_name, entry_name, expected):
    name = manifests.generate_name(pod_name, entry_name)
    assert name == expected
    assert len(name) <= 57


def test_a_claim_is_as_its_template_says_and_belongs_to_its_pod():
    made = template(labels={"team": "blue"}, annotations={"note": "x"})
    (action,) = decide(view(pod(entry("a")), made)).create
    assert manifests.claim_manifest(action) == {
        "metadata": {
            "generateName": "p-a-",
            "labels": {"team": "blue"},
            "annotations": {"note": "x", "resource.kubernetes.io/pod-claim-name": "a"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
        },
        "spec": DEVICES,
    }


def test_or_to_its_group():
    (action,) = decide(view(group(entry("a")), template(), of="g")).create
    (owner,) = manifests.claim_manifest(action, group_version="v1alpha2")["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == ("scheduling.k8s.io/v1alpha2", "PodGroup")


def test_a_status_keeps_what_is_needless():
    owner = pod(entry("a"), entry("b"), records=[record("a", None)])
    action = decide(view(owner, template(), claim("p-b-1", made_for="b"))).record
    assert manifests.claim_statuses_manifest(action) == {
        "metadata": {"name": "p"},
        "status": {"resourceClaimStatuses": [{"name": "a"}, {"name": "b", "resourceClaimName": "p-b-1"}]},
    }
