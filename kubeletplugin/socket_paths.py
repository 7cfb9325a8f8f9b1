"""Paths of a driver's sockets, and of those that other instances have left.

A single instance uses ``PLUGINS/DRIVER/dra.sock`` and ``REGISTRY/DRIVER-reg.sock``. Instances that overlap in a rolling
update are distinguished by the uid of their pod, which is then part of both names. Where that makes a path too long for
a unix socket, a hash of the uid takes its place, and if necessary one of the driver's name.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dra.model.meta import Struct
from kubeletplugin.cdi import validate_driver_name
from kubeletplugin.sockets import MAX_SOCKET_PATH

PLUGINS_OPTION: Final = "--plugins"
REGISTRY_OPTION: Final = "--registry"

_HASH_LENGTH: Final = 12
_POD_UID_LENGTH: Final = 63


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
        raise ValueError(f"pod uid {pod_uid[:_POD_UID_LENGTH]!r}: not one; it is metadata.uid of the plugin's own pod")
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
