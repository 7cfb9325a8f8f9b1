"""An HTTP listener that accepts connections for an aiohttp application within `ConnectionLimits`.

aiohttp's own site accepts every connection: asyncio waits 60 seconds for each TLS handshake, no timeout covers the
first request, and the number of connections has no limit. Here every accepted socket is counted before anything is
allocated for it, and a few are accepted at a time, so that a flood of connections never starves the event loop.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, Self, TypeAlias, TypeVar

from aiohttp import web, web_response
from aiohttp.http import HttpProcessingError

from dra.api.process_settings import ListenAddress
from dra.httpserver.connections import ClientConnection, ConnectionLimits, ConnectionState, ConnectionTable, DropReason

ACCEPT_BATCH: Final = 8
"""Connections accepted before other tasks of the event loop run."""

BACKLOG: Final = 1024
"""Connections that the kernel queues for a busy event loop."""

SWEEP_INTERVAL: Final = 0.5
"""Seconds between two searches for overdue connections."""

TLS_SHUTDOWN_TIMEOUT: Final = 1.0
"""Seconds for the client's part of a TLS shutdown."""

ACCEPT_RETRY_DELAY: Final = 1.0
"""Seconds until connections are accepted again after the process ran out of file descriptors."""

LOG_INTERVAL: Final = 60.0
"""Seconds between two log lines about dropped connections."""

DropObserver: TypeAlias = Callable[[str, DropReason], None]
"""Called with (listener, cause) for each dropped connection."""

_Response = TypeVar("_Response", bound=web.StreamResponse)

_RESOURCE_ERRNOS: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

SERVER_NAME: Final = "dra-reserve"
"""Header ``Server`` of all responses; that of aiohttp names the versions of Python and aiohttp. Its answers to requests
that cannot be parsed pass no middleware, so the default is replaced."""

setattr(web_response, "SERVER_SOFTWARE", SERVER_NAME)  # noqa: B010 - the module does not export the name

_log: Final = logging.getLogger(__name__)


