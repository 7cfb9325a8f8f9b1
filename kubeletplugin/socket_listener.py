"""A gRPC server on a unix socket that is there for as long as it should be, and not a moment longer.

A socket appears complete: it is bound under a hidden name, made ours alone (0600) and then renamed, so that nobody
ever finds one that is open to others or that does not answer yet; kubelets look past hidden names. It is taken away by
us, and only if it is still the one we made: gRPC itself would remove whatever has its path by then.

A folder that is wiped (``/var/lib/kubelet`` made anew, somebody tidying up) takes sockets with it without a word to who
listens. So we look once a second and listen anew.
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

CHECK_INTERVAL: Final = 1.0
"""Between two looks at the socket, or for the folder that is to hold it."""

REPLACED_GRACE: Final = 1.0
"""Seconds for calls on a socket that has been lost; what they do goes on, and the kubelet asks again."""

GRPC_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 60_000),  # a kubelet that is gone without a word is noticed
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),  # and may ask the same of us
    ("grpc.max_receive_message_length", 16 * 2**20),
)

_MODE: Final = 0o600
_log: Final = logging.getLogger(__name__)


class DirectoryMissingError(OSError):
    """The folder is the kubelet's to make, and is not there."""


def ensure_own_directory(folder: Path) -> None:
    """Have a folder of our own there."""
    ensure_private_directory(folder)


def require_kubelet_directory(folder: Path) -> None:
    """Raise FolderMissingError unless it is there."""
    if not folder.is_dir():
        raise DirectoryMissingError(f"folder {folder}: is not there")


class SocketListener:
    """One server on one socket; `open` it, let `keep` run beside it, `close` it."""

    def __init__(
        self,
        path: Path,
        *,
        option: str,
        services: Callable[[aio.Server], None],
        folder: Callable[[Path], None] = ensure_own_directory,
    ) -> None:
        """`option` of the command line says where the socket is; `services` adds what is served."""
        self.path = validate_socket_path(path, option=option)
        self._option = option
        self._services = services
        self._folder = folder
        self._server: aio.Server | None = None
        self._inode: tuple[int, int] | None = None
        self._problem = ""

    @property
    def lost(self) -> bool:
        """Whether the socket that we made is not there any more."""
        return self._inode is None or self._inode != _inode(self.path)

    async def open(self) -> None:
        """Listen; waits for a folder that others make. Raises SocketPathError, OSError."""
        told = False
        while True:
            try:
                await self._listen()
            except DirectoryMissingError:
                if not told:
                    _log.warning("folder %s: is not there yet; waiting until the kubelet has it. If it has "
                                 "another root folder, give that to %s", self.path.parent, self._option)  # fmt: skip
                    told = True
                await asyncio.sleep(CHECK_INTERVAL)
            else:
                return

    async def keep(self) -> None:
        """Listen anew whenever the socket gets lost, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            if not self.lost:
                continue
            before = self._server
            try:
                await self._listen()
            except (SocketPathError, OSError) as error:
                self._tell(f"socket {self.path}: was removed and cannot be made again: {error}")
                continue
            self._problem = ""
            _log.warning("socket %s: was removed by somebody; it is there again", self.path)
            if before is not None:
                await before.stop(REPLACED_GRACE)

    async def close(self, *, grace: float) -> None:
        """Take the socket away, then wait for calls to end, at most `grace` seconds."""
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
        draft = self.path.with_name(f".{secrets.token_hex(3)}")  # no longer than the name it gets
        server = aio.server(options=GRPC_OPTIONS)
        self._services(server)
        try:
            server.add_insecure_port(f"unix:{draft}")
        except RuntimeError as error:
            raise OSError(f"socket {self.path}: cannot be made: {error}") from error
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
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino)
