"""The server of the page answers the user with the link, and nobody else."""

import asyncio
import threading

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from dra.cli.page import page_server
from dra.cli.page.access import HEADERS, AccessRules
from dra.cli.page.assets import load_assets
from dra.cli.page.cluster_feed import FeedClosedError, bundle_feed
from dra.cli.page.page_server import KeyGate, PageServer
from dra.cli.page.sessions import PageSession
from dra.cli.page.views import COLUMNS, Patch
from tests.dra.cli.page.test_page_tables import NOW
from tests.dra.engine.diagnosis.cluster_states import claim, entry, pod, snapshot

SECRET = "k" * 43
KEY = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
async def feed():
    taken = snapshot(
        claim("train", "n1/gpu-0", listed=(entry("a"),)),
        claim("<img src=x onerror=alert(1)>"),
        pods=(pod("a", "train", on="n1", phase="Running", started=True),),
    )
    async with bundle_feed(taken, now=NOW) as found:
        async with asyncio.timeout(30):
            while not found.stream.is_ready:  # noqa: ASYNC110 - a flag
                await asyncio.sleep(0)
        yield found


@pytest.fixture
async def client(feed):
    hosts = set()
    gate = KeyGate(feed, lambda: AccessRules(hosts=frozenset(hosts), secret=SECRET))
    server = PageServer(gate, assets=load_assets())
    async with TestClient(TestServer(server.application())) as found:
        hosts.add(f"{found.host}:{found.port}")
        yield found


async def read_event(response):
    """Return the next event of a stream, without comments."""
    while True:
        lines = []
        while (line := (await response.content.readline()).decode().rstrip("\n")) != "":
            lines.append(line)
        if not lines[0].startswith(":"):
            return dict(each.split(": ", 1) for each in lines)


@pytest.mark.parametrize("view", COLUMNS)
async def test_every_view_has_rows(client, view):
    async with client.get(f"/api/rows?view={view}", headers=KEY) as response:
        answer = await response.json()
    assert response.status == 200
    assert answer["ready"]
    assert all(len(row) == len(answer["columns"]) for row in answer["rows"])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/api/rows?view=secrets", 400, id="unknown-view"),
        pytest.param("/api/rows", 400, id="no-view"),
        pytest.param("/api/events?views=secrets", 400, id="unknown-views"),
        pytest.param("/api/object?kind=secret&name=x", 400, id="unknown-kind"),
        pytest.param("/api/object?kind=claim", 400, id="no-name"),
        pytest.param("/assets/0123/main.mjs", 404, id="another-version"),
        pytest.param("/assets/0123/../../../etc/passwd", 404, id="a-path-out-of-the-folder"),
        pytest.param("/metrics", 404, id="unknown-path"),
    ],
)
async def test_wrong_requests_are_refused_with_the_same_headers(client, path, status):
    async with client.get(path, headers=KEY) as response:
        assert response.status == status
        assert {name: response.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("path", ["/api/rows?view=claims", "/api/object?kind=claim&name=x", "/api/events?views=claims"])
async def test_a_defect_is_a_response_with_the_same_headers_and_a_line_of_the_log(client, path, monkeypatch, caplog):
    monkeypatch.setattr(KeyGate, "admit", lambda *_: 1 // 0)
    async with client.get(path, headers=KEY) as response:
        assert (response.status, "ZeroDivision" in await response.text()) == (500, False)
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "path", ["/api/rows?view=claims", "/api/object?kind=claim&name=x", "/api/events?views=claims", "/api/idle"]
)
async def test_data_needs_the_key(client, path):
    async with client.get(path) as response:
        assert response.status == 401
        assert "train" not in await response.text()


async def test_a_bundle_has_no_history(client):
    async with client.get("/api/idle", headers=KEY) as response:
        assert (response.status, await response.text()) == (404, "a bundle is of one moment: it has no history")


@pytest.mark.parametrize(
    ("limited_to", "namespaces"), [("", None), ("ml", {"ml"})], ids=["everything", "a-user-of-one-namespace"]
)
async def test_the_history_is_that_of_the_namespaces_that_are_shown(limited_to, namespaces):
    taken = msgspec.structs.replace(snapshot(claim("train")), namespace=limited_to or None)
    async with bundle_feed(taken, now=NOW) as limited:
        assert await PageSession(limited).namespaces() == namespaces
        limited.close()
        with pytest.raises(FeedClosedError):
            await PageSession(limited).namespaces()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/api/rows", "/api/object", "/api/events", "/api/idle"])
async def test_nothing_can_be_written(client, method, path):
    async with client.request(method, path, headers=KEY) as response:
        assert response.status == 405


async def test_the_page_itself_says_nothing_about_the_cluster(client):
    async with client.get("/") as response:
        text = await response.text()
    assert response.status == 200
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "train" not in text
    path = text.partition('src="')[2].partition('"')[0]
    async with client.get(f"/{path}") as response:
        assert (response.status, response.content_type) == (200, "text/javascript")
        assert "immutable" in response.headers["Cache-Control"]


async def test_an_object_has_the_lines_of_explain(client):
    async with client.get("/api/object?kind=claim&namespace=ml&name=train", headers=KEY) as response:
        answer = await response.json()
    assert answer["title"] == "claim ml/train: has 1 device, used by 1 pod"
    assert ["pods", "1 started, 0 starting, 0 waiting, 0 gated, 0 finished"] in answer["lines"]
    assert answer["links"]["pods"] == ["ml/a"]


async def test_no_object_is_called_missing_before_the_first_rows(client, feed, monkeypatch):
    feed.stream.ready.clear()
    path = "/api/object?kind=claim&namespace=ml&name=train"
    with monkeypatch.context() as patched:
        patched.setattr(page_server, "FIRST_ROWS_TIMEOUT", 0.0)
        async with client.get(path, headers=KEY) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "2")
    asking = asyncio.ensure_future(client.get(path, headers=KEY))
    await asyncio.sleep(0)
    feed.stream.set_ready()
    async with await asking as response:
        assert (await response.json())["lines"]


