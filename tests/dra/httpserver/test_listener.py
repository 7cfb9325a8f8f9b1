"""A listener as clients see it that connect and say nothing, or much too slowly, or very often."""

import asyncio
import contextlib
import gc
import logging
import resource
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections import Counter

import aiohttp
import pytest
from aiohttp import web

from dra.api.configuration import Endpoint
from dra.httpserver import listener as listening
from dra.httpserver.connections import ConnectionLimits, DropReason
from dra.httpserver.listener import HttpListener
from tests.controller.extender.authority import SERVER, Authority
from tests.dra.kube.virtual import VirtualLoop

REAL_TIME = True
PATIENT = 60
"""Seconds that a condition may take on a busy machine."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def contexts(authority):
    """A server's context and a client's."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.sign(SERVER, usage="serverAuth"))
    return server, ssl.create_default_context(cafile=authority.certificate)


class Serving:
    """A listener that answers "hello", and holds an answer back while `held` is clear."""

    def __init__(self, bounds, context=None):
        self.dropped = Counter()
        self.held = asyncio.Event()
        self.held.set()
        self.began = asyncio.Semaphore(0)
        application = web.Application(client_max_size=1 << 20)
        application.router.add_route("*", "/", self.hello)
        self.listener = HttpListener(
            application,
            name="test",
            endpoint=Endpoint(port=0),
            limits=bounds,
            observer=lambda _, cause: self.dropped.update([cause]),
            context=context,
        )

    async def hello(self, request):
        del request
        self.began.release()
        await self.held.wait()
        return web.Response(text="hello")

    async def __aenter__(self):
        await self.listener.__aenter__()
        host, _, port = self.listener.address.rpartition(":")
        self.to = host, int(port)
        return self

    async def __aexit__(self, *_):
        self.held.set()
        await self.listener.__aexit__()

    def connect(self, *, source="127.0.0.1"):
        """Return a connection that says nothing."""
        return socket.create_connection(self.to, source_address=(source, 0))

    async def ask(self, *, context=None, source="127.0.0.1"):
        """Return an answer, over a connection of its own."""
        connector = aiohttp.TCPConnector(ssl=context or True, local_addr=(source, 0))
        url = f"{'https' if context else 'http'}://{self.to[0]}:{self.to[1]}/"
        async with (
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.get(url, server_hostname=SERVER if context else None) as got,
        ):
            return await got.text()

    async def until(self, condition):
        async with asyncio.timeout(PATIENT):
            while not condition():  # noqa: ASYNC110 - sockets make no event
                await asyncio.sleep(0.01)


def bounds(**fields):
    return ConnectionLimits(
        **{
            "max_connections": 20,
            "max_opening": 10,
            "handshake_timeout": 30.0,
            "request_timeout": 30.0,
            "idle_timeout": 30.0,
        }
        | fields
    )


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_of_hundreds_of_silent_connections_ten_stay_and_others_are_answered_meanwhile(secure, contexts):
    server, client = contexts if secure else (None, None)
    async with Serving(bounds(), server) as serving:
        silent = []
        try:
            for number in range(300):
                silent.append(await asyncio.to_thread(serving.connect))
                if number % 50 == 0:
                    assert await serving.ask(context=client) == "hello"
                    assert await serving.ask(context=client, source="127.0.0.2") == "hello"
            await serving.until(lambda: serving.dropped[DropReason.CROWDED] >= 290)
            assert len(serving.listener) <= 10
            assert serving.dropped.keys() == {DropReason.CROWDED}
        finally:
            for each in silent:
                each.close()
        await serving.until(lambda: len(serving.listener) == 0)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"Authorization: Bearer secret-token\r\r\n", id="carriage-return"),
        pytest.param(b"Authorization: Bearer secret-token\0\r\n", id="control-character"),
        pytest.param(b"Authorization : Bearer secret-token\r\n", id="space-before-the-colon"),
        pytest.param(b"Authorization: Bearer secret-token" + 10_000 * b"x" + b"\r\n", id="too-long"),
    ],
)
@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nHost: localhost\r\n", b""], ids=["request", "no-request"])
async def test_the_bytes_of_a_request_that_cannot_be_parsed_are_not_logged(start, header, caplog):
    caplog.set_level(logging.DEBUG)
    async with Serving(bounds()) as serving:
        reader, writer = await asyncio.open_connection(*serving.to)
        writer.write(start + header + b"\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
    lines = [logging.Formatter().format(each) for each in caplog.records]
    assert not [each for each in lines if "secret-token" in each or "Traceback" in each]
    assert any("a request cannot be parsed" in each for each in lines)


@pytest.mark.parametrize("path", [b"/", b"/missing", b"/ \r\nbroken"], ids=["answer", "not-found", "unparsable"])
async def test_no_response_names_versions(path):
    async with Serving(bounds()) as serving:
        reader, writer = await asyncio.open_connection(*serving.to)
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert b"\r\nServer: dra-reserve\r\n" in answer
    assert b"aiohttp" not in answer


async def test_what_a_dropped_connection_had_is_free_at_once_and_not_when_garbage_is_collected(contexts):
    gc.collect()
    gc.disable()
    before = there()
    try:
        async with Serving(bounds(max_connections=3, max_opening=2), contexts[0]) as serving:
            begun = []
            for _ in range(30):
                begun.append(await asyncio.to_thread(serving.connect))
                begun[-1].sendall(b"\x16\x03\x01\x02\x00\x01")
            assert await serving.ask(context=contexts[1]) == "hello"
            await serving.until(lambda: sum(serving.dropped.values()) >= 28 and there() - before <= 3)
            for each in begun:
                each.close()
    finally:
        gc.enable()


def there():
    """Return how many TLS connections are in memory."""
    return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        pytest.param(b"", {"request_timeout": 0.2}, id="nothing"),
        pytest.param(b"\x16\x03\x01", {"handshake_timeout": 0.2}, id="the-beginning-of-a-hello"),
    ],
)
async def test_a_handshake_without_an_end_is_given_up(contexts, said, limit):
    async with Serving(bounds(**limit), contexts[0]) as serving:
        with serving.connect() as silent:
            silent.sendall(said)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(silent.recv, 1) == b""
        await serving.until(lambda: serving.dropped == {DropReason.SLOW: 1} and len(serving.listener) == 0)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HTTP/1.1\r\nHost:", id="half-a-head"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nbody", id="half-a-body"),
    ],
)
async def test_a_request_without_an_end_is_given_up(said):
    async with Serving(bounds(request_timeout=0.2)) as serving:
        with serving.connect() as slow:
            slow.sendall(said)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(slow.recv, 1) == b""
        await serving.until(lambda: serving.dropped == {DropReason.SLOW: 1} and len(serving.listener) == 0)


