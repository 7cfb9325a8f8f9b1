import copy
from sys import intern

import msgspec
import pytest

from dra.model import watched_pods
from dra.model.pods import Pod
from dra.model.watched_pods import READ_CONDITIONS, WatchedPods


def pod(name, *, owner="job", label="train", conditions=("PodScheduled", "Ready"), claim="c"):
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}]
    content = {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "labels": {"app": label},
            "annotations": {"batch.kubernetes.io/job-completion-index": "1"},
            "ownerReferences": owners,
        },
        "spec": {"nodeName": "n1", "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]},
        "status": {"phase": "Running", "conditions": [{"type": kind, "status": "True"} for kind in conditions]},
    }
    return msgspec.convert(content, Pod)


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        pytest.param(("Ready", "Initialized"), None, id="none-that-a-rule-reads"),
        pytest.param(("PodScheduled", "Ready"), ["PodScheduled"], id="one"),
        pytest.param(sorted(READ_CONDITIONS), sorted(READ_CONDITIONS), id="all"),
        pytest.param((), [], id="a-pod-without-conditions"),
    ],
)
def test_conditions_that_no_rule_reads_are_not_kept(conditions, kept):
    trimmed = pod("a", conditions=conditions)
    WatchedPods(intern).trim(trimmed)
    assert (trimmed.status.conditions and [condition.type for condition in trimmed.status.conditions]) == kept


def test_pods_of_one_owner_share_equal_parts():
    pods = WatchedPods(intern)
    first, second, other = pod("a"), pod("b"), pod("c", claim="d")
    for watched in (first, second, other):
        pods.trim(watched)
    assert first.metadata.labels is second.metadata.labels is other.metadata.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.resource_claims is second.spec.resource_claims
    assert other.spec.resource_claims[0].resource_claim_name == "d"


def test_pods_of_any_owner_share_words():
    raw = [msgspec.json.encode(pod("a", owner=owner)) for owner in ("job", "other")]
    first, second = (msgspec.json.decode(text, type=Pod) for text in raw)
    for watched in (first, second):
        WatchedPods(intern).trim(watched)
    for words in (
        lambda p: p.spec.node_name,
        lambda p: p.status.phase,
        lambda p: next(iter(p.metadata.annotations)),
        lambda p: p.status.conditions[0].type,
        lambda p: p.status.conditions[0].status,
    ):
        assert words(first) is words(second)


def test_pods_keep_what_they_had_but_for_conditions():
    pods = [pod("a"), pod("b", label="serve"), pod("c", owner="other"), pod("d"), pod("e", claim="d")]
    before, watched = copy.deepcopy(pods), WatchedPods(intern)
    for trimmed in (*pods, *pods):
        watched.trim(trimmed)
    assert [(p.metadata, p.spec) for p in pods] == [(p.metadata, p.spec) for p in before]


def test_so_many_owners_are_remembered(monkeypatch):
    monkeypatch.setattr(watched_pods, "OWNERS_MAX", 3)
    watched = WatchedPods(intern)
    for number in range(10):
        watched.trim(pod("a", owner=str(number)))
        assert len(watched._last) <= 3
