"""Serves HTTP over TLS on the loopback address, with a bearer token: the outermost layer of the server.

This layer protects the server against clients: bodies are limited to `MAX_BODY_BYTES`, headers by aiohttp, and a client
that reads its watch too slowly loses the watch. Such a client costs no memory: a watch is a position in the history,
and a block is encoded only after the previous block was written to the socket.
"""

import asyncio
import base64
import hmac
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from dra.kube.clock import SYSTEM
from dra.kube.errors import Unreachable
from dra.kube.transport import JSON, Request, Response
from localplane import certificates, status_errors
from localplane.private_files import write_private_file
from localplane.server import WatchResponse

_log: Final = logging.getLogger(__name__)

LOOPBACK: Final = IPv4Address("127.0.0.1")

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""Maximum bytes of a request body, as upstream."""

BODY_TIMEOUT: Final = 30.0
"""Seconds until a request body must have arrived."""

WRITE_TIMEOUT: Final = 30.0
"""Seconds until a client must have read a written block of its watch."""

_MAX_LINE_BYTES: Final = 1 << 20
"""Maximum bytes of a request line or header: selectors and continue tokens can be long."""

_ANONYMOUS_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")
"""Paths that upstream serves to anonymous users."""

HandleRequest: TypeAlias = Callable[[Request], Awaitable[Response | WatchResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEndpoint:
    """The URL of a listening server, and the kubeconfig and token for its clients."""

    url: str
    kubeconfig: Path
    token: str = field(repr=False)


@asynccontextmanager
async def serve_https(
    handle: HandleRequest, *, folder: Path, name: str = "dra-reserve", port: int = 0, token: str = ""
) -> AsyncIterator[ServerEndpoint]:
    """Serve on the loopback address until the block is left; certificate and kubeconfig are written to `folder`.

    Port 0 selects a free port. An empty token generates a new token. All watches end when the block is left.
    """
    token = token or secrets.token_urlsafe(24)
    certificate = certificates.generate_self_signed(name=name, address=LOOPBACK, now=SYSTEM.wall())
    adapter = _HttpAdapter(handle, token)
    server = web.Server(
        adapter.handle,
        handler_cancellation=True,  # a disconnected client ends its watch
        max_line_size=_MAX_LINE_BYTES,
        max_field_size=_MAX_LINE_BYTES,
        access_log=None,
    )
    runner = web.ServerRunner(server, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, str(LOOPBACK), port, ssl_context=_tls_context(certificate, folder))
        await site.start()
        listening: tuple[str, int] = runner.addresses[0]
        url = f"https://{LOOPBACK}:{listening[1]}"
        kubeconfig = folder / "kubeconfig"
        write_private_file(kubeconfig, _kubeconfig(name, url, certificate.certificate, token).encode())
        yield ServerEndpoint(url=url, kubeconfig=kubeconfig, token=token)
    finally:
        transports = [connection.transport for connection in server.connections if connection.transport is not None]
        await runner.cleanup()
        for transport in transports:  # close() waits for the peer's TLS shutdown, which may never come
            transport.abort()
        await asyncio.sleep(0)


class _HttpAdapter:
    """Translates between aiohttp's requests and `Request`."""

    def __init__(self, handle: HandleRequest, token: str) -> None:
        self._handle = handle
        self._authorization = f"Bearer {token}".encode()

    async def handle(self, http_request: web.BaseRequest) -> web.StreamResponse:
        """Authenticate and answer one HTTP request."""
        try:
            self._authenticate(http_request)
            request = await _to_request(http_request)
            answer = await self._handle(request)
        except status_errors.StatusError as error:
            answer = error.response
        except Unreachable:
            return _abort_connection(http_request)
        except Exception:  # noqa: BLE001 - the server lives on
            _log.exception("%s %s", http_request.method, http_request.path)
            answer = status_errors.internal_error("the request cannot be answered; see the log of the server").response
        if isinstance(answer, WatchResponse):
            return await _stream_watch(http_request, answer)
        response = web.Response(status=answer.status, headers=answer.headers, body=answer.body)
        if http_request.content.is_eof():
            return response
        response.force_close()  # the rest of the body is not read
        return response

    def _authenticate(self, http_request: web.BaseRequest) -> None:
        given = http_request.headers.get("Authorization")
        if given is None and http_request.path.startswith(_ANONYMOUS_PATHS):
            return
        if given is None or not hmac.compare_digest(given.encode(errors="replace"), self._authorization):
            raise status_errors.unauthorized()


async def _to_request(http_request: web.BaseRequest) -> Request:
    return Request(
        method=http_request.method,
        path=http_request.rel_url.raw_path,
        query={name: http_request.query.getone(name) for name in http_request.query},
        body=await _read_body(http_request) if http_request.can_read_body else None,
        content_type=http_request.headers.get("Content-Type"),
        accept=http_request.headers.get("Accept", JSON),
        agent=http_request.headers.get("User-Agent", ""),
        timeout=60.0,
    )


async def _read_body(http_request: web.BaseRequest) -> bytes:
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in http_request.content.iter_any():
                size += len(chunk)
                if size > MAX_BODY_BYTES:
                    raise status_errors.request_entity_too_large(MAX_BODY_BYTES)
                chunks.append(chunk)
    except TimeoutError:
        raise status_errors.bad_request("the body of the request did not arrive in time") from None
    except web.HTTPException as error:
        raise status_errors.bad_request(f"the body of the request cannot be read: {error.reason}") from error
    return b"".join(chunks)


async def _stream_watch(http_request: web.BaseRequest, watch: WatchResponse) -> web.StreamResponse:
    """Write the blocks of a watch until the watch ends, the client disconnects, or the client reads too slowly."""
    response = web.StreamResponse(headers={"Content-Type": watch.content_type})
    response.enable_chunked_encoding()
    async with aclosing(watch.blocks) as blocks:
        await response.prepare(http_request)
        try:
            async for block in blocks:
                async with asyncio.timeout(WRITE_TIMEOUT):
                    await response.write(block)  # waits while the socket's buffer is full
            await response.write_eof()
        except (TimeoutError, Unreachable):
            _abort_connection(http_request)
        except ConnectionError:
            pass
    return response


def _abort_connection(http_request: web.BaseRequest) -> web.StreamResponse:
    """Abort the connection without sending a response."""
    if http_request.transport is not None:
        http_request.transport.abort()
    return web.Response()


def _tls_context(certificate: certificates.Certificate, folder: Path) -> ssl.SSLContext:
    chain = folder / "server.pem"
    write_private_file(chain, (certificate.key + certificate.certificate).encode())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain)
    return context


def _kubeconfig(name: str, url: str, certificate: str, token: str) -> str:
    """Return a kubeconfig as JSON, which every YAML parser reads."""
    authority = base64.b64encode(certificate.encode()).decode()
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return msgspec.json.format(msgspec.json.encode(content)).decode() + "\n"
