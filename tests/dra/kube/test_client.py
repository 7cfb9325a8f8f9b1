import json

import pytest

from dra.kube import errors
from dra.kube.client import Selection
from dra.kube.resources import CLAIMS, PODS
from dra.kube.transport import Response
from dra.model.claims import ResourceClaim
from dra.model.meta import PartialObjectMetadata, Struct
from tests.dra.kube.scripted import Scripted, body_of, client_of, ok, page, pod, refusal

KEY = ("ml", "a")


class Anything(Struct, frozen=True):
    """Decodes from any object."""


async def patched(transport, body=None, **options):
    body = {"metadata": {"labels": {"a": "b"}}} if body is None else body
    return await client_of(transport).merge_patch(PODS, KEY, body, model=PartialObjectMetadata, **options)


async def test_get_reads_consistently():
    transport = Scripted(ok(pod("a")))
    got = await client_of(transport).get(PODS, KEY, PartialObjectMetadata)
    assert got.metadata.key == KEY
    (request,) = transport.requests
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/ml/pods/a")
    assert "resourceVersion" not in request.query


async def test_a_merge_patch_says_so_and_returns_the_new_state():
    transport = Scripted(ok(pod("a", version=7)))
    assert (await patched(transport)).metadata.resource_version == "7"
    (request,) = transport.requests
    assert (request.method, request.content_type) == ("PATCH", "application/merge-patch+json")
    assert body_of(request) == {"metadata": {"labels": {"a": "b"}}}
    assert request.query == {}


async def test_a_json_patch_is_a_list_of_operations():
    transport = Scripted(ok({"metadata": {"name": "x", "namespace": "ns", "uid": "u"}}))
    operations = [{"op": "test", "path": "/metadata/uid", "value": "u"}]
    await client_of(transport).json_patch(CLAIMS, ("ns", "x"), operations, model=ResourceClaim, subresource="status")
    (request,) = transport.requests
    assert (request.method, request.path.rpartition("/")[2]) == ("PATCH", "status")
    assert (request.content_type, json.loads(request.body)) == ("application/json-patch+json", operations)


async def test_a_strategic_patch_says_so():
    transport = Scripted(ok(pod("a")))
    await patched(transport, {"status": {"conditions": []}}, strategic=True, subresource="status", uid="u")
    (request,) = transport.requests
    assert request.content_type == "application/strategic-merge-patch+json"
    assert body_of(request) == {"status": {"conditions": []}, "metadata": {"uid": "u"}}


async def test_preconditions_are_part_of_the_patch():
    transport = Scripted(ok(pod("a")))
    body = {"metadata": {"labels": {}}}
    await patched(transport, body, resource_version="5", uid="u", subresource="status", dry_run=True)
    (request,) = transport.requests
    assert request.path.endswith("/pods/a/status")
    assert request.query == {"dryRun": "All"}
    assert body_of(request) == {"metadata": {"labels": {}, "resourceVersion": "5", "uid": "u"}}
    assert body == {"metadata": {"labels": {}}}  # the caller's own is left alone


async def test_a_patch_without_metadata_gets_some_for_its_precondition():
    transport = Scripted(ok(pod("a")))
    await patched(transport, {"status": {}}, resource_version="5")
    assert body_of(transport.requests[0]) == {"status": {}, "metadata": {"resourceVersion": "5"}}


async def test_another_object_under_the_name_is_a_conflict():
    # as recorded from 1.36.3: a uid that differs is "an immutable field"
    immutable = refusal(422, "Invalid", causes=[{"reason": "FieldValueInvalid", "field": "metadata.uid"}])
    with pytest.raises(errors.Conflict, match=r"^Pod ml/a: the object with uid u was deleted"):
        await patched(Scripted(immutable), uid="u")


async def test_what_else_is_invalid_stays_invalid():
    with pytest.raises(errors.Invalid):
        await patched(Scripted(refusal(422, "Invalid", causes=[{"field": "spec"}])), uid="u")


async def test_the_time_of_a_write_can_be_bounded():
    transport = Scripted(ok(pod("a")))
    await patched(transport, timeout_seconds=1.5)
    assert transport.requests[0].timeout == 1.5


async def test_an_answer_that_is_something_else_is_told_from_a_failure():
    with pytest.raises(errors.UnreadableResponse, match=r"^Pod ml/a: the response cannot be decoded"):
        await patched(Scripted(Response(200, {}, b"<html>please log in")))


async def test_create_fills_in_the_kind():
    transport = Scripted(ok(pod("a"), status=201))
    await client_of(transport).create(CLAIMS, {"metadata": {"name": "a"}}, model=PartialObjectMetadata, namespace="ml")
    (request,) = transport.requests
    assert (request.method, request.path) == ("POST", "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims")
    assert body_of(request) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a"},
    }


async def test_create_posts_to_subresources_of_another_kind():
    transport = Scripted(ok({}))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    await client_of(transport).create(PODS, eviction, model=Anything, namespace="ml", name="a", subresource="eviction")
    (request,) = transport.requests
    assert request.path == "/api/v1/namespaces/ml/pods/a/eviction"
    assert body_of(request) == eviction


@pytest.mark.parametrize(
    ("metadata", "text"),
    [({"name": "a"}, "Pod ml/a: taken"), ({"generateName": "a-"}, "Pod ml/(new): taken")],
)
async def test_a_creation_that_fails_names_the_object(metadata, text):
    transport = Scripted(refusal(409, "AlreadyExists", "taken"))
    with pytest.raises(errors.AlreadyExists) as caught:
        await client_of(transport).create(PODS, {"metadata": metadata}, model=PartialObjectMetadata, namespace="ml")
    assert str(caught.value) == text


async def test_delete_means_the_object_and_not_its_name():
    transport = Scripted(ok({"kind": "Status", "status": "Success"}))
    await client_of(transport).delete(PODS, KEY, uid="u")
    (request,) = transport.requests
    assert request.method == "DELETE"
    assert body_of(request)["preconditions"] == {"uid": "u"}


async def test_the_version_is_that_of_the_server():
    got = await client_of(Scripted(ok({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}))).version()
    assert (got.major, got.minor, got.git_version) == ("1", "36", "v1.36.3")


async def test_a_selection_narrows_all_pages():
    transport = Scripted(page(more="t"), page())
    selection = Selection(namespace="ml", fields="spec.nodeName=n1", labels="a=b")
    assert [got.items async for got in client_of(transport).list_pages(PODS, Anything, selection=selection)] == [[], []]
    for request in transport.requests:
        assert request.path == "/api/v1/namespaces/ml/pods"
        assert request.query["fieldSelector"] == "spec.nodeName=n1"
        assert request.query["labelSelector"] == "a=b"


async def test_a_watch_asks_for_bookmarks_and_an_end():
    transport = Scripted(streams=[[b"{}\n"]])
    opened = client_of(transport).watch(
        PODS, PartialObjectMetadata, resource_version="5", seconds=300, selection=Selection(labels="a=b")
    )
    async with opened as blocks:
        assert [block async for block in blocks] == [b"{}\n"]
    (request,) = transport.requests
    assert request.query == {
        "labelSelector": "a=b",
        "watch": "true",
        "resourceVersion": "5",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
    }
    assert "as=PartialObjectMetadata;" in request.accept


async def test_a_path_of_no_object_can_be_read():
    transport = Scripted(ok({"major": "1"}))
    await client_of(transport).read("/apis/ray.io", Anything)
    assert transport.requests[0].path == "/apis/ray.io"