async def test_what_is_not_read_is_given_up():
    async with Serving(bounds(idle_timeout=0.2)) as serving:
        with serving.connect() as deaf:
            deaf.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await serving.until(lambda: len(serving.listener) == 1)
            await serving.until(lambda: len(serving.listener) == 0)


async def test_an_answer_may_take_its_time_whatever_else_comes():
    async with Serving(bounds(request_timeout=0.2, idle_timeout=0.2, max_connections=3, max_opening=2)) as serving:
        serving.held.clear()
        asking = asyncio.create_task(serving.ask())
        await serving.began.acquire()
        silent = [serving.connect() for _ in range(30)]
        await serving.until(lambda: sum(serving.dropped.values()) >= 30)
        serving.held.set()
        assert await asking == "hello"
        for each in silent:
            each.close()


async def test_where_all_connections_are_being_answered_another_is_refused():
    async with Serving(bounds(max_connections=2, max_opening=2)) as serving:
        serving.held.clear()
        asking = [asyncio.create_task(serving.ask()) for _ in range(2)]
        for _ in asking:
            await serving.began.acquire()
        with serving.connect() as refused:
            assert await asyncio.to_thread(refused.recv, 1) == b""
        assert serving.dropped == {DropReason.FULL: 1}
        serving.held.set()
        assert await asyncio.gather(*asking) == ["hello", "hello"]


async def test_one_address_that_connects_too_often_is_refused_and_others_are_not():
    async with Serving(bounds(max_connections=100, max_opening=100, new_connections_per_second=0.001)) as serving:
        with serving.connect() as often:
            assert await asyncio.to_thread(often.recv, 1) == b""
        assert serving.dropped == {DropReason.PACE: 1}


async def test_without_descriptors_it_waits_and_then_goes_on(monkeypatch, caplog):
    monkeypatch.setattr(listening, "ACCEPT_RETRY_DELAY", 0.05)
    async with Serving(bounds()) as serving:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with serving.connect() as waiting:
            resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 1, hard))
            try:
                await serving.until(lambda: "no connection can be accepted" in caplog.text)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert await serving.ask() == "hello"


async def test_the_log_says_once_a_minute_what_was_dropped_and_where_from(monkeypatch, caplog):
    monkeypatch.setattr(listening, "SWEEP_INTERVAL", 0.01)
    async with Serving(bounds(max_opening=1)) as serving:
        silent = [serving.connect() for _ in range(5)]
        await serving.until(lambda: "dropped" in caplog.text)
        silent += [serving.connect() for _ in range(5)]
        await serving.until(lambda: serving.dropped[DropReason.CROWDED] == 9)
        for each in silent:
            each.close()
    (told,) = caplog.messages
    assert "test: " in told
    assert "from 127.0.0.1: Crowded" in told


def test_a_listener_without_clients_sets_no_timer():
    async def idle():
        async with Serving(bounds()):
            await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(AssertionError, match="no timer is set"):
        runner.run(idle())
