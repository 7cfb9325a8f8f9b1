"""What the server says that it has."""

import json

import pytest

from dra.kube.transport import Request
from localplane.discovery import AGGREGATED_DISCOVERY_MEDIA_TYPE, kube_aware_version_key
from localplane.kinds import storage_only
from localplane.kinds.storage_only import NOT_ENFORCED
from localplane.server import ApiServer


async def get(path, accept="application/json", **query):
    answer = await ApiServer().handle(Request(method="GET", path=path, accept=accept, query=query, timeout=1))
    return answer, json.loads(answer.body)


async def test_old_clients_find_groups_one_by_one():
    assert (await get("/api"))[1]["versions"] == ["v1"]
    groups = [group["name"] for group in (await get("/apis"))[1]["groups"]]
    assert groups == sorted(groups)
    assert "resource.k8s.io" in groups
    resources = (await get("/apis/resource.k8s.io/v1"))[1]["resources"]
    rules, claims = ("devicetaintrules", "devicetaintrules/status"), ("resourceclaims", "resourceclaims/status")
    assert [each["name"] for each in resources][:5] == ["deviceclasses", *rules, *claims]


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_new_clients_find_everything_at_once(path):
    accept = f"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,{'application/json'}"
    answer, body = await get(path, accept)

    assert answer.headers["content-type"] == AGGREGATED_DISCOVERY_MEDIA_TYPE
    assert all(resource["verbs"] for group in body["items"] for resource in group["versions"][0]["resources"])


@pytest.mark.parametrize("path", ["/apis/nope/v1", "/apis/nope", "/nope", "/", "/api/v2"])
async def test_other_paths_are_not_found(path):
    answer = await ApiServer().handle(Request(method="GET", path=path, timeout=1))

    assert (answer.status, answer.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/apis/batch/v1/nothing", "/api/v1/namespaces/ml/configmaps/settings/scale"]
)
async def test_paths_below_a_version_are_not_found_as_resources(path):
    answer, body = await get(path)

    assert (answer.status, body["reason"]) == (404, "NotFound")
    assert body["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward"])
async def test_access_to_containers_is_refused_by_name(subresource):
    answer, body = await get(f"/api/v1/namespaces/ml/pods/a/{subresource}")

    assert (answer.status, body["reason"]) == (404, "NotFound")
    assert body["message"].startswith(f"pods/{subresource} is not served: a local plane has no kubelets")


def test_versions_are_ranked_by_stability_then_number():
    names = ["v1alpha1", "foo", "v1", "v2beta1", "v2", "v1beta2", "v11", "v1alpha2"]

    assert sorted(names, key=kube_aware_version_key) == [
        "v11",
        "v2",
        "v1",
        "v2beta1",
        "v1beta2",
        "v1alpha2",
        "v1alpha1",
        "foo",
    ]


async def test_readyz_says_what_is_not_enforced():
    server = ApiServer()
    server.not_enforced.append("gravity")
    answer = await server.handle(Request(method="GET", path="/readyz", query={"verbose": ""}, timeout=1))

    assert "[ ]not enforced: gravity\n" in answer.body.decode()


async def test_readyz_says_it_of_every_kind_that_is_only_stored():
    served = {name for kind in ApiServer().catalog for name in (kind.group_resource, kind.group)}
    answer = await ApiServer().handle(Request(method="GET", path="/readyz", query={"verbose": ""}, timeout=1))

    assert set(NOT_ENFORCED) <= served
    for each in storage_only.KINDS:
        told = {each.group_resource, each.group} & set(NOT_ENFORCED)
        assert told
        assert all(f"[ ]not enforced: {name}: " in answer.body.decode() for name in told)
