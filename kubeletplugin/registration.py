"""How the kubelet gets to know a driver, and what it makes of it.

The kubelet watches a folder; a socket that appears there is asked who it is (`GetInfo`, one second), then it connects
to the DRA socket, and says whether it took the driver. When the socket goes, so does the driver. So the DRA server
listens before the registrar does, and stops after it; a socket that somebody removed comes back
(`kubeletplugin.socket_listener`).

Here is only what is said on that socket. It must never wait for anything: not for a claim, not for the API server.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from grpc import aio

from dra.wire import devicehealth, plugin, registration
from dra.wire.registration import (
    PLUGIN_TYPE,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

SUPPORTED_VERSIONS: Final = (*plugin.DraPluginVersion, *devicehealth.DraResourceHealthVersion)
"""Newest first in each service: the kubelet takes the first one that it knows."""

REMEDIES: Final = {
    "none of services supported": (
        "this kubelet knows no version of DRA that the plugin speaks; it must be 1.34 or newer, or 1.32 with v1beta1"
    ),
    "already registered": (
        "another plugin of this name has the same socket; stop it, or give each its own --pod-uid for a rolling update"
    ),
    "create gRPC connection": (
        "the kubelet cannot open the socket: the folder of --plugins must have the same path inside the plugin's "
        "container as on the node"
    ),
    "no handler registered": (
        "this kubelet does not do DRA: it is too old, or its feature DynamicResourceAllocation is off"
    ),
}
"""By what the kubelet's error contains."""

_DEFAULT_REMEDY: Final = (
    "see the kubelet's log; it asks again when the socket is made anew, that is: restart the plugin"
)
_log: Final = logging.getLogger(__name__)


class Registrar:
    """Implements `dra.wire.registration.RegistrationServicer` for one driver."""

    def __init__(self, driver: str, *, endpoint: Path) -> None:
        self._driver = driver
        self._endpoint = endpoint
        self.registered = False
        """Whether the kubelet has taken the driver, as it last said."""

        self.known = asyncio.Event()
        """Set once the kubelet has taken the driver for the first time."""

        self.problem = f"driver {driver}: the kubelet has not asked for it yet"
        """Why it is not in use; empty when it is."""

    def add_to_server(self, server: aio.Server) -> None:
        """Serve it."""
        registration.add_to_server(self, server)

    async def get_info(
        self, request: InfoRequest, context: aio.ServicerContext[InfoRequest, PluginInfo], /
    ) -> PluginInfo:
        """Say which driver this is, and where."""
        del request, context
        return PluginInfo(
            type=PLUGIN_TYPE,
            name=self._driver,
            endpoint=str(self._endpoint),
            supported_versions=[version.value for version in SUPPORTED_VERSIONS],
        )

    async def notify_registration_status(
        self,
        request: RegistrationStatus,
        context: aio.ServicerContext[RegistrationStatus, RegistrationStatusResponse],
        /,
    ) -> RegistrationStatusResponse:
        """Take note of the kubelet's answer."""
        del context
        self.registered = request.plugin_registered
        if request.plugin_registered:
            self.problem = ""
            self.known.set()
            _log.info("driver %s: registered with the kubelet", self._driver)
        else:
            self.problem = (
                f"driver {self._driver}: refused by the kubelet: {request.error}; {remedy_for(request.error)}"
            )
            _log.error("%s", self.problem)
        return RegistrationStatusResponse()


def remedy_for(error: str) -> str:
    """Return what to do about an error of the kubelet's."""
    return next((text for part, text in REMEDIES.items() if part in error), _DEFAULT_REMEDY)
