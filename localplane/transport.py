"""Implements `dra.kube.transport.Transport` without a network, for an API server in the same process."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from dra.kube.errors import raise_for_status
from dra.kube.transport import Request, Response
from localplane.server import RequestHandler, WatchResponse


class LocalTransport:
    """Calls a server directly; `localplane.fault_injection` adds the faults of a network."""

    def __init__(self, server: RequestHandler) -> None:
        self._server = server

    async def send(self, request: Request, /) -> Response:
        """Return the response of the server."""
        answer = await self._server.handle(request)
        assert isinstance(answer, Response), "a watch is asked for with `stream`"  # noqa: S101
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; yield its blocks."""
        answer = await self._server.handle(request)
        if isinstance(answer, Response):
            raise_for_status(answer, request.path)
        assert isinstance(answer, WatchResponse), f"{request.path}: an answer that ends"  # noqa: S101
        async with aclosing(answer.blocks) as blocks:
            yield blocks

    async def close(self) -> None:
        """Do nothing: a local transport has no connections."""
