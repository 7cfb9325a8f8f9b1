"""OpenAPI documents: which there are, what they say, when they change."""

import json

import pytest

from dra.kube.transport import JSON, Request
from localplane import openapi_v2_protobuf
from localplane.server import ApiServer
from tests.localplane.recorded import EXCHANGES

REFERENCE = "#/components/schemas/"


@pytest.fixture
def server():
    return ApiServer()


async def ask(server, path, *, accept=JSON, method="GET", body=None):
    raw = None if body is None else json.dumps(body).encode()
    return await server.handle(Request(method=method, path=path, accept=accept, body=raw, timeout=5))


async def document(server, place):
    return json.loads((await ask(server, f"/openapi/v3/{place}")).body)


async def index(server):
    return json.loads((await ask(server, "/openapi/v3")).body)["paths"]


async def test_the_index_names_a_document_for_each_group_and_version(server):
    for place, entry in (await index(server)).items():
        path, _, query = entry["serverRelativeURL"].partition("?")
        assert path == f"/openapi/v3/{place}"
        assert query.startswith("hash=")
        assert (await ask(server, path)).status == 200
    assert {"api/v1", "apis/apps/v1", "apis/resource.k8s.io/v1"} <= set(await index(server))


async def test_every_reference_leads_to_a_schema(server):
    for place in await index(server):
        text = (await ask(server, f"/openapi/v3/{place}")).body.decode()
        schemas = json.loads(text)["components"]["schemas"]
        referred = {part.partition('"')[0] for part in text.split(REFERENCE)[1:]}
        assert referred <= set(schemas)


async def test_schemas_have_what_patches_need_and_texts_and_nothing_of_ours(server):
    schemas = (await document(server, "api/v1"))["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]

    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["description"].startswith("List of containers")
    assert "x-go" not in json.dumps(schemas)


async def test_a_patch_says_that_it_knows_dry_runs_and_validation_and_which_formats(server):
    paths = (await document(server, "apis/resource.k8s.io/v1"))["paths"]
    patch = paths["/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"]["patch"]

    assert {"dryRun", "fieldValidation"} <= {each["name"] for each in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "ResourceClaim"


async def test_a_definition_adds_a_document_which_changes_with_it(server):
    exchange = EXCHANGES["make-crd"]
    definition = json.loads(exchange.raw)
    await ask(server, exchange.path, method="POST", body=definition)
    before = (await index(server))["apis/example.com/v1"]
    schema = (await document(server, "apis/example.com/v1"))["components"]["schemas"]["com.example.v1.R"]

    assert schema["properties"]["spec"]["properties"]["gpus"] == {"type": "integer"}
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "R"}]

    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["more"] = {"type": "string"}
    path = f"{exchange.path}/rs.example.com"
    found = json.loads((await ask(server, path)).body)
    answer = await ask(server, path, method="PUT", body=found | {"spec": found["spec"] | definition["spec"]})
    assert answer.status == 200, answer.body

    assert (await index(server))["apis/example.com/v1"] != before
    assert "more" in (await ask(server, "/openapi/v3/apis/example.com/v1")).body.decode()


@pytest.mark.parametrize(
    ("path", "accept", "status"),
    [
        pytest.param("/openapi/v3/apis/nope/v1", JSON, 404, id="no-such-group"),
        pytest.param("/openapi/v2/api/v1", JSON, 404, id="no-part-of-the-old-form"),
        pytest.param("/openapi/v3/api/v1", "application/x-protobuf", 406, id="protobuf"),
    ],
)
async def test_what_there_is_not(server, path, accept, status):
    assert (await ask(server, path, accept=accept)).status == status


@pytest.mark.parametrize("accept", [JSON, *openapi_v2_protobuf.ACCEPTED_MEDIA_TYPES])
async def test_the_old_form_is_made_once_for_each_media_type(server, accept):
    first, second = [await ask(server, "/openapi/v2", accept=accept) for _ in range(2)]

    assert first.headers["content-type"] == (JSON if accept == JSON else openapi_v2_protobuf.MEDIA_TYPE)
    assert first.body is second.body


async def test_every_reference_of_the_old_form_leads_to_a_definition(server):
    text = (await ask(server, "/openapi/v2")).body.decode()

    referred = {part.partition('"')[0] for part in text.split('"$ref":"#/definitions/')[1:]}
    assert "io.k8s.api.core.v1.PodSpec" in referred
    assert referred <= set(json.loads(text)["definitions"])
