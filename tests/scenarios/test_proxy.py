"""What each fault looks like to the client, and what the server has seen of it: the harness is able to fail."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.cluster.ports import LOOPBACK
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import WRITES, Call, Fault, Faults, Kind
from tests.scenarios.proxy import HALF_A_FRAME, TOUCHED, Proxy

CLAIM = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/train"
PODS = "/api/v1/namespaces/ml/pods"
FRAME = b'{"type":"ADDED","object":{}}\n'


class Server:
    """Notes what it gets; a watch shows one event and goes on for ever."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.frames = (FRAME,)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append((request.method, request.path, json.loads(body) if body else None))
        self.queries.append(dict(request.query))
        assert request.headers["Authorization"] == "Bearer t0"
        if request.query.get("watch") != "true":
            return web.json_response({"by": "server"})
        answer = web.StreamResponse()
        await answer.prepare(request)
        for frame in self.frames:
            await answer.write(frame)
        await asyncio.Event().wait()
        return answer


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def proxy(server: Server, tmp_path: Path) -> AsyncIterator[Proxy]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    host, port = runner.addresses[0][:2]
    way = tmp_path / "way"
    clusters = [{"cluster": {"server": f"http://{host}:{port}"}}]
    way.write_text(json.dumps({"clusters": clusters, "users": [{"user": {"token": "t0"}}]}))
    async with Proxy(way, admin=way) as made:
        yield made
    await runner.cleanup()


async def test_a_request_without_credentials_gets_those_of_the_way(proxy: Proxy, server: Server) -> None:
    async with aiohttp.ClientSession(proxy.url, trust_env=False) as session, session.get(CLAIM) as answer:
        assert answer.status == 200, "the server takes no other"
    assert server.asked


@pytest.fixture
async def client(proxy: Proxy) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": "Bearer t0"}
    async with aiohttp.ClientSession(proxy.url, headers=headers, trust_env=False) as session:
        yield session


async def patch(client: aiohttp.ClientSession) -> tuple[int, Any]:
    async with client.patch(f"{CLAIM}/status", json={"status": {}}) as answer:
        return answer.status, await answer.json()


async def watched(client: aiohttp.ClientSession) -> bytes:
    async with client.get(PODS, params={"watch": "true"}) as answer:
        found = b""
        try:
            async for chunk in answer.content.iter_any():
                found += chunk
        except aiohttp.ClientError:
            return found + b"BROKEN"
        return found


async def test_without_faults_it_only_passes_on(proxy: Proxy, client: aiohttp.ClientSession, server: Server) -> None:
    assert await patch(client) == (200, {"by": "server"})
    assert server.asked == [("PATCH", f"{CLAIM}/status", {"status": {}})]
    (exchange,) = proxy.exchanges
    assert (exchange.call.verb, exchange.call.resource, exchange.answer) == ("patch", "resourceclaims/status", 200)


async def test_an_overloaded_server_does_nothing(proxy: Proxy, client: aiohttp.ClientSession, server: Server) -> None:
    proxy.inject(Fault(kind=Kind.OVERLOAD, seconds=2))
    async with client.patch(CLAIM, json={}) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "2")
        assert (await answer.json())["reason"] == "TooManyRequests"
    assert not server.asked


async def test_a_lost_answer_is_that_of_a_write_that_was_done(
    proxy: Proxy, client: aiohttp.ClientSession, server: Server
) -> None:
    proxy.inject(Fault(kind=Kind.LOST_ANSWER, verbs=WRITES))
    status, found = await patch(client)
    assert (status, found["reason"]) == (500, "InternalError")
    assert len(server.asked) == 1
    assert proxy.exchanges[0].answer == 200


async def test_another_write_causes_the_conflict(proxy: Proxy, client: aiohttp.ClientSession, server: Server) -> None:
    proxy.inject(Fault(kind=Kind.CONFLICT, verbs=WRITES, path="resourceclaims"))
    assert (await patch(client))[0] == 200  # a real server would say 409
    (_, touched, annotations), (_, path, _) = server.asked
    assert (touched, path) == (CLAIM, f"{CLAIM}/status")
    assert list(annotations["metadata"]["annotations"]) == [TOUCHED]


