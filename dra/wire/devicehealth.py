"""The health of devices: a stream that the kubelet opens and that never ends, with a message for each change.

Each message lists all devices of the driver. The health of a device is valid for its ``health_check_timeout_seconds``
(30 s where that is 0) from ``last_updated_time`` on, then it counts as UNKNOWN: repeat it before. The end of the stream
has the same effect at once, and the kubelet opens another stream after 5 s. A kubelet of 1.36 asks every plugin,
whether or not the plugin registered the service.

There has never been a v1beta1, and v1 and v1alpha1 differ only in their names: both are served with the messages of v1.
"""

from collections.abc import AsyncIterator, Iterable
from enum import StrEnum
from typing import Final, Protocol

from grpc import aio

from dra.wire.grpc_methods import ServerStreamingMethod, add_service
from dra.wire.messages import devicehealth_v1_pb2, devicehealth_v1alpha1_pb2
from dra.wire.messages.devicehealth_v1_pb2 import (
    DeviceHealth,
    DeviceIdentifier,
    HealthStatus,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)

__all__ = [
    "SERVICES",
    "DeviceHealth",
    "DeviceIdentifier",
    "DraResourceHealthClient",
    "DraResourceHealthServicer",
    "DraResourceHealthVersion",
    "HealthStatus",
    "NodeWatchResourcesRequest",
    "NodeWatchResourcesResponse",
    "add_to_server",
]


class DraResourceHealthVersion(StrEnum):
    """Versions of the service as in ``PluginInfo.supported_versions``, newest first."""

    V1 = "v1.DRAResourceHealth"
    V1ALPHA1 = "v1alpha1.DRAResourceHealth"


SERVICES: Final[dict[DraResourceHealthVersion, str]] = {
    DraResourceHealthVersion.V1: devicehealth_v1_pb2.DESCRIPTOR.services_by_name["DRAResourceHealth"].full_name,
    DraResourceHealthVersion.V1ALPHA1: devicehealth_v1alpha1_pb2.DESCRIPTOR.services_by_name[
        "DRAResourceHealth"
    ].full_name,
}

_WATCH: Final = ServerStreamingMethod(
    name="NodeWatchResources", request=NodeWatchResourcesRequest, response=NodeWatchResourcesResponse
)


class DraResourceHealthServicer(Protocol):
    """A servicer that reports the health of devices."""

    def node_watch_resources(
        self,
        request: NodeWatchResourcesRequest,
        context: aio.ServicerContext[NodeWatchResourcesRequest, NodeWatchResourcesResponse],
        /,
    ) -> AsyncIterator[NodeWatchResourcesResponse]:
        """Yield all devices now and after each change, until the kubelet cancels: an async generator."""
        ...


def add_to_server(
    servicer: DraResourceHealthServicer,
    server: aio.Server,
    *,
    versions: Iterable[DraResourceHealthVersion] = tuple(DraResourceHealthVersion),
) -> None:
    """Register `servicer` with the server, under the names of these versions."""
    for version in versions:
        add_service(server, SERVICES[version], {_WATCH.name: _WATCH.handler(servicer.node_watch_resources)})


class DraResourceHealthClient:
    """The kubelet's client of the service, in one version."""

    def __init__(
        self, channel: aio.Channel, *, version: DraResourceHealthVersion = DraResourceHealthVersion.V1ALPHA1
    ) -> None:
        self.node_watch_resources: Final = _WATCH.call(channel, service=SERVICES[version])
