"""One instance of a plugin: the connection to the plugin, and the kubelet's calls over it.

The connection is kept up between calls, because its state decides two things: which of several instances is
called, and whether the ResourceSlices of the driver may stay.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import grpc
from grpc import aio

from dra.model.meta import Uid
from dra.wire import plugin
from localplane.nodes.drivers import ClaimIdentity, Device
from localplane.nodes.plugins import responses

CALL_TIMEOUT_SECONDS: Final = 45.0
"""Seconds that the kubelet waits for a response."""

CHANNEL_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),  # a recreated socket must not wait for the backoff of the old one
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
)


def channel_to(path: str) -> aio.Channel:
    """Return a channel to a socket."""
    return aio.insecure_channel(f"unix:{path}", options=CHANNEL_OPTIONS)


class DraPlugin:
    """A registered instance of a driver's plugin."""

    def __init__(
        self, *, driver: str, path: str, version: plugin.DraPluginVersion, on_change: Callable[[], None]
    ) -> None:
        """Take ``on_change``, which is called when the connection comes up or goes down."""
        self.driver = driver
        self.path = path
        self.version = version
        self.connected = False
        self.channel = channel_to(path)
        self._on_change = on_change
        self._client = plugin.DraPluginClient(self.channel, version=version)

    def __str__(self) -> str:
        return f"driver {self.driver} at {self.path}"

    async def keep_connected(self) -> None:
        """Keep the connection up until cancelled, then close the channel."""
        try:
            while True:
                state = self.channel.get_state(try_to_connect=True)
                self._set_connected(connected=state is grpc.ChannelConnectivity.READY)
                await self.channel.wait_for_state_change(state)
        finally:
            self.connected = False
            await asyncio.shield(self.channel.close())

    async def prepare(self, claims: Sequence[ClaimIdentity]) -> dict[Uid, tuple[Device, ...]]:
        """Call the plugin to prepare claims; raises `DriverError`."""
        request = plugin.NodePrepareResourcesRequest(claims=map(_claim, claims))
        try:
            response = await self._client.node_prepare_resources(request, timeout=CALL_TIMEOUT_SECONDS)
        except aio.AioRpcError as error:
            raise responses.call_error(responses.PREPARE_METHOD, error) from error
        return responses.prepared_devices(self.driver, claims, response)

    async def unprepare(self, claims: Sequence[ClaimIdentity]) -> None:
        """Call the plugin to unprepare claims; raises `DriverError`."""
        request = plugin.NodeUnprepareResourcesRequest(claims=map(_claim, claims))
        try:
            response = await self._client.node_unprepare_resources(request, timeout=CALL_TIMEOUT_SECONDS)
        except aio.AioRpcError as error:
            raise responses.call_error(responses.UNPREPARE_METHOD, error) from error
        responses.check_unprepared(claims, response)

    def _set_connected(self, *, connected: bool) -> None:
        if connected != self.connected:
            self.connected = connected
            self._on_change()


def _claim(identity: ClaimIdentity) -> plugin.Claim:
    namespace, name = identity.key
    return plugin.Claim(namespace=namespace, uid=identity.uid, name=name)
