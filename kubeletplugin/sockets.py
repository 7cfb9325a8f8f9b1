"""Unix sockets and directories of the plugin: paths of sockets, sockets that other instances left, private directories.

A single instance uses ``PLUGINS/DRIVER/dra.sock`` and ``REGISTRY/DRIVER-reg.sock``. Instances that overlap in a rolling
update are distinguished by the uid of their pod, which is then part of both names. Where that makes a path too long for
a unix socket, a hash of the uid takes its place, and if necessary one of the driver's name.
"""

import errno
import hashlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dra.model.meta import Struct
from kubeletplugin.cdi import validate_driver_name

MAX_SOCKET_PATH: Final = 107
"""Maximum length of a unix socket's path in bytes (``sun_path`` without the terminating zero)."""

CONNECT_TIMEOUT: Final = 1.0

PLUGINS_OPTION: Final = "--plugins"
REGISTRY_OPTION: Final = "--registry"

_HASH_LENGTH: Final = 12
_POD_UID_LENGTH: Final = 63


class SocketPathError(ValueError):
    """A socket cannot be at the requested path; the text names path and option."""


def validate_socket_path(path: Path, *, option: str) -> Path:
    """Return the path if it is valid for a unix socket; raises SocketPathError that names the option to change."""
    if not path.is_absolute():
        raise SocketPathError(f"socket {path}: must be an absolute path; change {option}")
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH:
        raise SocketPathError(
            f"socket {path}: the path has {length} bytes, but unix sockets allow {MAX_SOCKET_PATH}; "
            f"choose a directory with a shorter path: {option}"
        )
    return path


def ensure_private_directory(path: Path) -> Path:
    """Create a directory if necessary, restrict access to this user (0700), and return the path.

    Raises OSError: NotADirectoryError for a symbolic link.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != stat.S_IRWXU:
            os.fchmod(descriptor, stat.S_IRWXU)
    finally:
        os.close(descriptor)
    return path


def remove_stale_socket(path: Path) -> bool:
    """Remove a socket that a dead process left; return whether there was one.

    Raises SocketPathError, and removes nothing, if a process listens there, or if the file is no socket.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(mode):
        raise SocketPathError(f"socket {path}: exists, but is not a socket; move the file away")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_TIMEOUT)
        try:
            probe.connect(os.fspath(path))
        except TimeoutError:
            pass  # its backlog is full: a process listens
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.ENOENT):
                raise
            path.unlink(missing_ok=True)
            return True
    raise SocketPathError(
        f"socket {path}: another process listens there; stop it, "
        "or start each instance of a rolling update with its own --pod-uid"
    )


class SocketPaths(Struct, frozen=True):
    """The paths of one driver in one instance of the plugin."""

    folder: Path
    """The driver's directory, with socket, checkpoint and lock."""

    dra: Path
    registration: Path


def driver_socket_paths(driver: str, *, plugins: Path, registry: Path, pod_uid: str = "") -> SocketPaths:
    """Return the paths of a driver's sockets; raises ValueError for a name or uid that is unsafe in a file name."""
    folder = plugins / validate_driver_name(driver)
    if pod_uid and (len(pod_uid) > _POD_UID_LENGTH or not pod_uid.replace("-", "").isalnum() or not pod_uid.isascii()):
        raise ValueError(
            f"pod uid {pod_uid[:_POD_UID_LENGTH]!r}: not a valid uid; use metadata.uid of the plugin's own pod"
        )
    part = f"-{pod_uid}" if pod_uid else ""
    dra, registration = folder / f"dra{part}.sock", registry / f"{driver}{part}-reg.sock"
    if pod_uid and _is_too_long(dra):
        dra = folder / f"dra-{_hash(pod_uid)}.sock"
    if pod_uid and _is_too_long(registration):
        registration = registry / f"{driver}-{_hash(pod_uid)}-reg.sock"
    if _is_too_long(registration):
        part = f"-{_hash(pod_uid)}" if pod_uid else ""
        registration = registry / f"{_hash(driver)}{part}-reg.sock"
    return SocketPaths(folder=folder, dra=dra, registration=registration)


def sibling_sockets(names: SocketPaths, driver: str) -> Iterator[Path]:
    """Yield the sockets of other instances of this driver; a dead instance may have left its sockets."""
    registry = names.registration.parent
    registrations = (path for name in (driver, _hash(driver)) for path in registry.glob(f"{name}-*reg.sock"))
    for path in sorted((*names.folder.glob("dra*.sock"), *registrations)):
        if path not in (names.dra, names.registration):
            yield path


def _is_too_long(path: Path) -> bool:
    return len(os.fsencode(path)) > MAX_SOCKET_PATH


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
