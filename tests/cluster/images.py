"""The images of a real node: nothing but this machine's static busybox, in an archive that containerd imports.

Registries are out of reach, and a shell with its applets is all that the scenarios' pods run. The image has the name
that `objects.IMAGE` gives it, so that the same pods run here, on fake nodes and where images can be pulled.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import struct
import tarfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PAUSE: Final = "docker.io/local/pause:1"
"""What holds a pod's sandbox. The kubelet asks for it by this name: see pinned_images in runtime.py."""

SHELL: Final = "docker.io/library/busybox:1.37"
"""In full what the scenarios' pods call busybox:1.37."""

APPLETS: Final = (
    *("sh", "cat", "cp", "date", "echo", "env", "false", "grep", "head", "hostname", "id", "kill", "ls", "mkdir"),
    *("mount", "nproc", "ps", "readlink", "rm", "sed", "sleep", "sort", "stat", "taskset", "test", "touch", "tr"),
    *("true", "uname", "wc"),
)

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}

_ELF_64: Final = b"\x7fELF\x02"

_PROGRAM_HEADERS: Final = struct.Struct("<32xQ14xHH")
"""Of a 64-bit ELF header: where the program headers are, how long one is, how many there are."""

_INTERPRETER: Final = 3


def is_static(program: Path) -> bool:
    """Tell whether it runs where there is no dynamic loader: no program header of it asks for one."""
    content = program.read_bytes()
    if not content.startswith(_ELF_64):
        return False
    offset, size, count = _PROGRAM_HEADERS.unpack_from(content)
    types = (struct.unpack_from("<I", content, offset + number * size)[0] for number in range(count))
    return _INTERPRETER not in types


def write_archive(path: Path, *, busybox: Path) -> None:
    """Write a docker-archive with both images; they share their one layer."""
    layer = _layer(busybox)
    configuration = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Entrypoint": ["sleep"], "Cmd": ["infinity"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            "history": [{}],
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE, SHELL], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        _add(archive, "config.json", configuration)
        _add(archive, "layer.tar", layer)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            layer.addfile(entry)
        _add(layer, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(entry)
    return content.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
