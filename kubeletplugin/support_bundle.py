"""The support bundle: collects the state of a node's plugin for remote analysis.

All files are copied unchanged, and no secrets are included: no environment, no credentials, no files of other programs.
A part that cannot be read is replaced by the reason: the bundle must also work on a broken node. So is a part that no
longer fits: the bundle is collected in the container of the plugin, within the same memory limit.
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
from kubeletplugin.cgroups.cgroup_names import CgroupPath, is_kubepods, is_qos_class
from kubeletplugin.cgroups.cgroup_tree import PodWalk, child_names, take_turns
from kubeletplugin.checkpoint import CHECKPOINT_FILE
from kubeletplugin.release_journal import JOURNAL_FILE

PACKAGES: Final = ("dra-reserve", "grpcio", "protobuf", "msgspec", "aiohttp", "kubernetes", "nvidia-ml-py")
MAX_FILE_SIZE: Final = 8 * 2**20
"""Maximum number of bytes that are copied from a file, or from the small files of a directory together."""

MAX_BUNDLE_SIZE: Final = 32 * 2**20
"""Maximum number of bytes of a support bundle; the container has 256 MiB, and the plugin needs up to half of them."""

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
CGROUP_FILES: Final = ("cgroup.controllers", "cpuset.cpus.effective", "cpuset.cpus", "cpuset/cpuset.cpus")
CPU_MANAGER_STATE: Final = "cpu_manager_state"
_DRIVER_FILES: Final = (JOURNAL_FILE, "demand.json", "device-names.json", "hook.sh", "kept", "time-slices.json")
"""Files that drivers and manual releases write beside the checkpoint."""

_HOOK_DIRECTORIES: Final = ("containers", "failures", "refused")
"""Directories of the container hook's small files; a bundle has one JSON document for each directory."""

MAX_FILES: Final = 10_000
"""Maximum number of files that are copied from a directory."""

_TOO_MANY_BYTES: Final = "left out: the files before it in the directory have too many bytes"

_MODE: Final = 0o600


class BundleSources(Struct, frozen=True, kw_only=True):
    """The directories and drivers from which a support bundle is collected."""

    plugins: Path
    registry: Path
    cdi: Path
    kubelet: Path = Path("/var/lib/kubelet")
    cgroups: Path = CGROUP_ROOT
    drivers: tuple[str, ...]


def build_bundle(sources: BundleSources, *, slices: bytes, published: str) -> bytes:
    """Return the support bundle as a gzipped tar archive.

    `slices` are the ResourceSlices on the API server, `published` the devices that the drivers would publish.
    """
    general = {
        "versions.json": _json(collect_versions()),
        "inspect.txt": published.encode(),
        "sockets.json": _json(_call_or_error(lambda: list(_sockets(sources)))),
        "cgroups.json": _json(_call_or_error(lambda: _cgroups(sources))),
        "resourceslices.json": slices,
    }
    parts = _limited(itertools.chain(general.items(), _driver_files(sources)))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in sorted(parts.items()):
            entry = tarfile.TarInfo(f"dra-reserve/{name}")
            entry.size, entry.mode, entry.mtime = len(content), _MODE, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _limited(parts: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return the parts by name, with the reason instead of each part that exceeds `MAX_BUNDLE_SIZE`."""
    kept: dict[str, bytes] = {}
    size = 0
    for name, content in parts:
        if size + len(content) > MAX_BUNDLE_SIZE:
            kept[name] = f"left out, its {len(content)} bytes exceed what a bundle can have; copy the file\n".encode()
            continue
        kept[name] = content
        size += len(content)
    return kept


def write_bundle(path: Path, content: bytes) -> None:
    """Write the archive to a new file that only its owner can read; raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def collect_versions() -> Mapping[str, Any]:
    """Return the versions of packages, Python and kernel, the machine type and the user id."""
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


def _driver_files(sources: BundleSources) -> Iterator[tuple[str, bytes]]:
    for driver in sources.drivers:
        for name in (CHECKPOINT_FILE, f"{CHECKPOINT_FILE}.previous", *_DRIVER_FILES):
            yield f"plugins/{driver}/{name}", _read_or_reason(sources.plugins / driver / name)
        for name in _HOOK_DIRECTORIES:
            yield (
                f"plugins/{driver}/{name}.json",
                _json(_call_or_error(partial(_directory_contents, sources.plugins / driver / name))),
            )
        for path in sorted(sources.cdi.glob(f"{driver}-claim-*")):
            yield f"cdi/{path.name}", _read_or_reason(path)
    yield f"kubelet/{CPU_MANAGER_STATE}", _read_or_reason(sources.kubelet / CPU_MANAGER_STATE)


def _directory_contents(folder: Path) -> Mapping[str, str]:
    """Return the contents of the files below a directory, by relative path; empty if there is no such directory."""
    files = itertools.islice((path for path in folder.rglob("*") if path.is_file()), MAX_FILES)
    contents: dict[str, str] = {}
    size = 0
    for path in files:
        content = _read_or_reason(path)
        size += len(content)
        text = content.decode(errors="replace") if size <= MAX_FILE_SIZE else _TOO_MANY_BYTES
        contents[str(path.relative_to(folder))] = text
    return contents


def _read_or_reason(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_SIZE)
    except OSError as error:
        return f"{path}: {error.strerror}\n".encode()


def _sockets(sources: BundleSources) -> Iterator[Mapping[str, Any]]:
    folders = [sources.registry, *(sources.plugins / driver for driver in sources.drivers)]
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            status = path.lstat()
            if stat.S_ISSOCK(status.st_mode):
                yield {
                    "path": str(path),
                    "mode": oct(stat.S_IMODE(status.st_mode)),
                    "owner": status.st_uid,
                    "modified": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime)),
                    "listening": _is_listening(path),
                }


def _is_listening(path: Path) -> bool | str:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except OSError as error:
            return str(error)
    return True


def _cgroups(sources: BundleSources) -> Mapping[str, Any]:
    root = sources.cgroups
    groups = [root, *_find_kubepods(root)]
    return {
        "version": 2 if (root / "cgroup.controllers").exists() else 1,
        "cpusets": {str(group): _read_cpuset(group) for group in groups},
    }


def _find_kubepods(root: Path) -> Iterable[Path]:
    """Yield the kubelet's cgroups with those of pods below, for either cgroup driver and either cgroup version.

    Of the cgroups that containers have made, those beyond the bounds of `cgroup_tree` are left out.
    """
    for base in (root, root / "cpuset"):
        for name in ("kubepods.slice", "kubepods", "kubelet.slice"):
            if (base / name).is_dir():
                yield from map(base.joinpath, map("/".join, _walk_kubepods(str(base), name)))


def _walk_kubepods(base: str, name: str) -> Iterator[CgroupPath]:
    kubelet: list[CgroupPath] = [(name,)]
    pods: list[PodWalk] = []
    for path in kubelet:  # which grows meanwhile
        yield path
        for child in child_names("/".join((base, *path))):
            if is_kubepods(child) or is_qos_class(child):
                kubelet.append((*path, child))
            else:
                pods.append(PodWalk(base, (*path, child)))
    yield from take_turns(pods)


def _read_cpuset(group: Path) -> Mapping[str, str]:
    return {name: (group / name).read_text().strip() for name in CGROUP_FILES if (group / name).is_file()}


def _call_or_error(look: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
    try:
        return look()
    except OSError as error:
        return {"error": str(error)}


def _json(value: Any) -> bytes:  # noqa: ANN401 - JSON
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
