"""The outermost layer, over real sockets."""

import asyncio
import base64
import contextlib
import io
import json
import ssl
import stat
from dataclasses import replace

import aiohttp
import pytest

from localplane.https_server import MAX_BODY_BYTES, serve_https
from localplane.server import ApiServer


@pytest.fixture
async def endpoint(tmp_path):
    async with serve_https(ApiServer().handle, folder=tmp_path) as endpoint:
        yield endpoint


@pytest.fixture
async def http(endpoint):
    cluster = json.loads(endpoint.kubeconfig.read_text())["clusters"][0]["cluster"]
    tls = ssl.create_default_context(cadata=_pem(cluster["certificate-authority-data"]))
    headers = {"Authorization": f"Bearer {endpoint.token}"}
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(endpoint.url, connector=connector, headers=headers, trust_env=False) as session:
        yield session


def _pem(data):
    return base64.b64decode(data).decode()


async def test_the_kubeconfig_is_the_owners_alone_and_names_the_server(endpoint):
    assert stat.S_IMODE(endpoint.kubeconfig.stat().st_mode) == 0o600
    config = json.loads(endpoint.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == endpoint.url
    assert config["users"][0]["user"]["token"] == endpoint.token


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer nope"}, {"Authorization": ""}], ids=["wrong", "empty"])
async def test_who_has_not_the_token_gets_401(http, headers):
    async with http.get("/api", headers=headers) as answer:
        assert answer.status == 401
        assert (await answer.json())["reason"] == "Unauthorized"


async def test_anybody_may_ask_how_the_server_is(http, endpoint):
    async with aiohttp.ClientSession(endpoint.url, connector=http.connector, connector_owner=False) as anonymous:
        async with anonymous.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        async with anonymous.get("/api") as answer:
            assert answer.status == 401


async def test_an_object_goes_in_and_a_watch_tells_of_it(http):
    config_map = {"metadata": {"name": "a"}, "data": {"x": "y"}}
    path = "/api/v1/namespaces/default/configmaps"
    async with http.get(path, params={"watch": "true"}) as watch:
        async with http.post(path, json=config_map) as answer:
            assert answer.status == 201
        line = json.loads(await watch.content.readline())
    assert (line["type"], line["object"]["data"]) == ("ADDED", {"x": "y"})


async def test_a_body_that_is_too_large_is_refused(http):
    async with http.post(
        "/api/v1/namespaces/default/configmaps", data=io.BytesIO(b" " * (MAX_BODY_BYTES + 1))
    ) as answer:
        assert answer.status == 413
        assert (await answer.json())["message"] == "Request entity too large: limit is 3145728"


async def test_a_client_that_goes_ends_its_watch(tmp_path):
    server, ended = ApiServer(), asyncio.Event()

    async def handle(request):
        answer = await server.handle(request)
        if request.query.get("watch"):
            answer = type(answer)(_noticed(answer.blocks, ended))
        return answer

    async with serve_https(handle, folder=tmp_path) as endpoint:
        connector = aiohttp.TCPConnector(ssl=False)
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        async with (
            aiohttp.ClientSession(endpoint.url, connector=connector, headers=headers) as session,
            session.get("/api/v1/namespaces", params={"watch": "true"}) as watch,
        ):
            await watch.content.readline()
        await asyncio.wait_for(ended.wait(), 5)


async def _noticed(blocks, ended):
    try:
        async for block in blocks:
            yield block
    finally:
        ended.set()


async def test_a_fault_of_ours_is_a_status_and_the_server_lives_on(tmp_path, caplog):
    async def handle(request):
        raise ZeroDivisionError(request.path)

    async with serve_https(handle, folder=tmp_path) as endpoint:
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        async with aiohttp.ClientSession(endpoint.url, connector=aiohttp.TCPConnector(ssl=False)) as session:
            for _ in range(2):
                async with session.get("/x", headers=headers) as answer:
                    assert (answer.status, (await answer.json())["reason"]) == (500, "InternalError")
    assert "ZeroDivisionError" in caplog.text


async def _connected(endpoint, request):
    """Return a connection on which a request has been sent and nothing is read yet."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    host, port = endpoint.url.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls, limit=1024)
    writer.write(request.replace(b"TOKEN", endpoint.token.encode()))
    await writer.drain()
    return reader, writer


WATCH = b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n"


async def test_a_reader_that_does_not_read_loses_its_watch_and_costs_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("localplane.https_server.WRITE_TIMEOUT", 0.2)
    server, ended, taken = ApiServer(), asyncio.Event(), []

    async def handle(request):
        answer = await server.handle(request)
        return replace(answer, blocks=_counted(answer.blocks, taken, ended)) if request.query.get("watch") else answer

    async with serve_https(handle, folder=tmp_path) as endpoint, _session(endpoint) as session:
        _, writer = await _connected(endpoint, WATCH)
        for index in range(40):
            body = {"metadata": {"name": f"m{index}"}, "data": {"x": "y" * 500_000}}
            async with session.post("/api/v1/namespaces/default/configmaps", json=body) as answer:
                assert answer.status == 201
        await asyncio.wait_for(ended.wait(), 10)
        assert sum(taken) < 15_000_000  # what the sockets of the system hold, and one block
        writer.transport.abort()
        async with session.get("/readyz") as answer:
            assert answer.status == 200


async def _counted(blocks, taken, ended):
    try:
        async for block in blocks:
            taken.append(len(block))
            yield block
    finally:
        ended.set()


@contextlib.asynccontextmanager
async def _session(endpoint):
    headers = {"Authorization": f"Bearer {endpoint.token}"}
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(endpoint.url, connector=connector, headers=headers, trust_env=False) as session:
        yield session


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"", id="silence"),
        pytest.param(b"GET /api HT", id="half-a-line"),
        pytest.param(b"GET /api HTTP/1.1\r\nHost: x\r\nX-", id="half-a-header"),
        pytest.param(
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n"
            b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
            id="half-a-body",
        ),
        pytest.param(b"\x00\xff\r\n\r\n", id="noise"),
        pytest.param(b"GET LONG HTTP/1.1\r\n\r\n", id="endless-line"),
        pytest.param(b"POST /api HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", id="no-chunk"),
    ],
)
async def test_what_is_no_request_harms_nobody(tmp_path, request_):
    async with serve_https(ApiServer().handle, folder=tmp_path) as endpoint, _session(endpoint) as session:
        _, writer = await _connected(endpoint, request_.replace(b"LONG", b"/x" * 600_000))
        async with session.get("/api/v1/namespaces/default") as answer:
            assert answer.status == 200
        writer.transport.abort()


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("localplane.https_server.BODY_TIMEOUT", 0.1)
    async with serve_https(ApiServer().handle, folder=tmp_path) as endpoint:
        head = (
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 9\r\n\r\n"
        )
        reader, writer = await _connected(endpoint, head)
        assert b" 400 " in await asyncio.wait_for(reader.readline(), 5)
        writer.transport.abort()
