"""What differs by the version of Kubernetes that a plane behaves as."""

import json

import pytest

from dra.kube.transport import JSON, Request
from dra.model.releases import NEWEST, Release, nearest_release
from localplane.kinds.resource_slices import ResourceSliceStrategy
from localplane.server import ApiServer

GROUP = "/apis/resource.k8s.io/v1"
RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {}, "taint": {"key": "service", "effect": "NoSchedule"}},
}


def both(old, new):
    """One case for each release."""
    return pytest.mark.parametrize(
        ("release", "expected"),
        [
            pytest.param(Release.V1_36, old, id="1.36"),
            pytest.param(Release.V1_37, new, id="1.37"),
            pytest.param(Release.V1_38, new.replace("1.37", "1.38") if isinstance(new, str) else new, id="1.38"),
        ],
    )


async def ask(server, path, *, method="GET", body=None, **query):
    raw = None if body is None else json.dumps(body).encode()
    request = Request(method=method, path=path, query=query, body=raw, content_type=JSON, timeout=1)
    answer = await server.handle(request)
    return answer.status, json.loads(answer.body)


@both("v1.36.0+dra-reserve", "v1.37.0+dra-reserve")
async def test_the_server_says_its_version(release, expected):
    _, version = await ask(ApiServer(release=release), "/version")
    assert version["gitVersion"] == expected
    assert f"{version['major']}.{version['minor']}" == release


@both(404, 200)
async def test_device_taint_rules_are_served_without_a_gate(release, expected):
    status, _ = await ask(ApiServer(release=release), f"{GROUP}/devicetaintrules")
    assert status == expected


@both(400, 200)
async def test_slices_can_be_selected_by_their_pool(release, expected):
    status, _ = await ask(ApiServer(release=release), f"{GROUP}/resourceslices", fieldSelector="spec.pool.name=n1")
    assert status == expected


async def test_a_rule_is_never_updated_without_a_resource_version():
    server = ApiServer()
    _, made = await ask(server, f"{GROUP}/devicetaintrules", method="POST", body=RULE)
    status, refusal = await ask(server, f"{GROUP}/devicetaintrules/r", method="PUT", body=RULE)
    assert (status, refusal["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    status, _ = await ask(server, f"{GROUP}/devicetaintrules/r", method="PUT", body=made)
    assert status == 200


async def test_the_openapi_document_has_the_rules():
    _, document = await ask(ApiServer(), "/openapi/v3/apis/resource.k8s.io/v1")
    assert f"{GROUP}/devicetaintrules/{{name}}/status" in document["paths"]
    selector = document["components"]["schemas"]["io.k8s.api.resource.v1.DeviceTaintSelector"]
    assert set(selector["properties"]) == {"driver", "pool", "device"}


def sliced(**device):
    """Return a ResourceSlice whose only device may have a place of its own."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "pool": pool, "devices": [{"name": "gpu", **device}]}
    where = {"perDeviceNodeSelection": True} if "nodeSelector" in device else {"nodeName": "n1"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec | where,
    }


TERM = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
LONG = f"1.{'9' * 19}.0"


@pytest.mark.parametrize(
    ("device", "told"),
    [
        pytest.param({"attributes": {"a/b/c": {"int": 1}}}, "must not contain more than one slash", id="attribute"),
        pytest.param({"capacity": {"a/b/c": {"value": "1"}}}, "must not contain more than one slash", id="capacity"),
        pytest.param({"attributes": {"x": {"version": LONG}}}, "with at most 18 digits in numbers", id="version"),
        pytest.param(
            {"nodeSelector": {"nodeSelectorTerms": [TERM, TERM]}},
            "must have exactly one node selector term",
            id="terms",
        ),
    ],
)
async def test_odd_devices_are_refused_since_1_38_once_they_change(device, told):
    status, _ = await ask(
        ApiServer(release=Release.V1_37), f"{GROUP}/resourceslices", method="POST", body=sliced(**device)
    )
    assert status == 201
    server = ApiServer(release=Release.V1_38)
    status, refusal = await ask(server, f"{GROUP}/resourceslices", method="POST", body=sliced(**device))
    assert (status, told in refusal["message"]) == (422, True), refusal


@pytest.mark.parametrize(("number", "refused"), [(1, True), (0, False)], ids=["changed", "as-they-are"])
def test_stored_devices_stay_as_they_are(number, refused):
    strategy = ResourceSliceStrategy(by_pool=True, stricter=True)
    stored = sliced(attributes={"a/b/c": {"int": 0}})
    new = sliced(attributes={"a/b/c": {"int": number}})
    new["spec"]["pool"] = {"name": "p", "generation": 2, "resourceSliceCount": 1}
    assert bool(strategy.validate_update(new, stored)) is refused


@pytest.mark.parametrize(
    ("version", "release"),
    [
        pytest.param("v1.34.4", Release.V1_36, id="older-than-all"),
        pytest.param("v1.36.3", Release.V1_36, id="1.36"),
        pytest.param("v1.37.2-eks-abc", Release.V1_37, id="1.37-of-a-vendor"),
        pytest.param("v1.38.0-beta.0", Release.V1_38, id="1.38-before-its-release"),
        pytest.param("v1.99.0", Release.V1_38, id="newer-than-all"),
        pytest.param("", NEWEST, id="unknown"),
        pytest.param("v2.0.0", NEWEST, id="another-major-version"),
    ],
)
def test_a_server_is_played_by_the_release_that_is_nearest(version, release):
    assert nearest_release(version) is release
