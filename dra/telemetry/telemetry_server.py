"""Probes and metrics over HTTP; anyone may reach the port, so the cost of clients is bounded."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, Protocol, Self, TypeAlias

from aiohttp import web

from dra.api.process_settings import ListenAddress
from dra.httpserver.connections import ConnectionLimits
from dra.httpserver.listener import DropObserver, HttpListener

CONNECTION_LIMITS: Final = ConnectionLimits(
    max_connections=64,
    max_opening=64,
    request_timeout=10.0,
    idle_timeout=10.0,
    new_connections_per_second=100.0,
    close_after_response=True,
)
"""Limits for clients such as the kubelet and Prometheus, which open one connection at a time and send a request at
once."""

RENDER_CACHE_SECONDS: Final = 1.0
"""Seconds for which rendered metrics are cached."""

TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"

RouteHandler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class MetricsRegistry(Protocol):
    """A registry of metrics."""

    def render(self) -> bytes:
        """Return all metrics in the text format."""
        ...


class TelemetryServer:
    """A server of ``/healthz`` (the event loop runs), ``/readyz`` (caches are synced) and ``/metrics``.

    Use as a context manager.
    """

    def __init__(
        self,
        *,
        probes: ListenAddress | None,
        metrics: ListenAddress | None,
        registry: MetricsRegistry,
        not_ready_reasons: Callable[[], list[str]],
        observer: DropObserver,
        before_scrape: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Create the server; an endpoint of None opens no socket. ``observer``: called for each dropped connection.

        ``before_scrape`` is awaited before metrics are rendered.
        """
        self._probes = probes
        self._metrics = metrics
        self._registry = registry
        self._not_ready_reasons = not_ready_reasons
        self._observer = observer
        self._before_scrape = before_scrape
        self._rendering = asyncio.Lock()
        self._listening = AsyncExitStack()
        self._text = b""
        self._text_until = float("-inf")
        self.addresses: dict[str, str] = {}
        """Address of each endpoint, with its actual port."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            probes: dict[str, RouteHandler] = {"/healthz": self._healthz, "/readyz": self._readyz}
            metrics: dict[str, RouteHandler] = {"/metrics": self._render}
            if self._share_a_port:
                await self._serve(stack, "probes", self._probes, probes | metrics)
                self.addresses["metrics"] = self.addresses["probes"]
            else:
                await self._serve(stack, "probes", self._probes, probes)
                await self._serve(stack, "metrics", self._metrics, metrics)
            self._listening = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listening.aclose()

    @property
    def _share_a_port(self) -> bool:
        """Whether both endpoints are one, as Koordinator's descheduler is configured."""
        return self._probes is not None and self._probes == self._metrics and self._probes.port != 0

    async def _serve(
        self, stack: AsyncExitStack, name: str, endpoint: ListenAddress | None, routes: dict[str, RouteHandler]
    ) -> None:
        if endpoint is None:
            return
        application = web.Application(client_max_size=1024)
        for path, answer in routes.items():
            application.router.add_get(path, answer)
        listener = HttpListener(
            application, name=name, endpoint=endpoint, limits=CONNECTION_LIMITS, observer=self._observer
        )
        self.addresses[name] = (await stack.enter_async_context(listener)).address

    async def _healthz(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        del request
        not_ready_reasons = self._not_ready_reasons()
        if not not_ready_reasons:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="".join(f"{reason}\n" for reason in not_ready_reasons))

    async def _render(self, request: web.Request) -> web.Response:
        del request
        async with self._rendering:
            if asyncio.get_running_loop().time() >= self._text_until:
                if self._before_scrape is not None:
                    await self._before_scrape()
                self._text = self._registry.render()
                self._text_until = asyncio.get_running_loop().time() + RENDER_CACHE_SECONDS
            return web.Response(body=self._text, headers={"Content-Type": TEXT_FORMAT})
