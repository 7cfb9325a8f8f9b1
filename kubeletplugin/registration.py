"""Registration of a driver with the kubelet.

The kubelet watches a directory. When a socket appears there, the kubelet calls `GetInfo` (timeout: one second), then
connects to the DRA socket, and reports whether it registered the driver. When the socket disappears, the kubelet
removes the driver. So the DRA server listens before the registrar does, and stops after it; a socket that was removed
while the plugin runs is created again (`kubeletplugin.socket_listener`).

This module only serves that socket. Its answers must never wait: not for a claim, not for the API server.
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
"""Supported versions, newest first in each service: the kubelet uses the first one that it knows."""

REMEDIES: Final = {
    "none of services supported": (
        "the kubelet supports no DRA version of the plugin; use a kubelet of 1.34 or newer, or 1.32 with v1beta1"
    ),
    "already registered": (
        "another plugin has registered this name; stop it, or start each instance of a rolling update with its own "
        "--pod-uid"
    ),
    "create gRPC connection": (
        "the kubelet cannot open the socket; mount the directory of --plugins into the plugin's container under the "
        "same path as on the node"
    ),
    "no handler registered": (
        "the kubelet does not support DRA: it is too old, or it is of 1.34 and its feature gate "
        "DynamicResourceAllocation is disabled"
    ),
}
"""Remedies by a part of the kubelet's error."""

_DEFAULT_REMEDY: Final = (
    "see the kubelet's log, then restart the plugin: the kubelet retries when the socket is created again"
)
_log: Final = logging.getLogger(__name__)


class Registrar:
    """The registrar of one driver; implements `dra.wire.registration.RegistrationServicer`."""

    def __init__(self, driver: str, *, endpoint: Path) -> None:
        self._driver = driver
        self._endpoint = endpoint
        self.registered = False
        """Whether the kubelet has registered the driver, according to its last notification."""

        self.known = asyncio.Event()
        """Set once the kubelet has registered the driver for the first time."""

        self.problem = f"driver {driver}: the kubelet has not registered it yet"
        """Reason why the driver is not registered; empty if it is."""

    def add_to_server(self, server: aio.Server) -> None:
        """Add the registration service to a gRPC server."""
        registration.add_to_server(self, server)

    async def get_info(
        self, request: InfoRequest, context: aio.ServicerContext[InfoRequest, PluginInfo], /
    ) -> PluginInfo:
        """Return the driver's name, its endpoint and its supported versions."""
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
        """Record whether the kubelet has registered the driver."""
        del context
        self.registered = request.plugin_registered
        if request.plugin_registered:
            self.problem = ""
            self.known.set()
            _log.info("driver %s: registered with the kubelet", self._driver)
        else:
            self.problem = (
                f"driver {self._driver}: rejected by the kubelet: {request.error}; {remedy_for(request.error)}"
            )
            _log.error("%s", self.problem)
        return RegistrationStatusResponse()


def remedy_for(error: str) -> str:
    """Return the remedy for a registration error of the kubelet."""
    return next((text for part, text in REMEDIES.items() if part in error), _DEFAULT_REMEDY)