@pytest.mark.parametrize("when", ["before-the-question", "before-the-answer"])
async def test_a_feed_that_is_dropped_during_a_request_is_no_defect(client, feed, when):
    if when == "before-the-question":
        feed.close()
    else:
        busy, free = threading.Event(), threading.Event()
        feed.queue(lambda: (busy.set(), free.wait(30)))
        assert await asyncio.to_thread(busy.wait, 30)
        _close_after_a_question(feed)
    async with client.get("/api/object?kind=claim&namespace=ml&name=train", headers=KEY) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "2")
    if when == "before-the-answer":
        free.set()


def _close_after_a_question(feed):
    ask = feed.ask

    async def asked(question):
        asyncio.get_running_loop().call_soon(feed.close)
        return await ask(question)

    feed.ask = asked


async def test_a_missing_object_has_no_lines(client):
    async with client.get("/api/object?kind=pod&namespace=ml&name=nobody", headers=KEY) as response:
        assert (response.status, (await response.json())["lines"]) == (200, [])


async def test_a_stream_continues_where_the_client_stopped(client, feed):
    last = feed.stream.event_id
    feed.stream.publish([Patch("claims", changed={"ml/b": ("b",)})])
    async with client.get("/api/events?views=claims", headers={**KEY, "Last-Event-ID": last}) as response:
        assert response.content_type == "text/event-stream"
        missed = await read_event(response)
        feed.stream.publish([Patch("claims", gone={"ml/b"})])
        live = await read_event(response)
    assert missed["event"] == "patch"
    assert msgspec.json.decode(missed["data"]) == [{"view": "claims", "set": [["ml/b", "b"]], "gone": []}]
    assert msgspec.json.decode(live["data"]) == [{"view": "claims", "set": [], "gone": ["ml/b"]}]
    assert live["id"] == feed.stream.event_id


async def test_a_client_of_an_earlier_process_is_told_to_fetch_the_rows(client):
    async with client.get("/api/events?views=claims", headers={**KEY, "Last-Event-ID": "old-7"}) as response:
        assert (await read_event(response))["event"] == "reset"


async def test_a_silent_stream_is_kept_open_by_pings(client, feed, monkeypatch):
    monkeypatch.setattr(page_server, "PING_INTERVAL", 0.01)
    headers = {**KEY, "Last-Event-ID": feed.stream.event_id}
    async with client.get("/api/events?views=claims", headers=headers) as response:
        assert await response.content.readline() == b": ping\n"


async def test_a_client_that_leaves_is_forgotten(client, feed):
    headers = {**KEY, "Last-Event-ID": feed.stream.event_id}
    async with client.get("/api/events?views=claims", headers=headers) as response:
        assert (response.status, len(feed.stream._subscribers)) == (200, 1)
        feed.stream.publish([Patch("claims", changed={"x": ("x",)})])
        await read_event(response)
    async with asyncio.timeout(10):
        while feed.stream._subscribers:
            feed.stream.publish([Patch("claims", changed={"x": ("y",)}), Patch("claims", gone={"x"})])
            await asyncio.sleep(0.01)


async def test_a_client_that_does_not_read_is_disconnected(client, feed, monkeypatch):
    monkeypatch.setattr(page_server, "WRITE_TIMEOUT", 0.05)
    monkeypatch.setattr(page_server, "SEND_INTERVAL", 0.0)
    big = "x" * 100_000
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(
        f"GET /api/events?views=claims HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
        f"Authorization: Bearer {SECRET}\r\nLast-Event-ID: {feed.stream.event_id}\r\n\r\n".encode()
    )
    async with asyncio.timeout(30):
        while not feed.stream._subscribers:  # noqa: ASYNC110 - a number
            await asyncio.sleep(0)
        number = 0
        while feed.stream._subscribers:
            number += 1
            feed.stream.publish([Patch("claims", changed={f"ml/{number % 50}": (big, str(number))})])
            await asyncio.sleep(0.001)
    writer.close()
    del reader


async def test_too_many_streams_are_refused(client, monkeypatch):
    monkeypatch.setattr("dra.cli.page.patch_stream.SUBSCRIBERS_MAX", 0)
    async with client.get("/api/events?views=claims", headers=KEY) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "30")