async def test_late_events_come_in_order_and_each_after_its_time(
    proxy: Proxy, client: aiohttp.ClientSession, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.frames = (b'{"n":1}\n', b'{"n":2}\n{"n":3', b"}\n")
    delays = iter([0.3, 0.0, 0.0])
    monkeypatch.setattr(proxy.faults, "delay", lambda fault: next(delays) * fault.seconds)
    proxy.inject(Fault(kind=Kind.LATE, seconds=1.0))
    began, found = time.monotonic(), b""
    async with client.get(PODS, params={"watch": "true"}) as answer:
        while found.count(b"\n") < 3:
            found += await answer.content.readany()
            assert time.monotonic() - began >= 0.3
    assert found == b'{"n":1}\n{"n":2}\n{"n":3}\n'


async def test_what_is_held_arrives_when_its_client_is_long_gone(
    proxy: Proxy, client: aiohttp.ClientSession, server: Server
) -> None:
    proxy.inject(Fault(kind=Kind.HELD, body="status"))
    under_way = asyncio.create_task(patch(client))
    await eventually(lambda: proxy.faults.met[Kind.HELD] == 1, saying="it is under way")
    under_way.cancel()
    await asyncio.gather(under_way, return_exceptions=True)
    await client.close()
    assert not server.asked
    (held,) = proxy.let_go()
    await eventually(lambda: held.answer == 200, saying="it has arrived")
    assert proxy.let_go() == []


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        pytest.param(Fault(kind=Kind.CUT, seconds=0.05), FRAME + HALF_A_FRAME + b"BROKEN", id="cut"),
        pytest.param(Fault(kind=Kind.ENDED, seconds=0.05), FRAME, id="ended"),
    ],
)
async def test_watches_end(proxy: Proxy, client: aiohttp.ClientSession, fault: Fault, seen: bytes) -> None:
    proxy.inject(fault)
    assert await watched(client) == seen


async def test_a_watch_that_comes_too_late_is_told_so_in_an_event(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    proxy.inject(Fault(kind=Kind.EXPIRED))
    event = json.loads(await watched(client))
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_new_faults_are_met_by_watches_that_are_open(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    watching = asyncio.create_task(watched(client))
    await eventually(lambda: bool(proxy._watches), saying="the watch is open")
    proxy.inject(Fault(kind=Kind.OVERLOAD))
    assert (await watching).endswith(b"BROKEN")


async def test_further_pages_of_a_list_may_come_too_late(
    proxy: Proxy, client: aiohttp.ClientSession, server: Server
) -> None:
    proxy.inject(Fault(kind=Kind.EXPIRED))
    async with client.get(PODS, params={"limit": "500"}) as answer:
        assert answer.status == 200
    assert server.queries == [{"limit": "20"}]
    async with client.get(PODS, params={"limit": "500", "continue": "token"}) as answer:
        assert answer.status == 410
    async with client.get(PODS) as answer:
        assert answer.status == 200
    assert server.queries[1:] == [{}]


async def test_nothing_comes_through_while_the_line_is_frozen(
    proxy: Proxy, client: aiohttp.ClientSession, server: Server
) -> None:
    proxy.freeze()
    under_way = asyncio.create_task(patch(client))
    await eventually(lambda: len(proxy.exchanges) == 1, saying="it is under way")
    assert not server.asked
    proxy.thaw()
    assert (await under_way)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "resource", "name"),
    [
        pytest.param("GET", PODS, {}, "list", "pods", "", id="list"),
        pytest.param("GET", "/api/v1/nodes", {"watch": "true"}, "watch", "nodes", "", id="watch"),
        pytest.param("GET", CLAIM, {}, "get", "resourceclaims", "train", id="get"),
        pytest.param("PATCH", f"{CLAIM}/status", {}, "patch", "resourceclaims/status", "train", id="subresource"),
        pytest.param("POST", PODS, {}, "create", "pods", "", id="create"),
        pytest.param("GET", "/version", {}, "get", "-", "", id="no-object"),
        pytest.param("GET", "/apis/batch/v1", {}, "get", "-", "", id="discovery"),
    ],
)
def test_requests_are_read_as_the_api_does(
    method: str, path: str, query: dict[str, str], verb: str, resource: str, name: str
) -> None:
    call = Call.of(method, path, query=query)
    assert (call.verb, call.resource, call.name) == (verb, resource, name)


def test_one_seed_draws_the_same_again_and_a_number_of_times_is_kept() -> None:
    call = Call.of("GET", PODS, query={})
    fault = Fault(kind=Kind.OVERLOAD, share=0.5, times=10)

    def drawn(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.put([fault])
        return [faults.draw(call) is not None for _ in range(100)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert sum(drawn(1)) == 10
