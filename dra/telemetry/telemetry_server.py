"""Probes and metrics over HTTP, for whoever reaches the port: what their clients may cost is bounded."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, Protocol, Self, TypeAlias

from aiohttp import web

from dra.api.configuration import Endpoint
from dra.httpserver.connections import ConnectionLimits
from dra.httpserver.listener import DropObserver, HttpListener

CONNECTION_LIMITS: Final = ConnectionLimits(connections=64, opening=64, request=10.0, idle=10.0, pace=100.0, once=True)
"""A kubelet or Prometheus opens one connection at a time, and asks at once."""

RENDER_CACHE_SECONDS: Final = 1.0
"""Seconds for which metrics that were rendered are given to whoever asks."""

TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"

RouteHandler: TypeAlias = Callable[[web.Request], web.Response]


class MetricsRegistry(Protocol):
    """A registry of metrics."""

    def render(self) -> bytes:
        """Return all of them in the text format."""
        ...


class TelemetryServer:
    """``/healthz`` (the loop turns), ``/readyz`` (the cluster is known) and ``/metrics``; use as a context manager."""

    def __init__(
        self,
        *,
        probes: Endpoint | None,
        metrics: Endpoint | None,
        registry: MetricsRegistry,
        troubles: Callable[[], list[str]],
        observer: DropObserver,
    ) -> None:
        """None serves nothing: then no socket is opened. ``observer``: told of connections that are dropped."""
        self._probes = probes
        self._metrics = metrics
        self._registry = registry
        self._troubles = troubles
        self._observer = observer
        self._listening = AsyncExitStack()
        self._text = b""
        self._text_until = float("-inf")
        self.addresses: dict[str, str] = {}
        """What is served where, ports filled in."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._serve(stack, "probes", self._probes, {"/healthz": self._healthz, "/readyz": self._readyz})
            await self._serve(stack, "metrics", self._metrics, {"/metrics": self._render})
            self._listening = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listening.aclose()

    async def _serve(
        self, stack: AsyncExitStack, name: str, endpoint: Endpoint | None, routes: dict[str, RouteHandler]
    ) -> None:
        if endpoint is None:
            return
        application = web.Application(client_max_size=1024)
        for path, answer in routes.items():
            application.router.add_get(path, _handler(answer))
        listener = HttpListener(
            application, name=name, endpoint=endpoint, bounds=CONNECTION_LIMITS, observer=self._observer
        )
        self.addresses[name] = (await stack.enter_async_context(listener)).address

    def _healthz(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    def _readyz(self, request: web.Request) -> web.Response:
        del request
        troubles = self._troubles()
        if not troubles:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="".join(f"{trouble}\n" for trouble in troubles))

    def _render(self, request: web.Request) -> web.Response:
        del request
        now = asyncio.get_running_loop().time()
        if now >= self._text_until:
            self._text = self._registry.render()
            self._text_until = now + RENDER_CACHE_SECONDS
        return web.Response(body=self._text, headers={"Content-Type": TEXT_FORMAT})


def _handler(answer: RouteHandler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    return handle
