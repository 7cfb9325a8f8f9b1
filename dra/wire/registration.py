"""Registration: the kubelet finds a socket in its registry folder and asks for the plugin behind it.

It waits one second for `RegistrationServicer.get_info`, connects to the endpoint of the answer, and then reports with
`RegistrationServicer.notify_registration_status` whether it accepted the plugin; an error in response drops the plugin
again. A plugin unregisters by removing the socket from the folder.
"""

from typing import Final, Protocol

from grpc import aio

from dra.wire.grpc_methods import UnaryMethod, add_service
from dra.wire.messages.registration_v1_pb2 import (
    DESCRIPTOR,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

__all__ = [
    "PLUGIN_TYPE",
    "SERVICE",
    "InfoRequest",
    "PluginInfo",
    "RegistrationClient",
    "RegistrationServicer",
    "RegistrationStatus",
    "RegistrationStatusResponse",
    "add_to_server",
]

SERVICE: Final[str] = DESCRIPTOR.services_by_name["Registration"].full_name

PLUGIN_TYPE: Final = "DRAPlugin"
"""`PluginInfo.type` of a DRA driver; the kubelet has other plugin types, too."""

_GET_INFO: Final = UnaryMethod(name="GetInfo", request=InfoRequest, response=PluginInfo)
_NOTIFY: Final = UnaryMethod(
    name="NotifyRegistrationStatus", request=RegistrationStatus, response=RegistrationStatusResponse
)


class RegistrationServicer(Protocol):
    """A servicer for the registration socket."""

    async def get_info(
        self, request: InfoRequest, context: aio.ServicerContext[InfoRequest, PluginInfo], /
    ) -> PluginInfo:
        """Return the name of the driver and its endpoint."""
        ...

    async def notify_registration_status(
        self,
        request: RegistrationStatus,
        context: aio.ServicerContext[RegistrationStatus, RegistrationStatusResponse],
        /,
    ) -> RegistrationStatusResponse:
        """Receive the kubelet's verdict on the registration."""
        ...


def add_to_server(servicer: RegistrationServicer, server: aio.Server) -> None:
    """Register `servicer` with the server, for the kubelet's calls."""
    add_service(
        server,
        SERVICE,
        {
            _GET_INFO.name: _GET_INFO.handler(servicer.get_info),
            _NOTIFY.name: _NOTIFY.handler(servicer.notify_registration_status),
        },
    )


class RegistrationClient:
    """The kubelet's client of the service."""

    def __init__(self, channel: aio.Channel) -> None:
        self.get_info: Final = _GET_INFO.call(channel, service=SERVICE)
        self.notify_registration_status: Final = _NOTIFY.call(channel, service=SERVICE)
