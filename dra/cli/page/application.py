"""The page in a cluster as a whole: assembles its parts, runs them, and stops them in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from aiohttp import web

from dra.api.extender_configuration import TlsFiles
from dra.api.page_configuration import PageConfiguration
from dra.cli.kubectl.connection import Connection
from dra.cli.page.assets import SignIn, load_assets
from dra.cli.page.metrics import PageMetrics
from dra.cli.page.page_server import PageServer
from dra.cli.page.scoped_feeds import ScopedFeeds
from dra.cli.page.shared_cluster import SharedCluster
from dra.cli.page.team_gate import TeamGate
from dra.cli.page.token_reviews import TokenReviewer
from dra.cli.page.use_sources import PrometheusUse, SeenUse
from dra.cli.page.user_rights import RightsReviewer
from dra.cli.prometheus import PrometheusAddress
from dra.engine.device_usage.promql import selector
from dra.httpserver.connections import ConnectionLimits
from dra.httpserver.listener import HttpListener
from dra.httpserver.serving_certificate import ServingCertificate
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.rate_limiter import RateLimiter
from dra.kube.tasks import background_task
from dra.kube.transport import Transport
from dra.telemetry.telemetry_server import TelemetryServer

CONNECTION_LIMITS: Final = ConnectionLimits(max_connections=512, max_opening=256, drops_by_age=True)
"""Limits of connections: 64 streams, which are kept, and the requests of their tabs, which browsers send again; an
Ingress opens all from one address."""

REQUEST_BYTES_MAX: Final = 1024
"""Maximum number of bytes of the body of a request: no request has one."""

_log: Final = logging.getLogger(__name__)


class PageApplication:
    """One process that serves the page of one cluster."""

    def __init__(self, configuration: PageConfiguration, transport: Transport, *, clock: Clock = SYSTEM) -> None:
        self._configuration = configuration
        self._transport = transport
        self.metrics = PageMetrics(lambda: len(self.feeds))
        limiter = RateLimiter(configuration.qps, configuration.burst, clock=clock)
        client = Client(
            transport,
            limiter,
            clock=clock,
            observer=self.metrics.request,
            large_objects=self.metrics.large_objects,
        )
        connection = Connection(client=client, transport=transport, clock=clock)
        self.cluster = SharedCluster(connection, lease_namespace=configuration.lease_namespace)
        self.feeds = ScopedFeeds(self.cluster, scopes_max=configuration.max_scopes, clock=clock)
        self.address = ""
        """URL of the page once it is served."""

        tls = configuration.tls
        self._certificates = (
            ServingCertificate(TlsFiles(certificate=tls.certificate, key=tls.key), wall=clock.wall)
            if tls is not None
            else None
        )
        if self._certificates is not None:
            self.metrics.observe_certificates(self._certificates.expiries)
        gate = TeamGate(
            cluster=self.cluster,
            feeds=self.feeds,
            tokens=TokenReviewer(client, audience=configuration.audience, clock=clock),
            rights=RightsReviewer(client, clock=clock),
            metrics=self.metrics,
            allowed_hosts=configuration.allowed_hosts,
            is_secure=tls is not None,
        )
        self._seen = SeenUse(self.feeds.complete_feed, clock=clock)
        server = PageServer(gate, assets=load_assets(SignIn.TOKEN), use=self._named_prometheus(clock) or self._seen)
        application = server.application(client_max_size=REQUEST_BYTES_MAX)
        application.middlewares.insert(0, self._count_response)
        self._listener = HttpListener(
            application,
            name="page",
            endpoint=configuration.serve,
            limits=CONNECTION_LIMITS,
            observer=self.metrics.dropped,
            context=self._certificates.context if self._certificates is not None else None,
            handler_cancellation=True,  # else a client that has left an idle stream is noticed only at the next write
        )
        self.endpoints = TelemetryServer(
            probes=configuration.probes,
            metrics=configuration.metrics,
            registry=self.metrics,
            not_ready_reasons=self.feeds.not_ready_reasons,
            observer=self.metrics.dropped,
        )

    async def run(self) -> None:
        """Run until cancelled; raise ServerRestoredError and OSError: the process must end."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._transport.close)
            endpoints = await stack.enter_async_context(self.endpoints)
            for name, address in endpoints.addresses.items():
                _log.info("%s on http://%s", name, address)
            stack.callback(self.feeds.close)
            if self._certificates is not None:
                await stack.enter_async_context(background_task(self._certificates.run(), name="certificates"))
            await stack.enter_async_context(self._listener)
            self.address = f"{'https' if self._certificates is not None else 'http'}://{self._listener.address}"
            _log.info("the page is served on %s", self.address)
            async with asyncio.TaskGroup() as group:
                group.create_task(self.cluster.run(), name="cluster")
                group.create_task(self.feeds.run(), name="feeds")
                if self._configuration.prometheus is None:
                    group.create_task(self._seen.run(), name="use of devices")

    def _named_prometheus(self, clock: Clock) -> PrometheusUse | None:
        """Return the Prometheus of the configuration; users do not learn where it is.

        Raises PrometheusError and MalformedLabelError.
        """
        named = self._configuration.prometheus
        if named is None:
            return None
        selector(named.labels, any_of={})  # raises MalformedLabelError
        ca, token_file = (None if name is None else Path(name) for name in (named.ca, named.token_file))
        address = PrometheusAddress.parse(named.url, ca=ca, token_file=token_file)
        return PrometheusUse(address, labels=named.labels, tells_why=False, clock=clock)

    @web.middleware
    async def _count_response(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        response = await handler(request)
        self.metrics.responses.labels(str(response.status)).inc()
        return response
