"""The account of ``dra-reserve colocation-profiles``, stolen: what its token cannot do on a real API server.

The account has no right on policies: Kubernetes subjects them to no admission, so whoever may write them may change any
object. What it writes is data, which the schema of ColocationProfileParameters limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from dra.cli import profile_policies
from tests.cluster import kubeconfig
from tests.dra.engine.profiles.examples import pod, profile
from tests.scenarios import accounts
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.profiles import agreement
from tests.scenarios.profiles.conftest import Place
from tests.scenarios.resources import COLOCATION_PARAMETERS, COLOCATION_PROFILES
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

FORBIDDEN: Final = 403
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
PARAMETERS: Final = COLOCATION_PARAMETERS.path()
APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/main"


@pytest.fixture
async def thief(place: Place, target: Target) -> AsyncIterator[Api]:
    """A client with the token of the account."""
    path = await asyncio.to_thread(
        kubeconfig.for_service_account,
        target.folder.path / f"{place.namespace.name}-thief.kubeconfig",
        admin=target.admin,
        namespace="dra-reserve",
        name="dra-reserve-profiles",
    )
    async with accounts.acting(path, place.namespace) as client:
        yield client


def policy(name: str, *, resource: str = "pods", expression: str = "[]") -> Json:
    """Return a policy that a thief would write."""
    made = profile_policies.documents()[0]
    made["metadata"]["name"] = name
    (rule,) = made["spec"]["matchConstraints"]["resourceRules"]
    rule["resources"] = [resource]
    made["spec"]["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]
    return made


def binding(policy_name: str) -> Json:
    made = profile_policies.documents()[1]
    made["metadata"]["name"] = "profile-stolen.reserve.dra"
    made["spec"]["policyName"] = policy_name
    return made


IMAGE: Final = "[JSONPatch{op: 'replace', path: '/spec/containers/0/image', value: 'evil'}]"
MUTATING: Final = f"{POLICIES}/mutatingadmissionpolicies"
BINDINGS: Final = f"{POLICIES}/mutatingadmissionpolicybindings"
GUARDS: Final = f"{POLICIES}/validatingadmissionpolicies"

REQUESTS: Final[tuple[Any, ...]] = (
    pytest.param("POST", MUTATING, policy("profile-stolen.reserve.dra"), id="a-policy-of-the-generated-form"),
    pytest.param("POST", MUTATING, policy("x", expression=IMAGE), id="a-policy-that-sets-an-image"),
    pytest.param("POST", MUTATING, policy("x", resource="secrets"), id="a-policy-on-secrets"),
    pytest.param("POST", BINDINGS, binding("profiles.reserve.dra"), id="a-second-binding-without-selectors"),
    pytest.param("POST", BINDINGS, binding("gate.reserve.dra"), id="a-binding-of-a-foreign-policy"),
    pytest.param("DELETE", f"{MUTATING}/profiles.reserve.dra", None, id="the-policy-deleted"),
    pytest.param("PUT", f"{MUTATING}/profiles.reserve.dra", policy("profiles.reserve.dra"), id="the-policy-replaced"),
    pytest.param("DELETE", f"{GUARDS}/batch-pods.reserve.dra", None, id="the-guard-deleted"),
    pytest.param("DELETE", f"{PARAMETERS}/profiles", None, id="the-parameters-deleted"),
    pytest.param(
        "POST",
        PARAMETERS,
        {"apiVersion": "reserve.dra/v1alpha1", "kind": "ColocationProfileParameters", "metadata": {"name": "other"}},
        id="other-parameters",
    ),
    pytest.param("POST", COLOCATION_PROFILES.path(), profile("stolen", qosClass="BE"), id="a-profile"),
    pytest.param("GET", "/api/v1/secrets", None, id="secrets-read"),
    pytest.param("GET", "/api/v1/pods", None, id="pods-read"),
    pytest.param("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/koord-batch", None, id="a-class-deleted"),
)


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
async def test_requests_that_are_forbidden(thief: Api, method: str, path: str, body: Json | None) -> None:
    with pytest.raises(ApiError) as refused:
        await thief.request(method, path, body)
    assert refused.value.status == FORBIDDEN, refused.value


async def test_no_pod_of_any_namespace_can_be_made(thief: Api, place: Place) -> None:
    with pytest.raises(ApiError) as refused:
        await agreement.send(thief, pod(), namespace=place.namespace.name)
    assert refused.value.status == FORBIDDEN


async def write(thief: Api, *profiles: Json, name: str = "profiles") -> Json:
    """Write parameters as the account does."""
    content = {
        "apiVersion": "reserve.dra/v1alpha1",
        "kind": "ColocationProfileParameters",
        "metadata": {"name": name},
        "spec": {"profiles": list(profiles)},
    }
    return await thief.patch(COLOCATION_PARAMETERS, name, content, kind="apply-patch")


@pytest.mark.parametrize(
    "stolen",
    [
        pytest.param({"annotations": [{"key": APPARMOR, "value": "unconfined"}]}, id="an-annotation-of-kubernetes"),
        pytest.param({"labels": [{"key": "reserve.dra/claim", "value": "x"}]}, id="a-label-of-dra-reserve"),
        pytest.param({"annotations": [{"key": "x.reserve.dra/a", "value": "x"}]}, id="a-subdomain-of-dra-reserve"),
        pytest.param({"annotations": [{"key": "kubernetes.io/config.mirror", "value": "x"}]}, id="a-mirror-pod"),
        pytest.param(
            {"labelCopies": [{"source": "a", "target": "pod-security.kubernetes.io/enforce"}]},
            id="a-copy-to-kubernetes",
        ),
        pytest.param({"priorityClassName": "system-node-critical"}, id="a-class-of-the-system"),
        pytest.param({"labels": [{"key": "a/../../spec/hostPID", "value": "x"}]}, id="a-path-in-a-key"),
        pytest.param({"labels": [{"key": "a~1b", "value": "x"}]}, id="an-escaped-path-in-a-key"),
        pytest.param({"labels": [{"key": "a", "value": "'}] + ['"}]}, id="quotes-in-a-label"),
        pytest.param({"schedulerName": "'}, JSONPatch{op: 'remove'"}, id="quotes-in-a-scheduler"),
        pytest.param({"terminationGracePeriodSeconds": -1}, id="a-negative-grace-period"),
        pytest.param({"annotations": [{"key": "a", "value": "x" * 1025}]}, id="a-long-annotation"),
        pytest.param({"hostPID": True}, id="another-field"),
        pytest.param({"containers": [{"image": "evil"}]}, id="an-image"),
    ],
)
async def test_parameters_that_the_schema_refuses(thief: Api, stolen: Json) -> None:
    with pytest.raises(ApiError) as refused:
        await write(thief, {"name": "stolen", **stolen})
    assert refused.value.status in {400, 422, 500}, refused.value  # 500: a field that the schema does not declare


async def test_parameters_of_another_name_and_too_many_profiles(thief: Api) -> None:
    with pytest.raises(ApiError) as refused:
        await write(thief, name="other")
    assert refused.value.status == FORBIDDEN
    with pytest.raises(ApiError) as refused:
        await write(thief, *({"name": f"p{number}"} for number in range(65)))
    assert refused.value.status == 422


async def test_the_text_of_an_expression_stays_text(thief: Api, place: Place) -> None:
    text = "'}] + [JSONPatch{op: 'add', path: '/spec/hostPID', value: true}] + [{'x': '\n"
    await write(thief, {"name": "stolen", "annotations": [{"key": "a", "value": text}]})

    async def written() -> Json | None:
        made = await place.send(pod())
        return made if (made["metadata"].get("annotations") or {}).get("a") else None

    made = await eventually(written, saying="the parameters are in force")
    assert made is not None
    assert made["metadata"]["annotations"]["a"] == text
    assert "hostPID" not in made["spec"]
    assert made["spec"]["containers"][0]["image"] == "registry.example/image"


async def test_a_status_changes_no_profile(thief: Api, place: Place) -> None:
    name = f"p-{place.namespace.name}"
    await place.namespace.create(profile(name, qosClass="BE", selector={"matchLabels": {"a": name}}))
    stolen = {"spec": {"qosClass": "LSE", "selector": {}}, "status": {"conditions": []}}
    await thief.patch(COLOCATION_PROFILES, name, stolen, subresource="status")
    found = await place.api.get(COLOCATION_PROFILES, name)
    assert found["spec"] == {"qosClass": "BE", "selector": {"matchLabels": {"a": name}}}
    with pytest.raises(ApiError) as refused:
        await thief.patch(COLOCATION_PROFILES, name, {"spec": {"qosClass": "LSE"}})
    assert refused.value.status == FORBIDDEN
