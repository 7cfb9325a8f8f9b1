"""The DRA service: the kubelet prepares claims before a pod's containers are created, and unprepares them afterwards.

A response has exactly one entry for each claim of the request, by its uid: the kubelet treats a missing entry, and one
that it did not ask for, as a failure of the whole call. It waits 45 s, and repeats a failed call, so both calls must be
idempotent.

Both versions are served with the messages of v1. Only ``Device.share_id`` is missing from v1beta1, and from the v1 of
Kubernetes 1.34.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Protocol

from grpc import aio

from dra.wire.grpc_methods import UnaryMethod, add_service
from dra.wire.messages import plugin_v1_pb2, plugin_v1beta1_pb2
from dra.wire.messages.plugin_v1_pb2 import (
    Claim,
    Device,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)

__all__ = [
    "SERVICES",
    "Claim",
    "Device",
    "DraPluginClient",
    "DraPluginServicer",
    "DraPluginVersion",
    "NodePrepareResourceResponse",
    "NodePrepareResourcesRequest",
    "NodePrepareResourcesResponse",
    "NodeUnprepareResourceResponse",
    "NodeUnprepareResourcesRequest",
    "NodeUnprepareResourcesResponse",
    "add_to_server",
]


class DraPluginVersion(StrEnum):
    """Versions of the service as in ``PluginInfo.supported_versions``, newest first.

    The kubelet takes the first version that it knows.
    """

    V1 = "v1.DRAPlugin"
    V1BETA1 = "v1beta1.DRAPlugin"


SERVICES: Final[dict[DraPluginVersion, str]] = {
    DraPluginVersion.V1: plugin_v1_pb2.DESCRIPTOR.services_by_name["DRAPlugin"].full_name,
    DraPluginVersion.V1BETA1: plugin_v1beta1_pb2.DESCRIPTOR.services_by_name["DRAPlugin"].full_name,
}
"""Full names of the services; the names given to the kubelet at registration are shorter."""

_PREPARE: Final = UnaryMethod(
    name="NodePrepareResources", request=NodePrepareResourcesRequest, response=NodePrepareResourcesResponse
)
_UNPREPARE: Final = UnaryMethod(
    name="NodeUnprepareResources", request=NodeUnprepareResourcesRequest, response=NodeUnprepareResourcesResponse
)


class DraPluginServicer(Protocol):
    """The calls of the kubelet that a DRA driver answers on its node."""

    async def node_prepare_resources(
        self,
        request: NodePrepareResourcesRequest,
        context: aio.ServicerContext[NodePrepareResourcesRequest, NodePrepareResourcesResponse],
        /,
    ) -> NodePrepareResourcesResponse:
        """Prepare the devices of these claims; return an entry with an error for each claim that fails."""
        ...

    async def node_unprepare_resources(
        self,
        request: NodeUnprepareResourcesRequest,
        context: aio.ServicerContext[NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse],
        /,
    ) -> NodeUnprepareResourcesResponse:
        """Unprepare these claims, which may be gone from the API by now; an unknown claim is no error."""
        ...


def add_to_server(
    servicer: DraPluginServicer, server: aio.Server, *, versions: Iterable[DraPluginVersion] = tuple(DraPluginVersion)
) -> None:
    """Register `servicer` with the server, under the names of these versions."""
    for version in versions:
        add_service(
            server,
            SERVICES[version],
            {
                _PREPARE.name: _PREPARE.handler(servicer.node_prepare_resources),
                _UNPREPARE.name: _UNPREPARE.handler(servicer.node_unprepare_resources),
            },
        )


class DraPluginClient:
    """The kubelet's client of the service, in one version."""

    def __init__(self, channel: aio.Channel, *, version: DraPluginVersion = DraPluginVersion.V1) -> None:
        self.node_prepare_resources: Final = _PREPARE.call(channel, service=SERVICES[version])
        self.node_unprepare_resources: Final = _UNPREPARE.call(channel, service=SERVICES[version])
