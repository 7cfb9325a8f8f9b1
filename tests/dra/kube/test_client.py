import json

import pytest

from dra.kube import errors
from dra.kube.client import LIST_BYTES_MAX, PAGE_BYTES_MAX, Selection
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


async def listed(transport, **options):
    pages = client_of(transport).list_pages(PODS, PartialObjectMetadata, **options)
    return [([each.metadata.name for each in got.items], got.first, got.resource_version) async for got in pages]


async def test_a_list_comes_in_pages():
    transport = Scripted(page(pod("a"), more="t1"), page(pod("b"), more="t2"), page(pod("c")))
    assert await listed(transport) == [(["a"], True, "10"), (["b"], False, "10"), (["c"], False, "10")]
    assert [request.query for request in transport.requests] == [
        {"limit": "500"},
        {"limit": "500", "continue": "t1"},
        {"limit": "500", "continue": "t2"},
    ]


async def test_a_selection_narrows_all_pages():
    transport = Scripted(page(more="t"), page())
    await listed(transport, selection=Selection(namespace="ml", fields="spec.nodeName=n1", labels="a=b"))
    for request in transport.requests:
        assert request.path == "/api/v1/namespaces/ml/pods"
        assert request.query["fieldSelector"] == "spec.nodeName=n1"
        assert request.query["labelSelector"] == "a=b"


async def test_a_list_that_expires_half_way_comes_again_in_one_piece():
    transport = Scripted(
        page(pod("a"), more="t"), refusal(410, "Expired"), page(pod("a"), pod("b"), pod("c"), version=20)
    )
    assert await listed(transport) == [(["a"], True, "10"), (["a", "b", "c"], True, "20")]
    assert transport.requests[-1].query == {}


def too_long(request):
    return errors.ResponseTooLarge(request.path, request.max_bytes)


async def test_a_page_that_is_too_long_is_asked_for_again_with_fewer_objects():
    transport = Scripted(page(pod("a"), more="t"), too_long, page(pod("b"), more="u"), page(pod("c")))
    assert await listed(transport) == [(["a"], True, "10"), (["b"], False, "10"), (["c"], False, "10")]
    asked = [(request.query["limit"], request.query.get("continue", "")) for request in transport.requests]
    assert asked == [("500", ""), ("500", "t"), ("7", "t"), ("28", "u")]
    assert {request.max_bytes for request in transport.requests} == {PAGE_BYTES_MAX}


async def test_an_object_that_is_longer_than_a_page_is_named():
    transport = Scripted(*[too_long] * 3, page(pod("fat"), more="t"), page(pod("b")))
    pages = [each async for each in client_of(transport).list_pages(PODS, PartialObjectMetadata)]
    assert [[each.name for each in found.unreadable] for found in pages] == [["fat"], []]
    assert pages[0].first
    assert pages[0].too_large[("ml", "fat")].startswith("too large: its 8192 KiB in JSON")
    assert [each.metadata.name for each in pages[1].items] == ["b"]
    assert "as=PartialObjectMetadataList" in transport.requests[3].accept
    assert [request.query["limit"] for request in transport.requests] == ["500", "7", "1", "1", "1"]


async def test_metadata_that_are_longer_than_a_page_are_an_error():
    with pytest.raises(errors.ResponseTooLarge, match=r"^pods: the response is longer than 8 MiB$"):
        await listed(Scripted(*[too_long] * 4))


def of_bytes(size, *, more):
    return page(pod("a", annotations={"a": "x" * size}), more=more)


async def test_pages_have_more_objects_again_once_objects_are_small():
    sizes = [PAGE_BYTES_MAX * 3 // 4, 100, 100, 100, 100]
    transport = Scripted(*[too_long] * 2, *(of_bytes(size, more=f"t{i}") for i, size in enumerate(sizes)), page())
    await listed(transport)
    assert [int(request.query["limit"]) for request in transport.requests] == [500, 7, 1, 1, 4, 16, 64, 256]


async def test_a_list_in_one_piece_that_is_too_long_is_an_error():
    transport = Scripted(page(pod("a"), more="t"), refusal(410, "Expired"), too_long)
    with pytest.raises(errors.ResponseTooLarge):
        await listed(transport)
    assert transport.requests[-1].max_bytes == LIST_BYTES_MAX


async def test_a_list_that_expires_at_once_is_an_error():
    with pytest.raises(errors.Expired):
        await listed(Scripted(refusal(410, "Expired")))


async def test_a_list_that_is_none_is_an_error():
    with pytest.raises(errors.UnreadableResponse, match=r"^pods: "):
        await listed(Scripted(Response(200, {}, json.dumps({"kind": "Pod"}).encode())))


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
