"""Serves the calls of kube-scheduler over HTTP or HTTPS to authorized clients."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Self

from aiohttp import web

from controller.extender.client_authorization import AllowedClientNames
from controller.extender.handler import ExtenderHandler
from dra.api.extender_configuration import ExtenderConfiguration
from dra.httpserver.connections import ConnectionLimits
from dra.httpserver.listener import DropObserver, HttpListener
from dra.httpserver.serving_certificate import ServingCertificate
from dra.kube.clock import SYSTEM

REQUEST_BYTES_MAX: Final = 16 << 20
"""Maximum number of bytes of one request: the names of 5,000 nodes take half a megabyte."""

CONNECTION_LIMITS: Final = ConnectionLimits(max_connections=512, max_opening=256)
"""Limits of connections. A TLS connection takes 300 KiB: 150 MiB in total. kube-scheduler opens one for each call in
flight."""


class ExtenderServer:
    """A server for the calls of kube-scheduler; use as a context manager."""

    def __init__(
        self, configuration: ExtenderConfiguration, handler: ExtenderHandler, *, observer: DropObserver
    ) -> None:
        """Create the server; ``observer`` is called for each dropped connection."""
        self._configuration = configuration
        self._extender_handler = handler
        self._observer = observer
        self._listener: HttpListener | None = None
        self._certificates: ServingCertificate | None = None
        self._renewing: asyncio.Task[None] | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        tls = self._configuration.tls
        self._certificates = certificates = ServingCertificate(tls, wall=SYSTEM.wall) if tls else None
        named = tls is not None and tls.client_authority and tls.client_names
        clients = [AllowedClientNames(tls.client_names).authorize] if tls is not None and named else []
        application = web.Application(client_max_size=REQUEST_BYTES_MAX, middlewares=clients)
        for verb in self._extender_handler.verbs:
            application.router.add_post(f"/{verb}", self._handler(verb))
        listener = HttpListener(
            application,
            name="extender",
            endpoint=self._configuration.serve,
            limits=CONNECTION_LIMITS,
            observer=self._observer,
            context=certificates.context if certificates else None,
        )
        self._listener = await listener.__aenter__()
        if certificates is not None:
            self._renewing = asyncio.create_task(certificates.run(), name="certificates")
        self.address = f"{'https' if tls else 'http'}://{listener.address}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewing
        if self._listener is not None:
            await self._listener.__aexit__(None, None, None)

    def certificate_expiries(self) -> Mapping[str, float]:
        """Return the seconds until each certificate in use expires; none without TLS."""
        return self._certificates.expiries() if self._certificates is not None else {}

    def _handler(self, verb: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.Response:
            if self._certificates is not None:
                self._certificates.observe_client(request.get_extra_info("peercert"))
            status, body = await self._extender_handler.handle(verb, await request.read())
            return web.Response(status=status, body=body, content_type="application/json" if status == _OK else None)

        return handle


_OK: Final = 200
