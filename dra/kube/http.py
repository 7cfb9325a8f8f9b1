"""The HTTP transport: one aiohttp session to one API server.

Traps:
- ``trust_env`` stays off: proxy variables of the environment must not affect requests to the cluster; the proxy of the
  kubeconfig is used instead.
- aiohttp's default limits (5 minutes in total, 100 connections, 64 KiB buffers) cut watches, block requests behind
  watches, and make batches small.
- A redirect is never followed: the request would carry the token to another server.
- Errors of aiohttp hold the request with its Authorization header; only their texts are passed on.
"""

import asyncio
import functools
import importlib.metadata
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import aiohttp
import msgspec

from dra.kube.credentials import Credentials, RestConfig
from dra.kube.errors import ResponseTooLarge, Unreachable, raise_for_status, truncated
from dra.kube.transport import FRAME_BYTES_MAX, FrameSplitter, FrameTooLargeError, Request, Response

CONNECT_TIMEOUT: Final = 10.0
KEEP_ALIVE: Final = 30.0
READ_BUFFER: Final = 1 << 20
"""Bytes that may be buffered before the socket is paused: the upper limit of a block of watch events."""

_UNAUTHORIZED: Final = 401
_KEEPALIVE_OPTIONS: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


@functools.cache
def user_agent() -> str:
    """Return the User-Agent of all requests, for audit logs and for the server's flow control."""
    try:
        return f"dra-reserve/{importlib.metadata.version('dra-reserve')}"
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        return "dra-reserve/0"


class HttpTransport:
    """A `dra.kube.transport.Transport` over HTTP."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        agent: str = "",
        timeout_max: float | None = None,
    ) -> None:
        """Create the transport; ``agent`` is the User-Agent, by default `user_agent`.

        Each request has at most ``timeout_max`` seconds, whatever it asks for.
        """
        self._credentials = credentials
        self._timeout_max = timeout_max
        self._agent = agent or user_agent()
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request, /) -> Response:
        """Return the response, see `Transport.send`."""
        request = self._limited(request)
        with self._failures(request):
            async with await self._answer(request, total=request.timeout) as answer:
                return Response(answer.status, _lower_case_headers(answer), await self._body(request, answer))

    @staticmethod
    async def _body(request: Request, answer: aiohttp.ClientResponse) -> bytes:
        """Read the response to its end.

        Raises `ResponseTooLarge` and closes the connection if the body is too long, since the rest is still to come.
        """
        if request.max_bytes is None:
            return await answer.read()
        parts: list[bytes] = []
        size = 0
        async for part in answer.content.iter_any():
            size += len(part)
            if size > request.max_bytes:
                _abandon(answer)
                raise ResponseTooLarge(request.path, request.max_bytes)
            parts.append(part)
        return b"".join(parts)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream, see `Transport.stream`."""
        request = self._limited(request)
        with self._failures(request):
            async with asyncio.timeout(request.timeout):  # no timeout of aiohttp covers only the beginning
                answer = await self._answer(request, total=None)
        try:
            if not _is_success(answer):
                with self._failures(request):
                    raise_for_status(
                        Response(answer.status, _lower_case_headers(answer), await answer.read()), request.path
                    )
            yield self._blocks(request, answer)
        finally:
            _abandon(answer)

    def _limited(self, request: Request) -> Request:
        if self._timeout_max is None or request.timeout <= self._timeout_max:
            return request
        return msgspec.structs.replace(request, timeout=self._timeout_max)

    async def close(self) -> None:
        """Close all connections to the API server."""
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: Request, *, total: float | None) -> aiohttp.ClientResponse:
        """Send a request and return the beginning of its response; after a 401 once more, with fresh credentials."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        access = await self._credentials.access()
        answer = await self._ask(request, access, total)
        if answer.status != _UNAUTHORIZED:
            return answer
        fresh = await self._credentials.access(rejected=access)
        if fresh == access:
            return answer
        answer.release()
        left = None if total is None else max(0.001, total - (loop.time() - began))
        return await self._ask(request, fresh, left)

    async def _ask(self, request: Request, access: RestConfig, total: float | None) -> aiohttp.ClientResponse:
        """Send the request one time, without retries."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, socket_factory=keepalive_socket),
                cookie_jar=aiohttp.DummyCookieJar(),  # a load balancer must not pin this client to one server
                read_bufsize=READ_BUFFER,
                trust_env=False,
            )
        headers = {"Accept": request.accept, "User-Agent": self._agent}
        if request.content_type is not None:
            headers["Content-Type"] = request.content_type
        if access.authorization is not None:
            headers["Authorization"] = access.authorization
        return await self._session.request(
            request.method,
            access.host + request.path,
            params=request.query,
            data=request.body,
            headers=[*headers.items(), *access.impersonation],
            allow_redirects=False,
            ssl=access.tls or True,
            server_hostname=access.server_name,
            proxy=access.proxy,
            timeout=aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_TIMEOUT),
        )

    async def _blocks(self, request: Request, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Yield the received bytes, cut after the last newline."""
        blocks = FrameSplitter()
        with self._failures(request):
            async for chunk in answer.content.iter_any():
                try:
                    block = blocks.feed(chunk)
                except FrameTooLargeError:
                    raise ResponseTooLarge(request.path, FRAME_BYTES_MAX) from None
                if block:
                    yield block

    @contextmanager
    def _failures(self, request: Request) -> Iterator[None]:
        """Convert every failure below HTTP to `Unreachable`.

        Only a connection that was never established proves that the server has not received the request: a pooled
        connection may break after the last byte of the request was sent.
        """
        try:
            yield
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise Unreachable(request.path, _connection_failure(error), outcome_unknown=False) from error
        except TimeoutError as error:
            raise Unreachable(
                request.path, f"no answer within {request.timeout:.3g} s", outcome_unknown=True
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"connection lost: {truncated(error) or type(error).__name__}"
            raise Unreachable(request.path, text, outcome_unknown=True) from error
        except RuntimeError as error:
            if self._session is None or not self._session.closed:
                raise
            raise Unreachable(request.path, "the transport is closed", outcome_unknown=True) from error


def keepalive_socket(address: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
    """Return a socket on which the kernel notices within a minute that the peer is gone.

    Otherwise a watch would wait for ever on a connection that a firewall has dropped; HTTP/1.1 has no pings.
    """
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE_OPTIONS.items():
        if hasattr(socket, option):  # names differ between systems
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _connection_failure(error: Exception) -> str:
    """Return the reason for a failed connection; aiohttp's own text shows the TLS context."""
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = getattr(error, "certificate_error", None) or error.os_error
        plain = os.strerror(cause.errno) if isinstance(cause, ConnectionError) and cause.errno else truncated(cause)
        return f"cannot connect to {error.host}:{error.port}: {plain}"
    return truncated(error)


def _abandon(answer: aiohttp.ClientResponse) -> None:
    """Close the connection of a partly read response at once.

    `aiohttp.ClientResponse.release` would wait for the rest of an endless response, and `close` alone for the server's
    part of the TLS shutdown: 30 seconds if the API server is gone, past the end of the event loop.
    """
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    answer.close()


def _is_success(answer: aiohttp.ClientResponse) -> bool:
    return 200 <= answer.status < 300  # noqa: PLR2004 - 2xx


def _lower_case_headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}
