"""Evictions take disruptions from PodDisruptionBudgets, or are refused with kube-apiserver's answers."""

import pytest

from localplane.query_options import WriteOptions
from localplane.status_errors import StatusError
from tests.localplane.components import pod
from tests.localplane.kinds.registry_client import RegistryClient, refused

EVICTION = {"metadata": {"name": "p"}}
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
READY = {"type": "Ready", "status": "True"}
COUNTS = {
    "observedGeneration": 1,
    "disruptionsAllowed": 1,
    "currentHealthy": 3,
    "desiredHealthy": 2,
    "expectedPods": 3,
}


def budget(name="b", **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}, **spec},
    }


def the_pod():
    obj = pod("p", node="n1")
    obj["metadata"]["labels"] = {"app": "a"}
    return {"apiVersion": "v1", "kind": "Pod", **obj}


def registry(*, phase="Running", ready=True, counts=COUNTS, spec=None):
    client = RegistryClient()
    client.create(the_pod())
    conditions = [READY] if ready else []
    client.update(the_pod(), lambda obj: obj["status"].update(phase=phase, conditions=conditions), "status")
    client.create(budget(**(spec or {})))
    client.update(budget(), lambda obj: obj["status"].update(counts), "status")
    return client


def status_error(client, body=EVICTION):
    with pytest.raises(StatusError) as raised:
        client.create_subresource(the_pod(), "eviction", body)
    assert "deletionTimestamp" not in client.get(the_pod())["metadata"]
    return raised.value


def is_evicted(client):
    return "deletionTimestamp" in client.get(the_pod())["metadata"]


def test_a_granted_eviction_takes_the_last_disruption():
    client = registry()
    client.create_subresource(the_pod(), "eviction", EVICTION)
    status = client.get(budget())["status"]
    assert is_evicted(client)
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"p": "2026-11-21T12:00:00Z"}
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "False")
    assert condition["reason"] == "InsufficientPods"


@pytest.mark.parametrize(
    ("counts", "cause"),
    [
        pytest.param(
            {"disruptionsAllowed": 0, "currentHealthy": 2},
            "The disruption budget b needs 2 healthy pods and has 2 currently",
            id="not enough healthy pods",
        ),
        pytest.param(
            {"observedGeneration": 0},
            "The disruption budget b is still being processed by the server.",
            id="not processed yet",
        ),
        pytest.param(
            {
                "disruptionsAllowed": 0,
                "conditions": [
                    {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}
                ],
            },
            "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
            id="failed to be processed",
        ),
        pytest.param(
            {"disruptionsAllowed": 0},
            "The disruption budget b does not allow evicting pods currently",
            id="counts that do not say why",
        ),
    ],
)
def test_a_budget_without_disruptions_refuses(counts, cause):
    client = registry(counts={**COUNTS, **counts})
    found = status_error(client)
    assert (found.code, found.reason, found.message) == (429, "TooManyRequests", VIOLATION)
    assert found.details["causes"] == [{"reason": "DisruptionBudget", "message": cause}]


def test_two_budgets_of_one_pod_refuse():
    client = registry()
    client.create(budget("c"))
    found = status_error(client)
    assert found.code == 500
    assert "more than one PodDisruptionBudget" in found.message


@pytest.mark.parametrize(
    ("selector", "evicted"),
    [
        pytest.param({}, False, id="an empty selector selects every pod"),
        pytest.param(None, True, id="a missing selector selects no pod"),
        pytest.param({"matchLabels": {"app": "other"}}, True, id="another label"),
    ],
)
def test_a_budget_guards_the_pods_that_it_selects(selector, evicted):
    client = registry(counts={**COUNTS, "disruptionsAllowed": 0}, spec={"selector": selector})
    refused(client.create_subresource, the_pod(), "eviction", EVICTION)
    assert is_evicted(client) is evicted


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_serve_nobody_need_no_budget(phase):
    client = registry(phase=phase, counts={**COUNTS, "disruptionsAllowed": 0})
    assert client.registry.exists(client.route(the_pod()))
    client.registry.create_subresource(client.route(the_pod(), "eviction"), EVICTION)
    assert not client.registry.exists(client.route(the_pod())) or is_evicted(client)


@pytest.mark.parametrize(
    ("policy", "healthy", "evicted"),
    [
        pytest.param(None, 2, True, id="enough others are healthy"),
        pytest.param(None, 1, False, id="too few others are healthy"),
        pytest.param("IfHealthyBudget", 1, False, id="the default by name"),
        pytest.param("AlwaysAllow", 1, True, id="always"),
    ],
)
def test_the_policy_decides_about_unhealthy_pods(policy, healthy, evicted):
    spec = {"unhealthyPodEvictionPolicy": policy} if policy else None
    client = registry(ready=False, counts={**COUNTS, "disruptionsAllowed": 0, "currentHealthy": healthy}, spec=spec)
    refused(client.create_subresource, the_pod(), "eviction", EVICTION)
    assert is_evicted(client) is evicted
    assert "disruptedPods" not in client.get(budget())["status"]


@pytest.mark.parametrize("asked_by", ["request", "deleteOptions"])
def test_a_dry_run_takes_no_disruption(asked_by):
    client = registry()
    body = {**EVICTION, "deleteOptions": {"dryRun": ["All"]}} if asked_by == "deleteOptions" else EVICTION
    options = WriteOptions(dry_run=asked_by == "request")
    client.registry.create_subresource(client.route(the_pod(), "eviction"), body, options=options)
    assert client.get(budget())["status"] == COUNTS
    assert not is_evicted(client)


def test_an_eviction_of_another_uid_takes_no_disruption():
    client = registry()
    found = status_error(client, {**EVICTION, "deleteOptions": {"preconditions": {"uid": "other"}}})
    assert found.code == 409
    assert "the UID in the precondition (other) does not match" in found.message
    assert client.get(budget())["status"] == COUNTS
