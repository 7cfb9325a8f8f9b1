"""Profiles on a real API server: the policies of deploy/colocation-profiles and the stock scheduler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.cluster.kubectl import KubectlError, kubectl
from tests.dra.engine.profiles.examples import (
    BATCH_CPU,
    BATCH_MEMORY,
    ENABLED,
    MANIFESTS,
    QOS,
    SKIP,
    container,
    manifest,
    pod,
    profile,
)
from tests.scenarios.api import ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.profiles import agreement
from tests.scenarios.profiles.conftest import Place
from tests.scenarios.resources import NODES, PODS
from tests.scenarios.target import Capability, Mode

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

LABELS: Final = {"kind": "batch"}
BATCH: Final[Json] = {"qosClass": "BE", "priorityClassName": "koord-batch", "selector": {"matchLabels": LABELS}}
NOTHING: Final = "[JSONPatch{op: 'test', path: '/kind', value: 'Pod'}]"
GROUP: Final = "admissionregistration.k8s.io/v1"


@pytest.mark.parametrize("text", MANIFESTS, ids=["manual", "spark", "quick-start"])
async def test_manifests_of_koordinator_work_as_they_are(place: Place, text: str) -> None:
    given = manifest(text)
    labels = given["spec"]["selector"]["matchLabels"]
    profiles = await place.apply(given)
    plain = {"cpu": "1", "memory": "3456Mi"}
    asked = pod(container(requests=plain, limits=plain), labels=labels)
    made = await place.send(asked)
    amounts = {BATCH_CPU: "1k", BATCH_MEMORY: "3456Mi"}
    assert made["spec"]["containers"][0]["resources"] == {"requests": amounts, "limits": amounts}
    assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (5500, "koord-batch")
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert made["metadata"]["labels"][QOS] == "BE"
    assert made["status"]["qosClass"] == "BestEffort"
    wanted = agreement.by_the_engine(asked, profiles, namespace_labels=ENABLED)
    assert await agreement.by_the_policies(place.api, asked, namespace=place.namespace.name) == wanted


@pytest.fixture
async def batch_node(place: Place) -> AsyncIterator[str]:
    """The one node with batch resources."""
    name = "node-000"
    amounts: dict[str, str | None] = {BATCH_CPU: "10000", BATCH_MEMORY: "10Gi"}
    await place.api.patch(NODES, name, {"status": {"capacity": amounts, "allocatable": amounts}}, subresource="status")
    yield name
    gone: dict[str, str | None] = dict.fromkeys(amounts)
    await place.api.patch(NODES, name, {"status": {"capacity": gone, "allocatable": gone}}, subresource="status")


async def test_the_stock_scheduler_counts_batch_resources(place: Place, batch_node: str) -> None:
    """Vector 18: 570 milli-CPUs fit into 10000, 9600 more do not."""
    await place.apply(profile("be", **BATCH))
    anywhere: Json = {"tolerations": [{"operator": "Exists"}]}
    first = pod(
        container(requests={"cpu": "570m", "memory": "1Gi"}, limits={"cpu": "2", "memory": "2Gi"}),
        labels=LABELS,
        **anywhere,
    )
    made = await place.create(first)
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {BATCH_CPU: "570", BATCH_MEMORY: "1Gi"},
        "limits": {BATCH_CPU: "2k", BATCH_MEMORY: "2Gi"},
    }
    assert (made["spec"]["priority"], made["status"]["qosClass"]) == (5500, "BestEffort")

    async def bound() -> str:
        return str((await place.namespace.get(PODS, "p"))["spec"].get("nodeName", ""))

    assert await eventually(bound, saying="the first pod is bound") == batch_node
    second = pod(container(requests={"cpu": "9600m"}, limits={"cpu": "12"}), labels=LABELS, **anywhere)
    second["metadata"]["name"] = "q"
    await place.create(second)

    async def waits() -> str:
        conditions = (await place.namespace.get(PODS, "q"))["status"].get("conditions", [])
        return " ".join(each.get("message", "") for each in conditions)

    await eventually(waits, until=lambda text: f"Insufficient {BATCH_CPU}" in text, saying="the second pod waits")


async def test_the_last_profile_by_name_wins(place: Place) -> None:
    labels: Json = {"selector": {"matchLabels": LABELS}}
    await place.apply(
        profile("b", labels={"team": "b"}, **labels), profile("a", labels={"team": "a", "first": "a"}, **labels)
    )
    made = await place.send(pod(labels=LABELS))
    assert made["metadata"]["labels"] == {**LABELS, "team": "b", "first": "a"}


async def test_a_sidecar_that_another_policy_injects_is_translated_in_the_second_round(place: Place) -> None:
    await place.apply(profile("be", **BATCH))
    sidecar = "Object.spec.containers{name: 'sidecar', image: 'x', resources: Object.spec.containers.resources{"
    expression = (
        "object.spec.containers.exists(c, c.name == 'sidecar') ? [] "
        ": [JSONPatch{op: 'add', path: '/spec/containers/-', "
        f"value: {sidecar}requests: {{'cpu': '100m'}}}}}}}}]"
    )
    documents = _policy(place, "sidecar", expression)
    await asyncio.to_thread(_kubectl, place, "apply", documents)
    try:

        async def injected() -> Json | None:
            made = await place.send(pod(container(requests={"cpu": "1"}), labels=LABELS))
            return made if len(made["spec"]["containers"]) > 1 else None

        made = await eventually(injected, saying="the sidecar is injected")
    finally:
        await asyncio.to_thread(_kubectl, place, "delete", documents)
    assert made is not None
    requests = [each["resources"]["requests"] for each in made["spec"]["containers"]]
    assert requests == [{BATCH_CPU: "1k"}, {BATCH_CPU: "100"}]


async def test_a_batch_pod_with_plain_cpu_is_refused_with_the_name_of_its_container(place: Place) -> None:
    asked = pod(container(requests={BATCH_CPU: "500"}), container("sidecar", requests={"cpu": "1"}), labels={QOS: "BE"})
    with pytest.raises(ApiError, match="container sidecar: requests cpu or memory") as refused:
        await place.send(asked)
    assert refused.value.status == 422


async def test_an_amount_with_a_fraction_is_refused_with_the_right_one(place: Place) -> None:
    with pytest.raises(ApiError, match="counts milli-CPUs; write 200 for 200m"):
        await place.send(pod(container(requests={BATCH_CPU: "200m"}), labels={QOS: "BE"}))


async def test_a_profile_can_leave_resources_as_they_are(place: Place) -> None:
    await place.apply(profile("be", own_annotations={SKIP: "true"}, **BATCH))
    made = await place.send(pod(container(requests={"cpu": "1"}), labels=LABELS))
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert made["metadata"]["labels"][QOS] == "BE"


async def test_defaults_of_a_limit_range_come_back_and_are_taken_off_again(place: Place) -> None:
    """The API server runs LimitRanger once more after the policy, which would restore CPU where it was taken off."""
    await place.apply(profile("be", **BATCH))
    await place.namespace.create(_limit_range())

    async def defaulted() -> Json:
        found: Json = (await place.send(pod(container("plain"))))["spec"]["containers"][0]["resources"]
        return found

    await eventually(defaulted, until=lambda found: "cpu" in str(found), saying="the LimitRange is in force")
    made = await place.send(pod(container(requests={"cpu": "200m"}), labels=LABELS))
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {BATCH_CPU: "200", BATCH_MEMORY: "256Mi"},
        "limits": {BATCH_CPU: "500", BATCH_MEMORY: "512Mi"},
    }
    assert made["status"]["qosClass"] == "BestEffort"


async def test_a_refusal_that_a_limit_range_causes_names_it(place: Place) -> None:
    await place.namespace.create(_limit_range())
    asked = {**agreement.sent(pod(container(), labels={QOS: "BE"})), "metadata": {"name": "p", "labels": {QOS: "BE"}}}

    def refused() -> str:
        try:
            kubectl(
                "create",
                f"--namespace={place.namespace.name}",
                "--dry-run=server",
                "--filename=-",
                kubeconfig=place.target.admin,
                stdin=json.dumps(asked),
            )
        except KubectlError as error:
            return str(error)
        return ""

    async def told() -> str:
        return await asyncio.to_thread(refused)

    text = await eventually(told, until=lambda found: "LimitRange" in found, saying="the refusal names the LimitRange")
    assert "container main: requests cpu or memory" in text
    assert f"LimitRange batch-defaults of namespace {place.namespace.name} gives cpu or memory" in text


async def test_trap_no_policy_sees_the_write_of_a_policy(place: Place) -> None:
    """The reason for which no account of ours may write policies: nothing could limit what it writes."""
    name = f"trap.{place.namespace.name}"
    rule = {
        "apiGroups": ["admissionregistration.k8s.io", ""],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["mutatingadmissionpolicies", "configmaps"],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "ours", "expression": f"object.metadata.name.startsWith('{name}')"}],
        "validations": [{"expression": "false", "message": "refused by the trap"}],
    }
    guard = [
        {"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": GROUP,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]
    await asyncio.to_thread(_kubectl, place, "apply", guard)
    (policy, _) = _policy(place, "x", NOTHING)
    policy["metadata"]["name"] = f"{name}.written"
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}.refused"}}
    try:

        async def in_force() -> bool:
            path = f"/api/v1/namespaces/{place.namespace.name}/configmaps"
            try:
                await place.api.request("POST", path, config_map, query={"dryRun": "All"})
            except ApiError as error:
                return "refused by the trap" in str(error)
            return False

        await eventually(in_force, saying="the guard is in force")
        await place.api.request("POST", f"/apis/{GROUP}/mutatingadmissionpolicies", policy, query={"dryRun": "All"})
    finally:
        await asyncio.to_thread(_kubectl, place, "delete", guard)


def _limit_range() -> Json:
    amounts: dict[str, Any] = {
        "default": {"cpu": "500m", "memory": "512Mi"},
        "defaultRequest": {"cpu": "100m", "memory": "256Mi"},
    }
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "batch-defaults"},
        "spec": {"limits": [{"type": "Container", **amounts}]},
    }


def _policy(place: Place, name: str, expression: str) -> list[Json]:
    """Return a policy that changes the pods of the namespace, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    full_name = f"{name}.{place.namespace.name}"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace.name}}}
    return [
        {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": full_name}, "spec": spec},
        {
            "apiVersion": GROUP,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": full_name},
            "spec": {"policyName": full_name, "matchResources": here},
        },
    ]


def _kubectl(place: Place, verb: str, objects: list[Json]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl(verb, "--filename=-", kubeconfig=place.target.admin, stdin=json.dumps(listed))
