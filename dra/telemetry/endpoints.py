"""Probes and metrics over HTTP."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, Self, TypeAlias

from aiohttp import web

from dra.api.configuration import Endpoint

TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"

Answer: TypeAlias = Callable[[web.Request], web.Response]


class Rendered(Protocol):
    """A registry of metrics."""

    def render(self) -> bytes:
        """Return all of them in the text format."""
        ...


class Endpoints:
    """``/healthz`` (the loop turns), ``/readyz`` (the cluster is known) and ``/metrics``; use as a context manager."""

    def __init__(
        self,
        *,
        probes: Endpoint | None,
        metrics: Endpoint | None,
        registry: Rendered,
        troubles: Callable[[], list[str]],
    ) -> None:
        """None serves nothing: then no socket is opened."""
        self._probes = probes
        self._metrics = metrics
        self._registry = registry
        self._troubles = troubles
        self._runners: list[web.AppRunner] = []
        self.addresses: dict[str, str] = {}
        """What is served where, ports filled in."""

    async def __aenter__(self) -> Self:
        try:
            await self._serve("probes", self._probes, {"/healthz": self._healthz, "/readyz": self._readyz})
            await self._serve("metrics", self._metrics, {"/metrics": self._render})
        except OSError:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for runner in self._runners:
            await runner.cleanup()

    async def _serve(self, name: str, endpoint: Endpoint | None, routes: dict[str, Answer]) -> None:
        if endpoint is None:
            return
        application = web.Application()
        for path, answer in routes.items():
            application.router.add_get(path, _handler(answer))
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, endpoint.address, endpoint.port)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.addresses[name] = f"{host}:{port}"

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
        return web.Response(body=self._registry.render(), headers={"Content-Type": TEXT_FORMAT})


def _handler(answer: Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    return handle
