"""The registry folder of a node: new sockets are registered as plugins, vanished sockets are deregistered.

The kubelet watches the folder and reconciles its known sockets every second; scanning the folder every second has
the same effect. A plugin's socket is any socket in or below the folder whose name does not begin with a dot. A socket
that was removed and created again counts as another socket, even if no scan saw it missing.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import grpc
from grpc import aio

from dra.kube.backoff import Backoff
from dra.kube.clock import Clock
from dra.wire import registration
from localplane.nodes.plugins.dra_plugin import channel_to
from localplane.nodes.plugins.responses import grpc_error_text

SYNC_SECONDS: Final = 1.0
DIAL_TIMEOUT_SECONDS: Final = 10.0
GET_INFO_TIMEOUT_SECONDS: Final = 1.0
NOTIFY_TIMEOUT_SECONDS: Final = 5.0

FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 122.0
"""Seconds between two attempts to register a socket, minimum and maximum."""

SocketIdentity = tuple[int, int]
"""Inode number and modification time, which distinguish a socket from a later one at the same path."""

_log: Final = logging.getLogger(__name__)


class RegistrationError(Exception):
    """A plugin cannot be registered; the text is the kubelet's."""


class PluginHandler(Protocol):
    """Receives the plugins that are registered and deregistered."""

    def validate(self, driver: str, endpoint: str, versions: list[str]) -> None:
        """Raise ValueError if such a plugin is not supported."""
        ...

    def register(self, driver: str, endpoint: str, versions: list[str]) -> None:
        """Add a plugin; raises ValueError."""
        ...

    def deregister(self, driver: str, endpoint: str) -> None:
        """Remove a plugin that was registered."""
        ...


@dataclass(slots=True)
class _WatchedSocket:
    """A socket in the registry folder."""

    identity: SocketIdentity
    plugin: tuple[str, str] | None = None
    """Driver and endpoint, once the plugin is registered."""
    attempt: asyncio.Task[None] | None = None
    due: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=FIRST_RETRY, cap=LAST_RETRY))


class PluginWatcher:
    """Watches the registry folder of one node."""

    def __init__(
        self, folder: Path, handler: PluginHandler, *, node: str, clock: Clock, sync_seconds: float = SYNC_SECONDS
    ) -> None:
        self._folder = folder
        self._sync_seconds = sync_seconds
        self._handler = handler
        self._node = node
        self._clock = clock
        self._sockets: dict[str, _WatchedSocket] = {}

    async def run(self) -> None:
        """Scan the folder until cancelled, then deregister all plugins."""
        try:
            while True:
                self.sync()
                await asyncio.sleep(self._sync_seconds)
        finally:
            self.reset()

    def sync(self) -> None:
        """Compare the folder with the known sockets once."""
        sockets = dict(_find_sockets(self._folder))
        for path, known in tuple(self._sockets.items()):
            if sockets.get(path) != known.identity:
                self._deregister(path)
        for path, identity in sockets.items():
            known = self._sockets.setdefault(path, _WatchedSocket(identity))
            idle = known.attempt is None or known.attempt.done()
            if known.plugin is None and idle and self._clock.now() >= known.due:
                known.attempt = asyncio.ensure_future(self._attempt(path, known))

    def reset(self) -> None:
        """Deregister all plugins, as a kubelet that starts."""
        for path in tuple(self._sockets):
            self._deregister(path)

    def _deregister(self, path: str) -> None:
        known = self._sockets.pop(path)
        if known.attempt is not None:
            known.attempt.cancel()
        if known.plugin is not None:
            self._handler.deregister(*known.plugin)

    async def _attempt(self, path: str, known: _WatchedSocket) -> None:
        try:
            await self._register(path, known)
        except RegistrationError as error:
            _log.warning("node %s: %s", self._node, error)
            known.due = self._clock.now() + known.backoff.next()
        except Exception:  # noqa: BLE001 - a plugin may be anybody's, and the others go on
            _log.exception("node %s: socket %s cannot be registered: internal error", self._node, path)
            known.due = self._clock.now() + known.backoff.next()

    async def _register(self, path: str, known: _WatchedSocket) -> None:
        """Ask a socket for its plugin, register the plugin and notify it of the outcome; raises `RegistrationError`."""
        failed = "RegisterPlugin error --"
        async with channel_to(path) as channel:
            try:
                async with asyncio.timeout(DIAL_TIMEOUT_SECONDS):
                    await _wait_connected(channel)
            except TimeoutError as error:
                raise RegistrationError(f"{failed} dial failed at socket {path}: nobody answers") from error
            client = registration.RegistrationClient(channel)
            try:
                info = await client.get_info(registration.InfoRequest(), timeout=GET_INFO_TIMEOUT_SECONDS)
            except aio.AioRpcError as error:
                cause = grpc_error_text(error)
                raise RegistrationError(
                    f"{failed} failed to get plugin info using RPC GetInfo at socket {path}, err: {cause}"
                ) from error
            driver, endpoint, versions = info.name, info.endpoint or path, list(info.supported_versions)
            refusal = ""
            if info.type != registration.PLUGIN_TYPE:
                refusal = f"no handler registered for plugin type: {info.type} at socket {path}"
            else:
                try:
                    self._handler.validate(driver, endpoint, versions)
                    refusal = "plugin registration failed with err: "
                    self._handler.register(driver, endpoint, versions)
                    refusal = ""
                except ValueError as error:
                    refusal = f"{refusal or 'plugin validation failed with err: '}{error}"
            if refusal:
                await _notify(client, path, error=f"{failed} {refusal}")
                raise RegistrationError(f"{failed} {refusal}")
            known.plugin = (driver, endpoint)
            try:
                await _notify(client, path, error="")
            except RegistrationError:
                known.plugin = None
                self._handler.deregister(driver, endpoint)
                raise
            known.backoff.reset()


async def _wait_connected(channel: aio.Channel) -> None:
    """Wait until the channel is connected."""
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        await channel.wait_for_state_change(state)


async def _notify(client: registration.RegistrationClient, path: str, *, error: str) -> None:
    status = registration.RegistrationStatus(plugin_registered=not error, error=error)
    try:
        await client.notify_registration_status(status, timeout=NOTIFY_TIMEOUT_SECONDS)
    except aio.AioRpcError as failure:
        what = "failed to send error" if error else "failed to send registration status"
        raise RegistrationError(
            f"RegisterPlugin error -- {what} at socket {path}, err: {error}: {grpc_error_text(failure)}"
        ) from failure


def _find_sockets(folder: Path) -> Iterator[tuple[str, SocketIdentity]]:
    """Yield the sockets in a folder and below it."""
    for where, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(where, name)  # noqa: PTH118 - every second, for each node
            if name.startswith("."):
                continue
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(status.st_mode):
                yield path, (status.st_ino, status.st_mtime_ns)
