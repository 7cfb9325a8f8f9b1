"""The DRA service: the kubelet has claims prepared before a pod's containers are made, and gives them back afterwards.

An answer has exactly one entry for each claim of the request, by its uid: the kubelet takes a missing one, and one that
it did not ask for, as a failure of the whole call. It waits 45 s, and repeats a call that failed, so both calls must
lead to the same end when they come twice.

Both versions are served with the messages of v1. All that v1beta1 lacks is ``Device.share_id``; so does the v1 of
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
    """As in ``PluginInfo.supported_versions``, newest first: the kubelet takes the first one that it knows."""

    V1 = "v1.DRAPlugin"
    V1BETA1 = "v1beta1.DRAPlugin"


SERVICES: Final[dict[DraPluginVersion, str]] = {
    DraPluginVersion.V1: plugin_v1_pb2.DESCRIPTOR.services_by_name["DRAPlugin"].full_name,
    DraPluginVersion.V1BETA1: plugin_v1beta1_pb2.DESCRIPTOR.services_by_name["DRAPlugin"].full_name,
}
"""The full names; what the kubelet is told at registration is not one."""

_PREPARE: Final = UnaryMethod(
    name="NodePrepareResources", request=NodePrepareResourcesRequest, response=NodePrepareResourcesResponse
)
_UNPREPARE: Final = UnaryMethod(
    name="NodeUnprepareResources", request=NodeUnprepareResourcesRequest, response=NodeUnprepareResourcesResponse
)


class DraPluginServicer(Protocol):
    """What a DRA driver can do on its node."""

    async def node_prepare_resources(
        self,
        request: NodePrepareResourcesRequest,
        context: aio.ServicerContext[NodePrepareResourcesRequest, NodePrepareResourcesResponse],
        /,
    ) -> NodePrepareResourcesResponse:
        """Make the devices of these claims ready; an entry with an error for each claim that cannot be."""
        ...

    async def node_unprepare_resources(
        self,
        request: NodeUnprepareResourcesRequest,
        context: aio.ServicerContext[NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse],
        /,
    ) -> NodeUnprepareResourcesResponse:
        """Take them back; claims may be gone from the API by now, and one that is not known is no error."""
        ...


def add_to_server(
    servicer: DraPluginServicer, server: aio.Server, *, versions: Iterable[DraPluginVersion] = tuple(DraPluginVersion)
) -> None:
    """Let the server prepare and unprepare with `servicer`, under the names of these versions."""
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
    """The kubelet's side, in one version."""

    def __init__(self, channel: aio.Channel, *, version: DraPluginVersion = DraPluginVersion.V1) -> None:
        self.node_prepare_resources: Final = _PREPARE.call(channel, service=SERVICES[version])
        self.node_unprepare_resources: Final = _UNPREPARE.call(channel, service=SERVICES[version])
