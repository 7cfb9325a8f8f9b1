"""The calls of kube-scheduler, over HTTP or HTTPS."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Self

from aiohttp import web

from controller.extender.calls import VERBS, Calls
from controller.extender.certificates import Certificates
from dra.api.extender import ExtenderConfiguration

LARGEST: Final = 64 << 20
"""Bytes of a call: 5,000 nodes by name are half a megabyte."""


class Server:
    """Answers calls; use as a context manager."""

    def __init__(self, configuration: ExtenderConfiguration, calls: Calls) -> None:
        self._configuration = configuration
        self._calls = calls
        self._runner: web.AppRunner | None = None
        self._renewing: asyncio.Task[None] | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        tls = self._configuration.tls
        certificates = Certificates(tls) if tls else None
        application = web.Application(client_max_size=LARGEST)
        for verb in VERBS:
            application.router.add_post(f"/{verb}", self._handler(verb))
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        serve = self._configuration.serve
        context = certificates.context if certificates else None
        await web.TCPSite(self._runner, serve.address, serve.port, ssl_context=context).start()
        if certificates is not None:
            self._renewing = asyncio.create_task(certificates.run(), name="certificates")
        host, port = self._runner.addresses[0][:2]
        self.address = f"{'https' if tls else 'http'}://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewing
        if self._runner is not None:
            await self._runner.cleanup()

    def _handler(self, verb: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.Response:
            status, body = await self._calls.answer(verb, await request.read())
            return web.Response(status=status, body=body, content_type="application/json" if status == _OK else None)

        return handle


_OK: Final = 200
