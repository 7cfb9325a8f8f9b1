"""The policies that translate requests in Koordinator's form (deploy/koordinator), on a real API server.

The engine and the policies are two forms of one table: here both get the same pods.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from typing import Any, Final

import aiohttp
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from dra.engine.translation.translated_pods import change_refusals, translate, translated_pod
from tests import seeds
from tests.cluster.kubectl import kubectl
from tests.cluster.versions import minor
from tests.dra.engine.translation.examples import QOS, RESOURCE_SPEC, container, gpus, lsr, pod
from tests.dra.engine.translation.strategies import pods
from tests.dra.engine.translation.test_aligned_requests import aligned
from tests.scenarios.api import AT_ONCE, Api, ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.koordinator import agreement
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import NAMESPACES, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

SAMPLE: Final = 400
MANY: Final = 5_000

GROUP: Final = "admissionregistration.k8s.io/v1"


def drawn(count: int, *, first: int) -> list[Json]:
    """Return pods that ask in Koordinator's form, rightly or wrongly."""
    found: list[Json] = []

    @seed(first)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
        deadline=None,
    )
    @given(each=pods())
    def collect(each: Json) -> None:
        found.append(each)

    collect()
    return found


async def compare(namespace: Namespace, generated: list[Json]) -> Counter[str]:
    """Give pods to the engine and to the policies; return how many had each outcome."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def both(each: Json) -> str:
        wanted = agreement.by_the_engine(each)
        async with turn:
            found = await agreement.by_the_policies(namespace.api, each, namespace=namespace.name)
        if found.invalid:  # the API server validates a pod between the policies that change and those that refuse
            assert wanted.refusals, f"{found.invalid}\nis translated by the engine: {json.dumps(each)}"
            return "invalid"
        assert found == wanted, json.dumps(each)
        return "refused" if wanted.refusals else "translated" if wanted.claims else "left alone"

    return Counter(await asyncio.gather(*map(both, generated)))


async def test_the_policies_and_the_engine_agree(place: Namespace, remark: Callable[[str], None]) -> None:
    first = seeds.first_seed()
    outcomes = await compare(place, drawn(SAMPLE, first=first))
    remark(f"translation: seed {first}: {dict(outcomes)}")
    assert outcomes["translated"] > SAMPLE / 5
    assert outcomes["refused"] > SAMPLE / 5


@pytest.mark.long
async def test_the_policies_and_the_engine_agree_on_thousands_of_pods(
    place: Namespace, remark: Callable[[str], None]
) -> None:
    first = seeds.first_seed()
    outcomes: Counter[str] = Counter()
    while outcomes.total() < MANY:  # in parts: hypothesis ends early when it has seen all that it can think of
        part = drawn(SAMPLE, first=first + outcomes.total())
        assert part
        outcomes += await compare(place, part)
    remark(f"translation: seed {first}: {dict(outcomes)}")


@pytest.mark.parametrize(
    "given_pod",
    [
        pytest.param(lsr("1", "2"), id="bound-cpus"),
        pytest.param(lsr("4", annotations={RESOURCE_SPEC: '{"preferredCPUBindPolicy":"SpreadByPCPUs"}'}), id="policy"),
        pytest.param(pod(gpus(gpu="50")), id="half-a-card"),
        pytest.param(pod({"name": "bare"}, gpus("b", gpu="200"), {"name": "c"}), id="containers-without-resources"),
        pytest.param({**lsr("1"), "metadata": {"name": "p", "labels": {QOS: "LSR"}}}, id="no-annotations"),
        pytest.param({**pod(gpus(gpu="50")), "metadata": {"name": "p"}}, id="neither-labels-nor-annotations"),
        pytest.param(
            lsr("1", resourceClaims=[{"name": "mine", "resourceClaimName": "mine"}]), id="a-pod-with-claims-of-its-own"
        ),
        pytest.param(pod(container("main", {"nvidia.com/gpu": "2"})), id="whole-cards-by-a-vendors-name"),
        pytest.param(
            lsr("500m", "1", resources={"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}), id="cpus-of-the-whole-pod"
        ),
        pytest.param(
            pod(gpus("c", memory="8Gi"), init=(gpus("a", memory="1Gi"), gpus("b", gpu="50"), gpus("d", gpu="20"))),
            id="init-containers-with-cards-of-others",
        ),
        pytest.param(
            aligned(pod(gpus("c", gpu="100"), init=(gpus("a", gpu="50"),))), id="aligned-with-an-init-container"
        ),
        pytest.param(
            pod(container("main", {"koordinator.sh/gpu": "0", "koordinator.sh/rdma": "0"})), id="amounts-of-0"
        ),
        pytest.param(
            lsr("4", annotations={RESOURCE_SPEC: '{"requiredCPUBindPolicy":"Default"}'}), id="default-policy-required"
        ),
    ],
)
async def test_examples(place: Namespace, given_pod: Json) -> None:
    wanted = agreement.by_the_engine(given_pod)
    assert wanted.refusals == ""
    assert await agreement.by_the_policies(place.api, given_pod, namespace=place.name) == wanted


@pytest.mark.parametrize("cpus", ["1", "250m"])
async def test_the_overhead_of_a_runtime_class_is_bound_as_well(place: Namespace, cpus: str) -> None:
    name, overhead = f"{place.name}-sandbox", {"cpu": cpus}
    made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "sandbox"}
    await place.create({**made, "overhead": {"podFixed": overhead}})
    wanted = agreement.by_the_engine(lsr("3", overhead=overhead))
    assert bool(wanted.refusals) == (cpus == "250m")
    asked = lsr("3", runtimeClassName=name)

    async def agrees() -> bool:  # the admission plugin has the class from a cache
        return await agreement.by_the_policies(place.api, asked, namespace=place.name) == wanted

    await eventually(agrees, saying="the policies and the engine agree")


async def test_a_refusal_is_no_server_error_and_names_the_field(place: Namespace) -> None:
    asked = pod(gpus(gpu="150"))
    del asked["spec"]["priority"]
    asked["spec"]["containers"][0]["image"] = "registry.example/image"
    with pytest.raises(ApiError, match=r"spec\.containers\[0\]\.resources\.limits\[koordinator\.sh/gpu\]") as refused:
        await place.create({"apiVersion": "v1", "kind": "Pod", **asked})
    assert refused.value.status == 422


async def test_only_labelled_namespaces_are_translated(place: Namespace, api: Api) -> None:
    await api.patch(NAMESPACES, place.name, {"metadata": {"labels": dict.fromkeys(agreement.LABEL)}})

    async def left_alone() -> bool:
        bound = await agreement.by_the_policies(api, lsr("1500m"), namespace=place.name)
        share = await agreement.by_the_policies(api, pod(gpus(gpu="50")), namespace=place.name)
        return not bound.refusals and not share.claims

    await eventually(left_alone, saying="a namespace without the label is left alone")


async def test_a_translated_pod_is_left_alone_when_it_is_created_again(place: Namespace) -> None:
    """As a PodMigrationJob's Reservation does, with a copy of the pod."""
    asked = lsr("2")
    asked["spec"]["containers"][0]["resources"]["limits"]["koordinator.sh/gpu"] = "50"
    asked["spec"]["containers"][0]["resources"]["requests"]["koordinator.sh/gpu"] = "50"
    made = translated_pod(asked, translate(asked).entries)
    found = await agreement.by_the_policies(place.api, made, namespace=place.name)
    assert found == agreement.by_the_engine(asked)


