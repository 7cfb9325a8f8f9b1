import copy

import msgspec
import pytest

from dra.cli.kubectl.snapshots import shared_values
from dra.cli.kubectl.snapshots.shared_values import SharedValues
from dra.model.diagnosed_pods import DiagnosedPod


def pod(name, *, label="train", cpu="1"):
    content = {
        "metadata": {"name": name, "namespace": "ml", "labels": {"app": label}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], "nodeName": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return msgspec.convert(content, DiagnosedPod)


def test_equal_parts_of_pods_are_one_object():
    first, second = pod("a"), pod("b")
    SharedValues().share([first, second])
    assert first.spec.containers is second.spec.containers
    assert first.metadata.labels is second.metadata.labels
    assert first.status.conditions is second.status.conditions


def test_pods_that_differ_in_metadata_alone_share_spec_and_status():
    first, second, third = pod("a"), pod("b"), pod("c", cpu="2")
    SharedValues().share([first, second, third])
    assert first.spec is second.spec
    assert first.status is second.status is third.status
    assert third.spec.containers[0].resources.requests == {"cpu": "2"}


def test_pods_stay_equal_to_what_they_were():
    pods = [pod("a"), pod("b", label="serve"), pod("c", cpu="2"), pod("d")]
    before = copy.deepcopy(pods)
    SharedValues().share(pods)
    assert pods == before


@pytest.mark.parametrize("different", [{"cpu": "2"}, {"cpu": 1}], ids=["other-amount", "number-and-not-text"])
def test_different_parts_are_not_shared(different):
    first, second = pod("a"), pod("b", **different)
    SharedValues().share([first, second])
    assert first.spec.containers is not second.spec.containers


def test_so_many_values_are_remembered(monkeypatch):
    monkeypatch.setattr(shared_values, "VALUES_MAX", 3)
    values, pods = SharedValues(), [pod(f"p{number}", label=str(number)) for number in range(10)]
    values.share(pods)
    assert len(values._values) == 3
    assert len(values._wholes) == 2
    assert [p.metadata.labels["app"] for p in pods] == [str(number) for number in range(10)]
