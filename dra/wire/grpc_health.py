"""gRPC's own health service, which a probe of type ``grpc`` calls.

The kubelet's probes call `HealthServicer.check` and treat any answer but SERVING as a failure. A service that the
server does not know is an error with NOT_FOUND for `HealthServicer.check`, and SERVICE_UNKNOWN for
`HealthServicer.watch`.
"""

from collections.abc import AsyncIterator
from typing import Final, Protocol

from grpc import aio

from dra.wire.grpc_methods import ServerStreamingMethod, UnaryMethod, add_service
from dra.wire.messages.serving_v1_pb2 import DESCRIPTOR, HealthCheckRequest, HealthCheckResponse

__all__ = ["SERVICE", "HealthCheckRequest", "HealthCheckResponse", "HealthClient", "HealthServicer", "add_to_server"]

SERVICE: Final[str] = DESCRIPTOR.services_by_name["Health"].full_name

_CHECK: Final = UnaryMethod(name="Check", request=HealthCheckRequest, response=HealthCheckResponse)
_WATCH: Final = ServerStreamingMethod(name="Watch", request=HealthCheckRequest, response=HealthCheckResponse)


class HealthServicer(Protocol):
    """A servicer that reports the health of a gRPC server."""

    async def check(
        self, request: HealthCheckRequest, context: aio.ServicerContext[HealthCheckRequest, HealthCheckResponse], /
    ) -> HealthCheckResponse:
        """Return the current health of the service; an empty name stands for the server."""
        ...

    def watch(
        self, request: HealthCheckRequest, context: aio.ServicerContext[HealthCheckRequest, HealthCheckResponse], /
    ) -> AsyncIterator[HealthCheckResponse]:
        """Yield the health of the service now and after each change: an async generator."""
        ...


def add_to_server(servicer: HealthServicer, server: aio.Server) -> None:
    """Register `servicer` with the server, for probes."""
    add_service(
        server, SERVICE, {_CHECK.name: _CHECK.handler(servicer.check), _WATCH.name: _WATCH.handler(servicer.watch)}
    )


class HealthClient:
    """A client for probes."""

    def __init__(self, channel: aio.Channel) -> None:
        self.check: Final = _CHECK.call(channel, service=SERVICE)
        self.watch: Final = _WATCH.call(channel, service=SERVICE)
