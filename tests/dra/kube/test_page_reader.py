"""Lists in pages, also where the next page is requested ahead."""

import asyncio
import json

import pytest

from dra.kube import errors
from dra.kube.page_reader import LIST_BYTES_MAX, PAGE_BYTES_MAX
from dra.kube.resources import PODS
from dra.kube.transport import Response
from dra.model.meta import PartialObjectMetadata
from tests.dra.kube.scripted import Scripted, client_of, page, pod, refusal


@pytest.fixture(params=[False, True], ids=["in-turn", "ahead"])
def pages_of(request):
    return lambda transport: client_of(transport).list_pages(PODS, PartialObjectMetadata, ahead=request.param)


@pytest.fixture
def listed(pages_of):
    async def read(transport):
        return [
            ([obj.metadata.name for obj in got.items], got.first, got.resource_version)
            async for got in pages_of(transport)
        ]

    return read


async def test_a_list_comes_in_pages(listed):
    transport = Scripted(page(pod("a"), more="t1"), page(pod("b"), more="t2"), page(pod("c")))
    assert await listed(transport) == [(["a"], True, "10"), (["b"], False, "10"), (["c"], False, "10")]
    assert [request.query for request in transport.requests] == [
        {"limit": "500"},
        {"limit": "500", "continue": "t1"},
        {"limit": "500", "continue": "t2"},
    ]


async def test_a_list_that_expires_half_way_comes_again_in_one_piece(listed):
    transport = Scripted(
        page(pod("a"), more="t"), refusal(410, "Expired"), page(pod("a"), pod("b"), pod("c"), version=20)
    )
    assert await listed(transport) == [(["a"], True, "10"), (["a", "b", "c"], True, "20")]
    assert transport.requests[-1].query == {}


def too_long(request):
    return errors.ResponseTooLarge(request.path, request.max_bytes)


async def test_a_page_that_is_too_long_is_asked_for_again_with_fewer_objects(listed):
    transport = Scripted(page(pod("a"), more="t"), too_long, page(pod("b"), more="u"), page(pod("c")))
    assert await listed(transport) == [(["a"], True, "10"), (["b"], False, "10"), (["c"], False, "10")]
    asked = [(request.query["limit"], request.query.get("continue", "")) for request in transport.requests]
    assert asked == [("500", ""), ("500", "t"), ("7", "t"), ("28", "u")]
    assert {request.max_bytes for request in transport.requests} == {PAGE_BYTES_MAX}


async def test_an_object_that_is_longer_than_a_page_is_named(pages_of):
    transport = Scripted(*[too_long] * 3, page(pod("fat"), more="t"), page(pod("b")))
    pages = [got async for got in pages_of(transport)]
    assert [[identity.name for identity in got.unreadable] for got in pages] == [["fat"], []]
    assert pages[0].first
    assert pages[0].too_large[("ml", "fat")].startswith("too large: its 8192 KiB in JSON")
    assert [obj.metadata.name for obj in pages[1].items] == ["b"]
    assert "as=PartialObjectMetadataList" in transport.requests[3].accept
    assert [request.query["limit"] for request in transport.requests] == ["500", "7", "1", "1", "1"]


async def test_metadata_that_are_longer_than_a_page_are_an_error(listed):
    with pytest.raises(errors.ResponseTooLarge, match=r"^pods: the response is longer than 8 MiB$"):
        await listed(Scripted(*[too_long] * 4))


def of_bytes(size, *, more):
    return page(pod("a", annotations={"a": "x" * size}), more=more)


async def test_pages_have_more_objects_again_once_objects_are_small(listed):
    sizes = [PAGE_BYTES_MAX * 3 // 4, 100, 100, 100, 100]
    transport = Scripted(*[too_long] * 2, *(of_bytes(size, more=f"t{i}") for i, size in enumerate(sizes)), page())
    await listed(transport)
    assert [int(request.query["limit"]) for request in transport.requests] == [500, 7, 1, 1, 4, 16, 64, 256]


async def test_a_list_in_one_piece_that_is_too_long_is_an_error(listed):
    transport = Scripted(page(pod("a"), more="t"), refusal(410, "Expired"), too_long)
    with pytest.raises(errors.ResponseTooLarge):
        await listed(transport)
    assert transport.requests[-1].max_bytes == LIST_BYTES_MAX


async def test_a_list_that_expires_at_once_is_an_error(listed):
    with pytest.raises(errors.Expired):
        await listed(Scripted(refusal(410, "Expired")))


async def test_a_list_that_is_none_is_an_error(listed):
    with pytest.raises(errors.UnreadableResponse, match=r"^pods: "):
        await listed(Scripted(Response(200, {}, json.dumps({"kind": "Pod"}).encode())))


async def test_a_page_is_requested_before_the_one_before_it_is_decoded():
    transport = Scripted(page(pod("a"), more="t"), page(pod("b")))
    requested = [
        len(transport.requests) async for _ in client_of(transport).list_pages(PODS, PartialObjectMetadata, ahead=True)
    ]
    assert requested == [2, 2]


async def test_a_reader_that_stops_leaves_no_request_behind():
    class Slow(Scripted):
        async def send(self, request):
            if "continue" in request.query:
                self._note(request)
                await asyncio.get_running_loop().create_future()
            return await super().send(request)

    transport = Slow(page(pod("a"), more="t"))
    pages = client_of(transport).list_pages(PODS, PartialObjectMetadata, ahead=True)
    assert [obj.metadata.name for obj in (await anext(pages)).items] == ["a"]
    await pages.aclose()
    assert len(transport.requests) == 2
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_objects_that_do_not_matter_are_left_out():
    transport = Scripted(page(pod("a"), pod("b"), more="t"), page(pod("c"), more="u"), page(pod("b-2")))
    client = client_of(transport)
    pages = client.list_pages(PODS, PartialObjectMetadata, may_matter=lambda raw: b'"b' in raw)
    names = [[obj.metadata.name for obj in got.items] async for got in pages]
    assert names == [["b"], [], ["b-2"]]
