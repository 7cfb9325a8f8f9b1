"""Registration: the kubelet finds a socket in its registry folder and asks whose it is.

It waits one second for `Registration.get_info`, connects to the endpoint of the answer, and then says with
`Registration.notify_registration_status` whether it accepted the plugin; an error answer to that drops the plugin
again. A plugin goes away by removing the socket from the folder.
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
"""`PluginInfo.type` of a DRA driver; the kubelet has other plugins, too."""

_GET_INFO: Final = UnaryMethod(name="GetInfo", request=InfoRequest, response=PluginInfo)
_NOTIFY: Final = UnaryMethod(
    name="NotifyRegistrationStatus", request=RegistrationStatus, response=RegistrationStatusResponse
)


class RegistrationServicer(Protocol):
    """What answers on the registration socket."""

    async def get_info(
        self, request: InfoRequest, context: aio.ServicerContext[InfoRequest, PluginInfo], /
    ) -> PluginInfo:
        """Say which driver this is, and where it is served."""
        ...

    async def notify_registration_status(
        self,
        request: RegistrationStatus,
        context: aio.ServicerContext[RegistrationStatus, RegistrationStatusResponse],
        /,
    ) -> RegistrationStatusResponse:
        """Take note of what the kubelet made of it."""
        ...


def add_to_server(servicer: RegistrationServicer, server: aio.Server) -> None:
    """Let the server answer the kubelet's questions with `servicer`."""
    add_service(
        server,
        SERVICE,
        {
            _GET_INFO.name: _GET_INFO.handler(servicer.get_info),
            _NOTIFY.name: _NOTIFY.handler(servicer.notify_registration_status),
        },
    )


class RegistrationClient:
    """The kubelet's side."""

    def __init__(self, channel: aio.Channel) -> None:
        self.get_info: Final = _GET_INFO.call(channel, service=SERVICE)
        self.notify_registration_status: Final = _NOTIFY.call(channel, service=SERVICE)
