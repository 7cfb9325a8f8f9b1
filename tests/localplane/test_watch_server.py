"""Watches: what is told, in which order, in which shape, and when they end."""

import asyncio
import json

import pytest

from localplane.kinds.kind import Kind, Strategy
from tests.localplane.api_client import MAPS, ApiClient, told

VIRTUAL_TIME = True

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
async def api():
    return ApiClient()


async def test_without_a_revision_a_watch_begins_with_what_is_there(api):
    await api.map("a")
    for query in ({}, {"resourceVersion": "0"}):
        assert told(await api.events(MAPS, timeoutSeconds="1", **query))[-1] == ("ADDED", "a")


async def test_from_a_revision_on_a_watch_tells_what_happened_since(api):
    since = str(api.server.store.revision)
    await api.map("a")
    await api.patch(f"{MAPS}/a", {"data": {"x": "y"}})
    await api.ok("DELETE", f"{MAPS}/a")

    events = await api.events(MAPS, resourceVersion=since, timeoutSeconds="1")
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert revisions == sorted(set(revisions))
    assert events[-1]["object"]["data"] == {"x": "y"}


async def test_initial_events_end_with_a_bookmark_that_says_so(api):
    await api.map("a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    events = await api.events(MAPS, timeoutSeconds="1", **query)

    assert told(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    assert events[-1]["object"]["metadata"] == {
        "resourceVersion": str(api.server.store.revision),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


async def test_no_initial_events_begin_now(api):
    await api.map("a")
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    assert await api.events(MAPS, timeoutSeconds="1", **query) == []


async def test_bookmarks_come_every_minute_and_shortly_before_the_end(api):
    query = {"resourceVersion": str(api.server.store.revision), "allowWatchBookmarks": "true"}
    blocks, times = await api.watch(MAPS, timeoutSeconds="150", **query), []
    async for block in blocks:
        assert json.loads(block)["type"] == "BOOKMARK"
        times.append(round(asyncio.get_running_loop().time()))

    assert times == [60, 120, 148]


async def test_a_bookmark_tells_the_revision_of_the_whole_server(api):
    query = {"resourceVersion": str(api.server.store.revision), "allowWatchBookmarks": "true"}
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    [bookmark] = await api.events(MAPS, timeoutSeconds="5", **query)

    assert bookmark["object"]["metadata"]["resourceVersion"] == str(api.server.store.revision)


async def test_a_watch_that_says_no_time_ends_within_an_hour(api):
    assert await api.events("/api/v1/secrets") == []
    assert 1800 <= asyncio.get_running_loop().time() <= 3600


async def test_a_revision_that_is_forgotten_is_an_error_in_the_stream(api):
    api.server.store._event_capacity = 1
    for name in "abcd":
        await api.map(name)
    [error] = await api.events(MAPS, resourceVersion="2")

    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert error["object"]["message"].startswith("too old resource version: 2 (")


async def test_objects_come_into_a_selection_and_leave_it(api):
    since = str(api.server.store.revision)
    await api.map("a")
    await api.patch(f"{MAPS}/a", {"metadata": {"labels": {"in": "1"}}})
    await api.patch(f"{MAPS}/a", {"data": {"x": "y"}})
    last = await api.patch(f"{MAPS}/a", {"metadata": {"labels": {"in": None}}})
    await api.ok("DELETE", f"{MAPS}/a")
    events = await api.events(MAPS, resourceVersion=since, labelSelector="in", timeoutSeconds="1")

    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    gone = events[-1]["object"]["metadata"]
    assert (gone["labels"], gone["resourceVersion"]) == ({"in": "1"}, last["metadata"]["resourceVersion"])


async def test_fields_select_too(api):
    class Placed(Strategy):
        def selectable_fields(self, obj):
            return {"spec.node": obj["spec"].get("node", "")}

    api.serve(Kind(group="x.example.com", plural="things", name="Thing", strategy=Placed(), is_custom=True))
    path = "/apis/x.example.com/v1/namespaces/default/things"
    since = str(api.server.store.revision)
    about = {"apiVersion": "x.example.com/v1", "kind": "Thing"}
    await api.ok("POST", path, about | {"metadata": {"name": "a"}, "spec": {}})
    await api.patch(f"{path}/a", {"spec": {"node": "n1"}})

    found = await api.events(path, resourceVersion=since, fieldSelector="spec.node=n1", timeoutSeconds="1")
    assert told(found) == [("ADDED", "a")]


async def test_only_the_first_table_names_the_columns(api):
    await api.map("a")
    await api.map("b")
    tables = [
        e["object"] for e in await api.events(MAPS, accept=TABLE, timeoutSeconds="1", fieldSelector="metadata.name!=z")
    ]

    assert [bool(table["columnDefinitions"]) for table in tables] == [True, False]
    assert [table["rows"][0]["cells"][0] for table in tables] == ["a", "b"]


async def test_the_metadata_alone_can_be_watched(api):
    await api.map("a", data={"x": "y"})
    [event] = await api.events(MAPS, accept=METADATA, timeoutSeconds="1")

    assert event["object"].keys() == {"kind", "apiVersion", "metadata"}
    assert event["object"]["kind"] == "PartialObjectMetadata"


async def test_garbage_for_a_revision_is_refused_before_the_watch_begins(api):
    assert await api.refused("GET", MAPS, watch="1", resourceVersion="abc") == (
        422,
        (
            'configmaps "" is invalid: resourceVersion: Invalid value: "abc": '
            'strconv.ParseUint: parsing "abc": invalid syntax'
        ),
    )


async def test_a_reader_that_is_slow_gets_what_it_missed(api):
    since = str(api.server.store.revision)
    blocks = await api.watch(MAPS, resourceVersion=since, timeoutSeconds="5")
    await api.map("first")
    assert b'"first"' in await anext(blocks)
    for index in range(600):
        await api.map(f"m{index}")

    sizes = [block.count(b"\n") async for block in blocks]
    assert (sum(sizes), max(sizes)) == (600, 256)
