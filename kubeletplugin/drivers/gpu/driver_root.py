"""The driver root: the directory in which NVIDIA's driver is installed, with its libraries, programs and device nodes.

On most machines this is the host's root; with a driver container it is a directory such as ``/run/nvidia/driver``. The
plugin may see that directory under another path than the container runtime, which mounts the files: ``here`` is the
path for reading, ``host`` the path that CDI specs contain.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dra.model.meta import Struct

LIBRARY_DIRECTORIES: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "usr/local/nvidia/lib64",
    "usr/lib",
)
PROGRAM_DIRECTORIES: Final = ("usr/bin", "usr/sbin", "usr/local/bin", "bin", "sbin", "usr/local/nvidia/bin", "opt/bin")


class DriverLibrary(Struct, frozen=True):
    """A library of the driver, and the names under which programs look for it."""

    path: str
    """Absolute path within the root."""

    links: tuple[str, ...] = ()
    """Names of symbolic links to the library in its directory."""


class DriverRoot:
    """An installation of NVIDIA's driver below a root directory."""

    def __init__(self, *, here: Path = Path("/"), host: str = "/") -> None:
        self.here = here
        self._host = host.rstrip("/")

    def on_host(self, path: str) -> str:
        """Return the path on the host of an absolute path within the root."""
        return f"{self._host}{path}"

    def program(self, name: str) -> Path | None:
        """Return the path from which this process can start a program; None if there is none."""
        for folder in PROGRAM_DIRECTORIES:
            found = self.here / folder / name
            if found.is_file() and os.access(found, os.X_OK):
                return found
        return None

    def programs(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the paths within the root of the programs that exist."""
        found = (self.program(name) for name in names)
        return tuple(self._within(each) for each in found if each is not None)

    def libraries(self, version: str) -> tuple[DriverLibrary, ...]:
        """Return the libraries of a driver version: the files whose names end in that version."""
        found: dict[Path, DriverLibrary] = {}
        for folder in self._library_folders():
            links = [each for each in folder.iterdir() if each.is_symlink() and ".so" in each.name]
            for file in sorted(each for each in folder.iterdir() if each.name.endswith(f".so.{version}")):
                real = file.resolve()
                if file.is_symlink() or real in found:  # lib64 is often a link to usr/lib64
                    continue
                names = sorted(each.name for each in links if each.resolve() == real)
                found[real] = DriverLibrary(path=self._within(file), links=tuple(names))
        return tuple(found.values())

    def nodes(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return the device nodes that exist, as pairs: path in a container, path on the host."""
        return tuple((f"/dev/{name}", self.node(f"/dev/{name}")) for name in names if self._has_node(name))

    def node(self, path: str) -> str:
        """Return the host's path of a device node; a driver container may have a ``/dev`` of its own."""
        return self.on_host(path) if (self.here / "dev" / "nvidiactl").exists() else path

    def environment(self) -> dict[str, str]:
        """Return the environment for the driver's programs, which find its libraries by themselves only below ``/``."""
        found = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        if self.here != Path("/") and (library := self.management_library()) is not None:
            found["LD_PRELOAD"] = str(library)
        return found

    def management_library(self) -> Path | None:
        """Return the path from which this process can load NVML; None if there is none."""
        files = (folder / "libnvidia-ml.so.1" for folder in self._library_folders())
        return next((each for each in files if each.exists()), None)

    def _has_node(self, name: str) -> bool:
        return (self.here / "dev" / name).exists() or Path("/dev", name).exists()

    def _library_folders(self) -> list[Path]:
        folders = [self.here / name for name in LIBRARY_DIRECTORIES]
        return [each for folder in folders for each in (folder, folder / "vdpau") if each.is_dir()]

    def _within(self, path: Path) -> str:
        return f"/{path.relative_to(self.here)}"