def _mutating(name: str, namespace: Namespace, expression: str, *, condition: str = "true") -> tuple[Json, Json]:
    """Return a policy that changes the pods of one namespace, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "condition", "expression": condition}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}}
    full_name = f"{name}.{namespace.name}"
    return (
        {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": full_name}, "spec": spec},
        {
            "apiVersion": GROUP,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": full_name},
            "spec": {"policyName": full_name, "matchResources": here},
        },
    )


@pytest.fixture
async def mutate(target: Target, place: Namespace) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Adds policies to the namespace, for the time of the test."""
    added: list[Json] = []

    async def add(name: str, expression: str, *, condition: str = "true") -> None:
        made = _mutating(name, place, expression, condition=condition)
        added.extend(made)
        await asyncio.to_thread(_kubectl, target, "apply", made)

    yield add
    if added:
        await asyncio.to_thread(_kubectl, target, "delete", added)


def _kubectl(target: Target, verb: str, objects: Any) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    kubectl(verb, "--filename=-", kubeconfig=target.admin, stdin=json.dumps(listed))


LABELLED: Final = "has(object.metadata.labels) && 'trap' in object.metadata.labels"
MENDED: Final = 37
"""Minor version of Kubernetes from which lists of objects can be values."""
TRAP: Final = {"trap": "true"}