class HttpListener:
    """A listener that serves an application at one address; use as a context manager."""

    def __init__(  # noqa: PLR0913 - keyword-only, and each is one property of a listener
        self,
        application: web.Application,
        *,
        name: str,
        endpoint: ListenAddress,
        limits: ConnectionLimits,
        observer: DropObserver,
        context: ssl.SSLContext | None = None,
        handler_cancellation: bool = False,
    ) -> None:
        """Create a listener; ``name`` appears in metrics and log lines, ``context`` enables TLS.

        ``handler_cancellation``: whether the handler of a request is cancelled when its client disconnects.
        """
        self._name = name
        self._endpoint = endpoint
        self._limits = limits
        self._observer = observer
        self._context = context
        application.middlewares.append(self._track_request)
        self._runner = web.AppRunner(
            application, access_log=None, logger=_RequestLog(_log), handler_cancellation=handler_cancellation
        )
        self._connections = ConnectionTable(limits)
        self._by_handler: dict[object, ClientConnection] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._attempted = asyncio.Event()
        """Set when a client connects; the sweep waits for it while there is nothing to look for."""
        self._dropped: Counter[tuple[DropReason, str]] = Counter()
        self._logged_at = float("-inf")
        self.address = ""
        """``HOST:PORT`` once the listener is open."""

    def __len__(self) -> int:
        return len(self._connections)

    async def __aenter__(self) -> Self:
        """Open the listening socket; raises OSError, which names the address."""
        self._socket = _listening_socket(self._endpoint)
        await self._runner.setup()
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._resume()
        self._sweeping = asyncio.create_task(self._sweep(), name=f"{self._name}: connections")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeping
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await self._runner.cleanup()

    def _resume(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept, self._socket)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPT_BATCH):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _RESOURCE_ERRNOS:
                    raise
                _log.warning("%s: no connection can be accepted for a second: %s", self._name, error.strerror)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(ACCEPT_RETRY_DELAY, self._resume)
                return
            self._admit(accepted, str(peer[0]))

    def _admit(self, accepted: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()
        self._attempted.set()
        if (cause := self._connections.admission_failure(address, now=loop.time())) is not None:
            accepted.close()
            self._count_drop(cause, address)
            return

        def drop() -> None:
            task.cancel()
            if protocol.transport is not None:
                protocol.transport.abort()

        connection = ClientConnection(address=address, since=loop.time(), drop=drop)
        protocol = _ConnectionProtocol(self._runner, made=self._made(connection), lost=self._lost(connection))
        if (victim := self._connections.add(connection)) is not None:
            victim.drop()
            self._count_drop(DropReason.CROWDED, victim.address)
        task = loop.create_task(self._open(accepted, protocol, address), name=f"{self._name}: connection of {address}")
        self._opening.add(task)
        task.add_done_callback(self._opened(accepted, connection))

    async def _open(self, accepted: socket.socket, protocol: "_ConnectionProtocol", address: str) -> None:
        """Wait for the client's first byte and complete the TLS handshake. Raises OSError (ssl.SSLError, too)."""
        await _wait_readable(accepted)
        secure = {"ssl_handshake_timeout": self._limits.handshake_timeout, "ssl_shutdown_timeout": TLS_SHUTDOWN_TIMEOUT}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._context, **(secure if self._context is not None else {})
            )
        except ConnectionAbortedError:  # raised by asyncio for a handshake that times out
            self._count_drop(DropReason.SLOW, address)
            raise

    def _opened(self, accepted: socket.socket, connection: ClientConnection) -> Callable[[asyncio.Task[None]], None]:
        def opened(task: asyncio.Task[None]) -> None:
            self._opening.discard(task)
            failure = asyncio.CancelledError() if task.cancelled() else task.exception()
            if failure is None:
                return
            self._connections.discard(connection)
            connection.drop = (
                _do_nothing  # else a reference cycle keeps task, connection and 256 KiB of asyncio's until collected
            )
            accepted.close()  # a task cancelled before it began has no transport that closes the socket
            if not isinstance(failure, OSError | asyncio.CancelledError):
                _log.error("%s: a connection failed", self._name, exc_info=failure)

        return opened

    def _made(self, connection: ClientConnection) -> Callable[[object], None]:
        def made(handler: object) -> None:
            self._by_handler[handler] = connection

        return made

    def _lost(self, connection: ClientConnection) -> Callable[[object], None]:
        def lost(handler: object) -> None:
            self._by_handler.pop(handler, None)
            self._connections.discard(connection)
            connection.drop = _do_nothing  # as above

        return lost

    @web.middleware
    async def _track_request(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Handle a request once its last byte has arrived: a slow request does not block other clients."""
        await request.read()
        request[_LISTENER] = self
        self.set_state(request, ConnectionState.ANSWERING if self._limits.drops_by_age else ConnectionState.BUSY)
        try:
            return self._close_if_single_use(await handler(request))
        except web.HTTPException as error:
            self._close_if_single_use(error)
            raise
        finally:
            self.set_state(request, ConnectionState.IDLE)

    def set_state(self, request: web.Request, state: ConnectionState) -> None:
        """Move the connection of a request to a state."""
        connection = self._by_handler.get(request.protocol)
        if connection is not None:
            self._connections.set_state(connection, state, now=asyncio.get_running_loop().time())

    def _close_if_single_use(self, response: _Response) -> _Response:
        """Close the connection after this response if the limits allow only one."""
        if self._limits.close_after_response:
            response.force_close()
        return response

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not len(self._connections) and not self._dropped:
                self._attempted.clear()
                await self._attempted.wait()
            await asyncio.sleep(SWEEP_INTERVAL)
            for connection in self._connections.overdue(now=loop.time()):
                connection.drop()
                if connection.state is ConnectionState.OPENING:
                    self._count_drop(DropReason.SLOW, connection.address)
            self._log_drops(loop.time())

    def _count_drop(self, cause: DropReason, address: str) -> None:
        self._observer(self._name, cause)
        if len(self._dropped) < self._limits.max_connections or (cause, address) in self._dropped:
            self._dropped[cause, address] += 1

    def _log_drops(self, now: float) -> None:
        if not self._dropped or now < self._logged_at + LOG_INTERVAL:
            return
        self._logged_at = now
        ((cause, address), most), *_ = self._dropped.most_common(1)
        _log.warning(
            "%s: %d connections were dropped, most of them (%d) from %s: %s",
            self._name,
            self._dropped.total(),
            most,
            address,
            cause,
        )
        self._dropped.clear()


_LISTENER: Final = web.RequestKey("listener", HttpListener)
"""The listener that has accepted the connection of a request."""


def keep_connection(request: web.Request) -> None:
    """Never drop the connection of a request before the request is answered.

    For requests that the application has admitted and counted: requests without a limit of their own could take all
    places of the listener.
    """
    listener = request.get(_LISTENER)
    if listener is not None:
        listener.set_state(request, ConnectionState.BUSY)


class _RequestLog(logging.LoggerAdapter[logging.Logger]):
    """The log of aiohttp, without the bytes of requests that cannot be parsed.

    aiohttp logs such bytes with a traceback: a token that ends in a stray carriage return, or the lines of a stranger.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:  # noqa: ANN401 - those of logging
        failure = kwargs.get("exc_info")
        if isinstance(failure, HttpProcessingError):
            self.logger.debug("a request cannot be parsed: %s", type(failure).__name__)
        else:
            super().log(level, msg, *args, **kwargs)


class _ConnectionProtocol(asyncio.Protocol):
    """A protocol that passes an established connection to aiohttp: no parser is allocated before the TLS handshake."""

    def __init__(
        self, runner: web.AppRunner, *, made: Callable[[object], None], lost: Callable[[object], None]
    ) -> None:
        self._runner = runner
        self._made = made
        self._lost = lost
        self._handler: asyncio.Protocol | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._runner.server is None or not isinstance(transport, asyncio.Transport):
            raise AssertionError("connections are accepted while the application is set up")
        self.transport = transport
        self._handler = self._runner.server()
        self._made(self._handler)
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._handler is not None:
            self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received() if self._handler is not None else None

    def pause_writing(self) -> None:
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self._handler is not None:
            self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        handler, self._handler, self.transport = self._handler, None, None
        self._lost(handler)
        if handler is not None:
            handler.connection_lost(exc)


async def _wait_readable(accepted: socket.socket) -> None:
    """Wait for the client's first byte: until then its connection costs neither buffers nor TLS state."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(accepted, _set_done, readable)
    try:
        await readable
    finally:
        loop.remove_reader(accepted)


def _do_nothing() -> None:
    """Replace `ClientConnection.drop` of a connection that is gone."""


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _listening_socket(endpoint: ListenAddress) -> socket.socket:
    """Return a non-blocking listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in endpoint.address else socket.AF_INET
    try:
        made = socket.create_server((endpoint.address, endpoint.port), family=family, backlog=BACKLOG)
    except OSError as error:
        text = (error.strerror or str(error)).partition(" (while")[0].lower()
        raise OSError(error.errno, f"{endpoint.address}:{endpoint.port}: {text}") from error
    made.settimeout(0.0)
    return made
