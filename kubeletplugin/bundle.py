"""A support bundle: what somebody who was not there needs to see of a node's plugin.

Everything is taken as it is and nothing is taken that is secret: no environment, no credentials, no files of others. A
part that cannot be had is replaced by the reason; a bundle of a broken node is the one that is needed.
"""

import io
import itertools
import json
import os
import platform
import socket
import stat
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from dra.model.meta import Struct
from kubeletplugin.checkpoint import FILE
from kubeletplugin.releases import JOURNAL

PACKAGES: Final = ("dra-reserve", "grpcio", "protobuf", "msgspec", "aiohttp", "kubernetes", "nvidia-ml-py")
FILE_LIMIT: Final = 8 * 2**20
"""Bytes that are taken of a file."""

CGROUPS: Final = Path("/sys/fs/cgroup")
CGROUP_FILES: Final = ("cgroup.controllers", "cpuset.cpus.effective", "cpuset.cpus", "cpuset/cpuset.cpus")
CPU_MANAGER_STATE: Final = "cpu_manager_state"
_BESIDE: Final = (JOURNAL, "demand.json", "hook.sh", "kept", "time-slices.json")
"""What drivers, and releases by hand, leave beside the checkpoint."""

_FOLDERS: Final = ("containers", "failures")
"""What hooks of containers leave there: many small files, of which a bundle has one document each."""

FILES_LIMIT: Final = 10_000
"""Of a folder."""

_MODE: Final = 0o600


class Sources(Struct, frozen=True, kw_only=True):
    """Where to look."""

    plugins: Path
    registry: Path
    cdi: Path
    kubelet: Path = Path("/var/lib/kubelet")
    cgroups: Path = CGROUPS
    drivers: tuple[str, ...]


def made(sources: Sources, *, slices: bytes, published: str) -> bytes:
    """Return the archive. `slices`: what the API server has; `published`: what would be published."""
    parts: dict[str, bytes] = {
        "versions.json": _json(versions()),
        "resourceslices.json": slices,
        "inspect.txt": published.encode(),
        "sockets.json": _json(_attempt(lambda: list(_sockets(sources)))),
        "cgroups.json": _json(_attempt(lambda: _cgroups(sources))),
        **dict(_files(sources)),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in sorted(parts.items()):
            entry = tarfile.TarInfo(f"dra-reserve/{name}")
            entry.size, entry.mode, entry.mtime = len(content), _MODE, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def write(path: Path, content: bytes) -> None:
    """Write the archive for its owner alone; raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def versions() -> Mapping[str, Any]:
    """Return what runs here."""
    return {
        "packages": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "user": os.getuid(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _files(sources: Sources) -> Iterator[tuple[str, bytes]]:
    for driver in sources.drivers:
        for name in (FILE, f"{FILE}.previous", *_BESIDE):
            yield f"plugins/{driver}/{name}", _content(sources.plugins / driver / name)
        for name in _FOLDERS:
            yield f"plugins/{driver}/{name}.json", _json(_attempt(partial(_texts, sources.plugins / driver / name)))
        for path in sorted(sources.cdi.glob(f"{driver}-claim-*")):
            yield f"cdi/{path.name}", _content(path)
    yield f"kubelet/{CPU_MANAGER_STATE}", _content(sources.kubelet / CPU_MANAGER_STATE)


def _texts(folder: Path) -> Mapping[str, str]:
    """Return the files below a folder and what they say; none where there is no such folder."""
    found = itertools.islice((path for path in folder.rglob("*") if path.is_file()), FILES_LIMIT)
    return {str(path.relative_to(folder)): _content(path).decode(errors="replace") for path in found}


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(FILE_LIMIT)
    except OSError as error:
        return f"{path}: {error.strerror}\n".encode()


def _sockets(sources: Sources) -> Iterator[Mapping[str, Any]]:
    folders = [sources.registry, *(sources.plugins / driver for driver in sources.drivers)]
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            found = path.lstat()
            if stat.S_ISSOCK(found.st_mode):
                yield {
                    "path": str(path),
                    "mode": oct(stat.S_IMODE(found.st_mode)),
                    "owner": found.st_uid,
                    "modified": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime)),
                    "listening": _listening(path),
                }


def _listening(path: Path) -> bool | str:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except OSError as error:
            return str(error)
    return True


def _cgroups(sources: Sources) -> Mapping[str, Any]:
    root = sources.cgroups
    groups = [root, *_kubepods(root)]
    return {
        "version": 2 if (root / "cgroup.controllers").exists() else 1,
        "cpusets": {str(group): _cpuset(group) for group in groups},
    }


def _kubepods(root: Path) -> Iterable[Path]:
    """Return the kubelet's own cgroups, under either driver, and under either version."""
    for base in (root, root / "cpuset"):
        for name in ("kubepods.slice", "kubepods", "kubelet.slice"):
            if (base / name).is_dir():
                yield base / name
                yield from sorted(path for path in (base / name).rglob("*") if path.is_dir())


def _cpuset(group: Path) -> Mapping[str, str]:
    return {name: (group / name).read_text().strip() for name in CGROUP_FILES if (group / name).is_file()}


def _attempt(look: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
    try:
        return look()
    except OSError as error:
        return {"error": str(error)}


def _json(value: Any) -> bytes:  # noqa: ANN401 - JSON
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