async def test_trap_a_list_of_objects_as_a_value_panics_the_api_server_before_137(
    place: Namespace, mutate: Callable[..., Awaitable[None]]
) -> None:
    """The reason for which the policies add empty lists first."""
    value = "[Object.spec.tolerations{key: 'whole-list', operator: 'Exists'}]"
    await mutate("list", f"[JSONPatch{{op: 'add', path: '/spec/tolerations', value: {value}}}]", condition=LABELLED)
    asked = agreement.sent(pod(container(), labels=TRAP))

    async def outcome() -> str:
        try:
            made = await place.api.request("POST", PODS.path(namespace=place.name), asked, query={"dryRun": "All"})
        except aiohttp.ClientError:
            return "panic"
        return "applied" if "whole-list" in str(made["spec"]["tolerations"]) else ""

    panics = minor(kubernetes_version()) < MENDED
    assert await eventually(outcome, saying="the policy is in force") == ("panic" if panics else "applied")
    wanted = agreement.by_the_engine(pod(gpus(gpu="50")))
    assert await agreement.by_the_policies(place.api, pod(gpus(gpu="50")), namespace=place.name) == wanted


async def test_trap_a_policy_sees_its_own_result_and_ours_does_nothing_then(
    place: Namespace, mutate: Callable[..., Awaitable[None]]
) -> None:
    """A later policy changes the pod, so each earlier one is invoked again (``reinvocationPolicy: IfNeeded``)."""
    add_one = "[JSONPatch{op: 'add', path: '/spec/tolerations/-', value: Object.spec.tolerations{key: '%s'}}]"
    others = f"{LABELLED} && !object.spec.tolerations.exists(t, t.key == 'later')"
    await mutate("a-first", add_one % "first", condition=LABELLED)
    await mutate("z-later", add_one % "later", condition=others)
    asked = lsr("2", labels=TRAP, tolerations=[{"key": "given", "operator": "Exists"}])

    async def tolerations() -> list[str]:
        sent = agreement.sent(asked)
        made = await place.api.request("POST", PODS.path(namespace=place.name), sent, query={"dryRun": "All"})
        return [each["key"] for each in made["spec"]["tolerations"]]

    found = await eventually(
        tolerations, until=lambda keys: {"first", "later"} <= {*keys}, saying="both policies are in force"
    )
    assert found.count("first") > 1, "a policy without a condition on its own result does its work twice"
    assert await agreement.by_the_policies(place.api, asked, namespace=place.name) == agreement.by_the_engine(asked)


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        pytest.param({QOS: "LSE"}, f"metadata.labels[{QOS}]", id="qos-class"),
        pytest.param({QOS: None}, f"metadata.labels[{QOS}]", id="qos-class-taken-off"),
        pytest.param(
            {"koordinator.sh/priority-class": "koord-mid"},
            "metadata.labels[koordinator.sh/priority-class]",
            id="priority-class",
        ),
        pytest.param({"koordinator.sh/priority": "7"}, "metadata.labels[koordinator.sh/priority]", id="sub-priority"),
    ],
)
async def test_classes_are_immutable(place: Namespace, patch: Json, path: str) -> None:
    waits = {"schedulingGates": [{"name": "example.com/for-ever"}]}
    await place.create(agreement.sent(lsr("1", **waits)))
    await place.patch(
        PODS, "p", {"metadata": {"labels": {"other": "x", "koordinator.sh/priority-class": "koord-prod"}}}
    )
    with pytest.raises(ApiError) as refused:
        await place.patch(PODS, "p", {"metadata": {"labels": patch}})
    assert refused.value.status == 422
    assert f"{path}: field is immutable" in str(refused.value)


async def test_the_cpus_of_a_bound_pod_are_not_resized(place: Namespace) -> None:
    waits = {"schedulingGates": [{"name": "example.com/for-ever"}]}
    name = (await place.create(agreement.sent(lsr("2", **waits))))["metadata"]["name"]

    async def resize(cpus: str) -> str:
        amounts = {"cpu": cpus}
        body = {"spec": {"containers": [{"name": "c0", "resources": {"requests": amounts, "limits": amounts}}]}}
        path = PODS.path(namespace=place.name, name=name, subresource="resize")
        try:
            await place.api.request("PATCH", path, body, content_type="application/strategic-merge-patch+json")
        except ApiError as error:
            return str(error)
        return ""

    bound = translated_pod(lsr("2"), translate(lsr("2")).entries)
    larger = deepcopy(bound)
    larger["spec"]["containers"][0]["resources"] |= {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}
    wanted = "; ".join(map(str, change_refusals(bound, larger)))
    assert wanted
    assert wanted in await resize("4")
    assert "the CPUs of a Pod" not in await resize("2")
