"""The HTTP transport against small servers on the loopback."""

import asyncio
import contextlib
import socket
import ssl
from ipaddress import IPv4Address

import pytest
from aiohttp import web

from dra.kube.clock import SYSTEM
from dra.kube.credentials import RestConfig, StaticCredentials
from dra.kube.errors import Expired, Forbidden, ResponseTooLarge, Unreachable
from dra.kube.http import HttpTransport, keepalive_socket, user_agent
from dra.kube.transport import Request
from localplane import certificates

REAL_TIME = True  # sockets


class Rotating:
    """Credentials that give a new token whenever one is refused."""

    def __init__(self, host):
        self.host = host
        self.number = 1

    async def access(self, *, rejected=None):
        if rejected is not None:
            self.number += 1
        return RestConfig(self.host, f"Bearer {self.number}")


@contextlib.asynccontextmanager
async def serving(handler, credentials_of=lambda host: StaticCredentials(RestConfig(host)), **options):
    """Serve with `handler`; yield a transport to it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        transport = HttpTransport(credentials_of(f"http://127.0.0.1:{port}"), **options)
        try:
            yield transport
        finally:
            await transport.close()
    finally:
        await runner.cleanup()


def asking(method="GET", path="/api/v1/pods", *, timeout=60.0, **fields):
    return Request(method=method, path=path, timeout=timeout, **fields)


async def collected(transport, request):
    async with transport.stream(request) as blocks:
        return [block async for block in blocks]


def streaming(*chunks):
    """Return a handler that writes `chunks` as they are, one by one."""

    async def handler(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        for chunk in chunks:
            if isinstance(chunk, asyncio.Event):
                await chunk.wait()
            else:
                await answer.write(chunk)
        return answer

    return handler


async def test_what_is_asked_arrives_as_it_is():
    seen = {}

    async def handler(request):
        seen.update(method=request.method, path=request.path, query=dict(request.query), headers=request.headers.copy())
        seen["body"] = await request.read()
        return web.Response(status=201, body=b"{}", headers={"X-Some": "Thing"})

    async with serving(handler) as transport:
        request = asking(
            "PATCH",
            "/apis/a.b/v1/x",
            query={"labelSelector": "a in (b,c),d=e+f", "dryRun": "All"},
            body=b'{"a":1}',
            content_type="application/merge-patch+json",
            accept="application/json;as=X",
        )
        response = await transport.send(request)
    assert (response.status, response.body, response.headers["x-some"]) == (201, b"{}", "Thing")
    assert (seen["method"], seen["path"], seen["body"]) == ("PATCH", "/apis/a.b/v1/x", b'{"a":1}')
    assert seen["query"] == request.query
    assert seen["headers"]["Content-Type"] == "application/merge-patch+json"
    assert seen["headers"]["Accept"] == "application/json;as=X"
    assert seen["headers"]["User-Agent"] == user_agent()
    assert user_agent().startswith("dra-reserve/")
    assert "Authorization" not in seen["headers"]


async def test_an_error_is_an_answer_too():
    async def handler(_request):
        return web.Response(status=404, text="no")

    async with serving(handler) as transport:
        response = await transport.send(asking())
    assert (response.status, response.body) == (404, b"no")


def guarded(valid, tokens):
    async def handler(request):
        tokens.append(request.headers["Authorization"])
        if request.headers["Authorization"] != valid:
            return web.Response(status=401)
        return web.Response(body=b"{}\n")

    return handler


async def test_an_expired_token_is_replaced_once_and_the_request_repeated():
    tokens = []
    async with serving(guarded("Bearer 2", tokens), Rotating) as transport:
        assert (await transport.send(asking())).status == 200
    assert tokens == ["Bearer 1", "Bearer 2"]


async def test_a_stream_begins_with_a_fresh_token_too():
    tokens = []
    async with serving(guarded("Bearer 2", tokens), Rotating) as transport:
        assert await collected(transport, asking()) == [b"{}\n"]
    assert tokens == ["Bearer 1", "Bearer 2"]


async def test_a_fresh_token_that_is_refused_as_well_is_final():
    tokens = []
    async with serving(guarded("Bearer 9", tokens), Rotating) as transport:
        assert (await transport.send(asking())).status == 401
    assert tokens == ["Bearer 1", "Bearer 2"]


async def test_credentials_that_stay_the_same_are_not_tried_twice():
    tokens = []
    async with serving(
        guarded("Bearer 9", tokens), lambda host: StaticCredentials(RestConfig(host, "Bearer 1"))
    ) as transport:
        assert (await transport.send(asking())).status == 401
    assert tokens == ["Bearer 1"]


async def test_a_redirect_is_not_followed():
    paths = []

    async def handler(request):
        paths.append(request.path)
        raise web.HTTPFound("/elsewhere")

    async with serving(handler, lambda host: StaticCredentials(RestConfig(host, "Bearer secret"))) as transport:
        assert (await transport.send(asking())).status == 302
    assert paths == ["/api/v1/pods"]


async def test_proxies_of_the_environment_do_not_get_our_requests(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    async with serving(streaming(b"ok")) as transport:
        assert (await transport.send(asking())).body == b"ok"


async def test_a_refused_connection_proves_that_nothing_was_sent(unused_port):
    transport = HttpTransport(StaticCredentials(RestConfig(f"http://127.0.0.1:{unused_port}")))
    with pytest.raises(Unreachable) as caught:
        await transport.send(asking("PATCH"))
    assert not caught.value.is_outcome_unknown
    assert caught.value.message == f"cannot connect to 127.0.0.1:{unused_port}: Connection refused"
    await transport.close()


def test_connections_notice_that_the_other_side_is_gone():
    with keepalive_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ())) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


@pytest.fixture
def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_a_connection_that_breaks_leaves_open_whether_it_happened():
    async def handler(request):
        await request.read()
        request.transport.abort()
        return web.Response()

    async with serving(handler) as transport:
        with pytest.raises(Unreachable, match="connection lost") as caught:
            await transport.send(asking("PATCH", body=b"{}"))
    assert caught.value.is_outcome_unknown


async def test_a_server_that_does_not_answer_leaves_it_open_too():
    never = asyncio.Event()

    async def handler(_request):
        await never.wait()

    async with serving(handler) as transport:
        with pytest.raises(Unreachable, match=r"no answer within 0\.05 s") as caught:
            await transport.send(asking("PATCH", timeout=0.05))
        assert caught.value.is_outcome_unknown
        with pytest.raises(Unreachable, match="no answer"):
            await collected(transport, asking(timeout=0.05))


async def test_frames_arrive_whole_however_they_were_sent():
    async with serving(streaming(b"a\nb", b"b\n", b"c\n", b"cut off")) as transport:
        blocks = await collected(transport, asking())
    assert b"".join(blocks) == b"a\nbb\nc\n"
    assert all(block.endswith(b"\n") for block in blocks)


async def test_a_frame_may_be_longer_than_every_buffer():
    line = b"x" * 5_000_000 + b"\n"
    async with serving(streaming(line, b"y\n")) as transport:
        blocks = await collected(transport, asking())
    assert b"".join(blocks) == line + b"y\n"


async def test_the_timeout_of_a_stream_is_that_of_its_beginning():
    later = asyncio.Event()
    served = serving(streaming(b"a\n", later, b"b\n"))
    async with served as transport, transport.stream(asking(timeout=1.0)) as blocks:
        assert await anext(blocks) == b"a\n"
        asyncio.get_running_loop().call_later(1.2, later.set)
        assert await anext(blocks) == b"b\n"


async def test_frames_are_handed_over_when_they_come_and_not_when_the_stream_ends():
    never = asyncio.Event()
    async with serving(streaming(b"a\n", never)) as transport, transport.stream(asking()) as blocks:
        assert await asyncio.wait_for(anext(blocks), 5.0) == b"a\n"


@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    [
        (410, b'{"kind": "Status", "reason": "Expired", "message": "too old"}', Expired, "too old"),
        (403, b"", Forbidden, "HTTP 403"),
    ],
    ids=["expired", "forbidden"],
)
async def test_a_stream_that_is_refused_raises_at_once(status, body, error, text):
    async def handler(_request):
        return web.Response(status=status, body=body)

    async with serving(handler) as transport:
        with pytest.raises(error, match=text):
            await collected(transport, asking())


async def test_a_stream_that_breaks_says_so():
    async def handler(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"a\n")
        request.transport.abort()
        return answer

    async with serving(handler) as transport, transport.stream(asking()) as blocks:
        assert await anext(blocks) == b"a\n"
        with pytest.raises(Unreachable, match="connection lost"):
            await anext(blocks)


async def test_streams_do_not_use_up_the_connections_of_others():
    never = asyncio.Event()
    served = streaming(b"a\n", never)

    async def handler(request):
        return await served(request) if "watch" in request.query else web.Response()

    async with serving(handler) as transport, contextlib.AsyncExitStack() as stack:
        for _ in range(120):
            await stack.enter_async_context(transport.stream(asking(query={"watch": "1"})))
        assert (await transport.send(asking())).status == 200


async def test_closing_ends_streams():
    never = asyncio.Event()
    async with serving(streaming(b"a\n", never)) as transport, transport.stream(asking()) as blocks:
        assert await anext(blocks) == b"a\n"
        await transport.close()
        with pytest.raises(Unreachable, match="closed"):
            await anext(blocks)
    with pytest.raises(Unreachable, match="closed"):
        await transport.send(asking())


async def test_a_stream_does_not_wait_for_the_tls_shutdown_of_a_server_that_stopped(tmp_path):
    made = certificates.generate_self_signed(name="stopped", address=IPv4Address("127.0.0.1"), now=SYSTEM.wall())
    (tmp_path / "both").write_text(made.key + made.certificate)
    secured = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secured.load_cert_chain(tmp_path / "both")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        answering = asyncio.create_task(asyncio.to_thread(_answer_and_stop, listening, secured))
        host = f"https://127.0.0.1:{listening.getsockname()[1]}"
        trusting = ssl.create_default_context(cadata=made.certificate)
        transport = HttpTransport(StaticCredentials(RestConfig(host, tls=trusting)))
        async with transport.stream(asking()) as blocks:
            assert await anext(blocks) == b"a\n"
        assert await answering == "closed"
        await transport.close()


def _answer_and_stop(listening, secured):
    """Send the beginning of a watch; return how the connection ends to a server that takes no part in TLS any more."""
    accepted, _ = listening.accept()
    accepted.settimeout(30)
    with secured.wrap_socket(accepted, server_side=True) as wrapped:
        wrapped.recv(1 << 16)
        wrapped.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n")
        with socket.socket(fileno=wrapped.detach()) as plain:
            plain.settimeout(30)
            try:
                while plain.recv(1 << 16):
                    pass
            except TimeoutError:
                return "open"
            except ConnectionError:
                pass
            return "closed"


async def test_a_token_is_in_no_text_of_an_error(unused_port):
    transport = HttpTransport(StaticCredentials(RestConfig(f"http://127.0.0.1:{unused_port}", "Bearer secret")))
    with pytest.raises(Unreachable) as caught:
        await transport.send(asking())
    assert "secret" not in repr(caught.value) + str(caught.value) + repr(caught.value.__cause__)
    await transport.close()


MIB = 1 << 20
WHOLE = 24
"""MiB of an answer: more than sockets buffer."""


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
async def test_of_an_answer_that_is_too_long_no_more_is_read_than_the_client_takes(packed):
    written = 0

    async def handler(request):
        nonlocal written
        answer = web.StreamResponse()
        if packed:
            answer.enable_compression()
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(WHOLE):
                await answer.write(b"x" * MIB)
                written += 1
        return answer

    async with serving(handler) as transport:
        with pytest.raises(ResponseTooLarge, match="longer than 2 MiB"):
            await transport.send(asking(max_bytes=2 * MIB))
        assert len((await transport.send(asking(max_bytes=WHOLE * MIB))).body) == WHOLE * MIB
    assert packed or written < 2 * WHOLE, "the first answer was not written to its end"


async def test_headers_that_impersonate_are_sent_with_each_request_several_of_a_name_too():
    async def handler(request):
        return web.json_response({name: request.headers.getall(name, []) for name in ("Impersonate-Group", "Accept")})

    groups = (("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    async with serving(handler, lambda host: StaticCredentials(RestConfig(host, impersonation=groups))) as transport:
        assert (
            await transport.send(asking())
        ).body == b'{"Impersonate-Group": ["a", "b"], "Accept": ["application/json"]}'


async def test_no_request_takes_longer_than_the_transport_allows():
    async def handler(_):
        await asyncio.Event().wait()

    async with serving(handler, timeout_max=0.1) as transport:
        with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
            await transport.send(asking(timeout=60.0))
