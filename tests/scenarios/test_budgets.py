"""Evictions follow PodDisruptionBudgets, on our own control plane as on Kubernetes.

Nothing of ours takes part: the same answers on both tell that what is tried on the plane holds on a cluster.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.api import ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import DISRUPTION_BUDGETS, PODS, REPLICA_SETS
from tests.scenarios.target import Mode

pytestmark = pytest.mark.modes(Mode.REPLACE)

Json = dict[str, Any]

VIOLATION: Final = "Cannot evict pod as it would violate the pod's disruption budget."
REPLICA_SET: Final = {"kind": "ReplicaSet"}
SUFFICIENT: Final = ("True", "SufficientPods", "")
INSUFFICIENT: Final = ("False", "InsufficientPods", "")


def _budget(name: str = "budget", *, app: str = "web", **spec: object) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


async def _evict(namespace: Namespace, pod: str, **options: object) -> Json:
    """Return the Status that answers an eviction, refused or not."""
    path = PODS.path(namespace=namespace.name, name=pod, subresource="eviction")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}, "deleteOptions": options}
    try:
        answer = await namespace.api.request("POST", path, body)
    except ApiError as error:
        return {**error.answer, "http": error.status}
    return {**answer, "http": 201}


def _answer(status: Json) -> tuple[Any, ...]:
    details = status.get("details") or {}
    causes = tuple((each.get("reason"), each.get("message")) for each in details.get("causes") or ())
    return status["http"], status["code"], status.get("reason"), status.get("message"), causes


async def _state(namespace: Namespace) -> tuple[tuple[int, ...], tuple[str, str, str], bool]:
    """Return the counts of the budget, its condition, and whether the status is of the current generation."""
    found = await namespace.get(DISRUPTION_BUDGETS, "budget")
    status = found["status"]
    (condition,) = status.get("conditions") or [{"status": "", "reason": "", "message": ""}]
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    current = status.get("observedGeneration") == found["metadata"]["generation"]
    told = (condition["status"], condition["reason"], condition["message"])
    return tuple(status[name] for name in names), told, current


async def _becomes(namespace: Namespace, counts: tuple[int, ...], condition: tuple[str, str, str]) -> None:
    await eventually(
        lambda: _state(namespace), until=lambda seen: seen == (counts, condition, True), saying="the budget is counted"
    )


async def _run(namespace: Namespace, *, replicas: int = 3) -> list[str]:
    """Start a Deployment; return the names of its pods when all are ready."""
    await namespace.create(objects.deployment("web", PodShape(), replicas=replicas))
    await steps.pods_run(namespace, count=replicas)
    return sorted(each["metadata"]["name"] for each in await namespace.all(PODS))


@pytest.mark.parametrize(
    "spec", [{"minAvailable": 2}, {"minAvailable": "60%"}, {"maxUnavailable": 1}], ids=lambda spec: next(iter(spec))
)
async def test_a_budget_grants_one_eviction_at_a_time(namespace: Namespace, spec: Json) -> None:
    """The next one is granted when the replacement is ready, which is held back until then."""
    await namespace.create({**objects.deployment("web", PodShape(), replicas=3), **REPLICA_SET})
    await steps.pods_run(namespace, count=3)
    first, second, _ = sorted(each["metadata"]["name"] for each in await namespace.all(PODS))
    held = {"spec": {"template": {"metadata": {"labels": {objects.HOLD: "true"}}}}}
    await namespace.patch(REPLICA_SETS, "web", held)
    created = await namespace.create(_budget(**spec))
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    assert created["status"] == dict.fromkeys(names, 0)
    await _becomes(namespace, (3, 3, 2, 1), SUFFICIENT)
    assert _answer(await _evict(namespace, first, dryRun=["All"]))[:2] == (201, 201)
    assert (await _state(namespace))[0] == (3, 3, 2, 1)
    assert _answer(await _evict(namespace, first))[:2] == (201, 201)
    refused = await _evict(namespace, second)
    assert _answer(refused)[:4] == (429, 429, "TooManyRequests", VIOLATION)
    replacement = await eventually(
        lambda: namespace.all(PODS, labelSelector=objects.HOLD), until=len, saying="the pod is replaced"
    )
    await _becomes(namespace, (3, 2, 2, 0), INSUFFICIENT)
    cause = "The disruption budget budget needs 2 healthy pods and has 2 currently"
    assert _answer(await _evict(namespace, second))[4] == (("DisruptionBudget", cause),)
    free = {"metadata": {"labels": {objects.HOLD: None}}}
    await namespace.patch(PODS, replacement[0]["metadata"]["name"], free)
    await _becomes(namespace, (3, 3, 2, 1), SUFFICIENT)
    assert _answer(await _evict(namespace, second))[:2] == (201, 201)


async def test_a_budget_without_disruptions_refuses(namespace: Namespace) -> None:
    first, *_ = await _run(namespace)
    await namespace.create(_budget(maxUnavailable=0))
    await _becomes(namespace, (3, 3, 3, 0), INSUFFICIENT)
    cause = "The disruption budget budget needs 3 healthy pods and has 3 currently"
    expected = (429, 429, "TooManyRequests", VIOLATION, (("DisruptionBudget", cause),))
    assert _answer(await _evict(namespace, first)) == expected
    await namespace.patch(DISRUPTION_BUDGETS, "budget", {"spec": {"maxUnavailable": 3}})
    await _becomes(namespace, (3, 3, 0, 3), SUFFICIENT)
    assert _answer(await _evict(namespace, first))[:2] == (201, 201)


async def test_two_budgets_of_a_pod_refuse(namespace: Namespace) -> None:
    first, *_ = await _run(namespace)
    await namespace.create(_budget(minAvailable=1))
    await namespace.create(_budget("other", minAvailable=1))
    await _becomes(namespace, (3, 3, 1, 2), SUFFICIENT)
    found = await _evict(namespace, first)
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert (found["http"], found["status"], found["code"], found["message"]) == (500, "Failure", 500, message)
    assert "reason" not in found
    assert "deletionTimestamp" not in (await namespace.get(PODS, first))["metadata"]


async def test_an_empty_selector_selects_every_pod_and_a_missing_one_none(namespace: Namespace) -> None:
    first, *_ = await _run(namespace)
    missing = _budget(minAvailable=3)
    del missing["spec"]["selector"]
    await namespace.create(missing)
    await _becomes(namespace, (0, 0, 3, 0), INSUFFICIENT)
    await namespace.delete(DISRUPTION_BUDGETS, "budget")
    await namespace.create({**missing, "spec": {"minAvailable": 3, "selector": {}}})
    await _becomes(namespace, (3, 3, 3, 0), INSUFFICIENT)
    assert _answer(await _evict(namespace, first))[0] == 429


async def test_a_pending_pod_goes_without_a_budget(namespace: Namespace) -> None:
    pod = objects.pod("waits", PodShape(gated=True, labels={"app": "web"}))
    pod["metadata"]["finalizers"] = ["scenario.dra/look"]
    await namespace.create(pod)
    await namespace.create(_budget(minAvailable=1))
    await _becomes(namespace, (1, 0, 1, 0), INSUFFICIENT)
    assert _answer(await _evict(namespace, "waits"))[:2] == (201, 201)
    evicted = await namespace.get(PODS, "waits")
    await namespace.patch(PODS, "waits", {"metadata": {"finalizers": None}})
    (condition,) = (each for each in evicted["status"]["conditions"] if each["type"] == "DisruptionTarget")
    told = (condition["status"], condition["reason"], condition["message"])
    assert told == ("True", "EvictionByEvictionAPI", "Eviction API: evicting")
    assert "deletionTimestamp" in evicted["metadata"]


async def test_the_policy_decides_about_a_pod_that_is_not_ready(namespace: Namespace) -> None:
    first, *_ = await _run(namespace)
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    await namespace.patch_status(PODS, first, unready, kind="strategic-merge-patch")
    await namespace.create(_budget(minAvailable=3))
    await _becomes(namespace, (3, 2, 3, 0), INSUFFICIENT)
    cause = "The disruption budget budget needs 3 healthy pods and has 2 currently"
    assert _answer(await _evict(namespace, first))[4] == (("DisruptionBudget", cause),)
    await namespace.patch(DISRUPTION_BUDGETS, "budget", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    await _becomes(namespace, (3, 2, 3, 0), INSUFFICIENT)
    assert _answer(await _evict(namespace, first))[:2] == (201, 201)
    assert "disruptedPods" not in (await namespace.get(DISRUPTION_BUDGETS, "budget"))["status"]


async def test_the_scale_of_a_job_is_unknown(namespace: Namespace) -> None:
    await namespace.create(objects.job("train", PodShape(labels={"app": "web"})))
    await steps.pods_run(namespace)
    (pod,) = await namespace.all(PODS)
    await namespace.create(_budget(maxUnavailable=1))
    why = "jobs.batch does not implement the scale subresource"
    failed = ("False", "SyncFailed", why)
    await eventually(
        lambda: _state(namespace), until=lambda seen: seen[:2] == ((0, 0, 0, 0), failed), saying="it fails"
    )
    found = await _evict(namespace, pod["metadata"]["name"])
    cause = "The disruption budget budget is still being processed by the server."
    assert _answer(found) == (429, 429, "TooManyRequests", VIOLATION, (("DisruptionBudget", cause),))
    assert found["details"]["retryAfterSeconds"] == 10


async def test_a_precondition_protects_another_pod_of_the_name(namespace: Namespace) -> None:
    first, *_ = await _run(namespace)
    uid = (await namespace.get(PODS, first))["metadata"]["uid"]
    found = await _evict(namespace, first, preconditions={"uid": "other"})
    why = f"the UID in the precondition (other) does not match the UID in record ({uid})"
    message = f'Operation cannot be fulfilled on Pod "{first}": {why}. The object might have been deleted and then'
    assert _answer(found)[:4] == (409, 409, "Conflict", f"{message} recreated")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"minAvailable": 1, "maxUnavailable": "50%"},
            'PodDisruptionBudget.policy "budget" is invalid: spec: Invalid value: {"MinAvailable":1,"Selector":'
            '{"matchLabels":{"app":"web"}},"MaxUnavailable":"50%","UnhealthyPodEvictionPolicy":null}: '
            "minAvailable and maxUnavailable cannot be both set",
            id="both",
        ),
        pytest.param(
            {"maxUnavailable": "101%"},
            'PodDisruptionBudget.policy "budget" is invalid: spec.maxUnavailable: Invalid value: "101%": '
            "must not be greater than 100%",
            id="more than all",
        ),
    ],
)
async def test_a_spec_that_makes_no_sense_is_refused(namespace: Namespace, spec: Json, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        await namespace.create(_budget(**spec))
    assert (refused.value.status, refused.value.answer["message"]) == (422, message)
