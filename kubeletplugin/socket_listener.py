"""A gRPC server on a unix socket that exists exactly as long as the server serves.

A socket appears complete: it is bound under a hidden name, made private (0600) and then renamed, so that no client ever
finds a socket that other users can open or that does not answer yet; kubelets ignore hidden names. The listener removes
the socket, and only if it is still the one that the listener created: gRPC itself would remove any file with that path.

When a directory is wiped (``/var/lib/kubelet`` is recreated, an administrator cleans up), sockets vanish without a
notice to their server. So the listener checks the socket once a second and listens again if it is lost.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from grpc import aio

from kubeletplugin.sockets import SocketPathError, ensure_private_directory, remove_stale_socket, validate_socket_path
from kubeletplugin.ticks import until_tick

CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of the socket, or for the missing directory of the socket."""

REPLACED_GRACE: Final = 1.0
"""Seconds for calls on a lost socket to finish; their work goes on after that, and the kubelet retries."""

MAX_CALL_SIZE: Final = 4 * 2**20
"""Maximum bytes of one call of the kubelet, which has all claims of a pod. An API server stores pods of 1.5 MB."""

GRPC_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 60_000),  # detects a kubelet that is gone without closing its connection
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),  # permits the kubelet's own keepalive
    ("grpc.max_receive_message_length", MAX_CALL_SIZE),
)

_MODE: Final = 0o600
_log: Final = logging.getLogger(__name__)


class DirectoryMissingError(OSError):
    """A directory that the kubelet creates does not exist."""


def ensure_own_directory(folder: Path) -> None:
    """Create the plugin's own private directory, if it does not exist."""
    ensure_private_directory(folder)


def require_kubelet_directory(folder: Path) -> None:
    """Raise DirectoryMissingError unless the directory exists."""
    if not folder.is_dir():
        raise DirectoryMissingError(f"directory {folder}: does not exist")


class SocketListener:
    """The listener of one gRPC server on one socket: `open` it, run `keep` beside it, `close` it."""

    def __init__(
        self,
        path: Path,
        *,
        option: str,
        services: Callable[[aio.Server], None],
        folder: Callable[[Path], None] = ensure_own_directory,
    ) -> None:
        """Create a listener; raises SocketPathError, naming `option`, for an invalid path.

        `option` is the option of the command line that sets the directory, `services` adds services to the server, and
        `folder` creates or requires the directory.
        """
        self.path = validate_socket_path(path, option=option)
        self._option = option
        self._services = services
        self._folder = folder
        self._server: aio.Server | None = None
        self._inode: tuple[int, int] | None = None
        self._problem = ""

    @property
    def lost(self) -> bool:
        """Whether the socket that this listener created is gone or replaced."""
        return self._inode is None or self._inode != _inode(self.path)

    async def open(self) -> None:
        """Listen on the socket; wait for a directory that the kubelet creates. Raises SocketPathError, OSError."""
        logged = False
        while True:
            try:
                await self._listen()
            except DirectoryMissingError:
                if not logged:
                    _log.warning("directory %s: does not exist yet; waiting for the kubelet to create it. "
                                 "If the kubelet has another root directory, set %s",
                                 self.path.parent, self._option)  # fmt: skip
                    logged = True
                await asyncio.sleep(CHECK_INTERVAL)
            else:
                return

    async def keep(self) -> None:
        """Restore the socket whenever it is lost, until cancelled."""
        while True:
            await asyncio.sleep(until_tick(CHECK_INTERVAL))
            if not self.lost:
                continue
            before = self._server
            try:
                await self._listen()
            except (SocketPathError, OSError) as error:
                self._tell(f"socket {self.path}: was removed and cannot be created again: {error}")
                continue
            self._problem = ""
            _log.warning("socket %s: was removed; created it again", self.path)
            if before is not None:
                await before.stop(REPLACED_GRACE)

    async def close(self, *, grace: float) -> None:
        """Remove the socket, then wait at most `grace` seconds for calls to end."""
        if self._inode is not None and not self.lost:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
        self._inode = None
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(grace)

    async def _listen(self) -> None:
        self._folder(self.path.parent)
        await asyncio.to_thread(remove_stale_socket, self.path)
        draft = self.path.with_name(f".{secrets.token_hex(3)}")  # no longer than the final name
        server = aio.server(options=GRPC_OPTIONS)
        self._services(server)
        try:
            server.add_insecure_port(f"unix:{draft}")
        except RuntimeError as error:
            raise OSError(f"socket {self.path}: cannot be created: {error}") from error
        try:
            await server.start()
            draft.chmod(_MODE)
            draft.rename(self.path)
        except BaseException:
            await server.stop(None)
            draft.unlink(missing_ok=True)
            raise
        self._server, self._inode = server, _inode(self.path)

    def _tell(self, text: str) -> None:
        _log.log(logging.DEBUG if text == self._problem else logging.ERROR, "%s", text)  # once, not every second
        self._problem = text


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)
