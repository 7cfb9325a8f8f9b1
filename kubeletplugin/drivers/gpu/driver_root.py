"""The driver root: the directory in which NVIDIA's driver is installed, with its libraries, programs and device nodes.

On most machines this is the host's root; with a driver container it is a directory such as ``/run/nvidia/driver``. The
plugin may see that directory under another path than the container runtime, which mounts the files: ``here`` is the
path for reading, ``host`` the path that CDI specs contain.

Nothing that was found is believed later: programs and device nodes are looked for each time, and folders of libraries
are read again when one of them has changed.
"""

import os
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec.structs import replace

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
    "run/opengl-driver/lib",  # NixOS
    "var/lib/nvidia/lib64",  # Container-Optimized OS
    "home/kubernetes/bin/nvidia/lib64",  # Container-Optimized OS of GKE
)
PROGRAM_DIRECTORIES: Final = (
    "usr/bin",
    "usr/sbin",
    "usr/local/bin",
    "bin",
    "sbin",
    "usr/local/nvidia/bin",
    "opt/bin",
    "usr/local/nvidia/toolkit",  # the toolkit of NVIDIA's GPU operator
    "run/current-system/sw/bin",  # NixOS
    "var/lib/nvidia/bin",
    "home/kubernetes/bin/nvidia/bin",
)
MOVED_DIRECTORIES: Final = {
    "/var/lib/nvidia": "/usr/local/nvidia",
    "/home/kubernetes/bin/nvidia": "/usr/local/nvidia",
}
"""Directories that containers get elsewhere: where Google's device plugin puts them, and NVIDIA's images look."""

DRIVER_CONTAINER: Final = "run/nvidia/driver"
"""Root of the driver that NVIDIA's GPU operator installs in a container."""

CUDA_LIBRARY: Final = "libcuda.so."

SETTLING_SECONDS: Final = 0.1
"""Seconds for which a folder's change may hide a second one: file systems count time in ticks of some milliseconds."""

_MAX_LINKS: Final = 40


class DriverLibrary(Struct, frozen=True):
    """A library of the driver, and the names under which programs look for it."""

    path: str
    """Absolute path within the root, below one of the directories of libraries."""

    file: str = ""
    """Absolute path within the root of the file itself, if `path` is a symbolic link to another directory."""

    links: tuple[str, ...] = ()
    """Names of symbolic links to the library in its directory."""


class InstalledLibraries(Struct, frozen=True):
    """The libraries below a root for one version of the driver."""

    libraries: tuple[DriverLibrary, ...] = ()
    other_versions: tuple[str, ...] = ()
    """Other versions of which the root has CUDA's library."""

    @property
    def complete(self) -> bool:
        """Whether CUDA's library is among them, without which no program can use a GPU."""
        return any(PurePosixPath(library.path).name.startswith(CUDA_LIBRARY) for library in self.libraries)


class DriverRoot:
    """An installation of NVIDIA's driver below a root directory."""

    def __init__(self, *, here: Path = Path("/"), host: str = "/") -> None:
        self.here = here
        self._host = host.rstrip("/")
        self._scanned: dict[str, tuple[Hashable, InstalledLibraries]] = {}

    @property
    def of_host(self) -> "DriverRoot":
        """The root of the host, if this root is seen below it under the host's path; else this root."""
        here = str(self.here)
        if not self._host or not here.endswith(self._host):
            return self
        return DriverRoot(here=Path(here.removesuffix(self._host) or "/"))

    @property
    def of_driver_container(self) -> "DriverRoot":
        """The root of a driver container, if the GPU operator runs one and this root is the host's."""
        return DriverRoot(here=self.here / DRIVER_CONTAINER, host=self.on_host(f"/{DRIVER_CONTAINER}"))

    def on_host(self, path: str) -> str:
        """Return the path on the host of an absolute path within the root."""
        return f"{self._host}{path}"

    def program(self, name: str) -> Path | None:
        """Return the path from which this process can start a program; None if there is none."""
        return next((file for _, file in self._programs((name,))), None)

    def programs(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the paths within the root of the programs that exist."""
        return tuple(self._within(path) for path, _ in self._programs(names))

    def libraries(self, version: str) -> tuple[DriverLibrary, ...]:
        """Return the libraries of a driver version: the files whose names end in that version."""
        return self.installed(version).libraries

    def installed(self, version: str) -> InstalledLibraries:
        """Return the libraries of a driver version, and the other versions that are there."""
        folders = self._library_folders()
        signature, settled = _signature(folders)
        scanned = self._scanned.get(version)
        if scanned is not None and scanned[0] == signature:
            return scanned[1]
        libraries = self._scan(folders, version)
        self._scanned.pop(version, None)
        if settled:
            self._scanned = {version: (signature, libraries)}
        return libraries

    def nodes(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return the device nodes that exist, as pairs: path in a container, path on the host."""
        return tuple((f"/dev/{name}", self.node(f"/dev/{name}")) for name in names if self.has_node(f"/dev/{name}"))

    def node(self, path: str) -> str:
        """Return the host's path of a device node; a driver container may have a ``/dev`` of its own."""
        return self.on_host(path) if (self.here / "dev" / "nvidiactl").exists() else path

    def has_node(self, path: str) -> bool:
        """Report whether the device node exists that `node` names.

        The ``/dev`` of a container is as old as the container: it counts only where the host's cannot be seen.
        """
        if (self.here / "dev" / "nvidiactl").exists():
            return (self.here / path.lstrip("/")).exists()
        host = self.of_host.here
        return ((host if (host / "dev").is_dir() else Path("/")) / path.lstrip("/")).exists()

    def environment(self) -> dict[str, str]:
        """Return the environment for the driver's programs, which find its libraries by themselves only below ``/``."""
        variables = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        if self.here != Path("/") and (library := self.management_library()) is not None:
            variables["LD_PRELOAD"] = str(library)
        return variables

    def management_library(self) -> Path | None:
        """Return the path from which this process can load NVML; None if there is none."""
        for folder in self._library_folders().values():
            name = folder / "libnvidia-ml.so.1"
            file = self._resolve(name)
            if file.exists():  # the name where it can be followed: programs look at the name that they are given
                return name if name.exists() else file
        return None

    def _programs(self, names: Iterable[str]) -> Iterator[tuple[Path, Path]]:
        """Yield the path of each program that exists, and the path of its file."""
        resolved: dict[str, str] = {}
        folders = [(folder, self._resolve(self.here / folder, resolved)) for folder in PROGRAM_DIRECTORIES]
        for name in names:
            for folder, real in folders:
                if not os.path.lexists(f"{real}/{name}"):
                    continue
                file = self._resolve(real / name, resolved)
                if file.is_file() and os.access(file, os.X_OK):
                    yield self.here / folder / name, file
                    break

    def _scan(self, folders: Mapping[Path, Path], version: str) -> InstalledLibraries:
        files: dict[Path, DriverLibrary] = {}
        linked: dict[Path, DriverLibrary] = {}
        others: set[str] = set()
        for listed, folder in folders.items():
            names = [name for name in _listed(listed) if ".so" in name]
            others |= {name.removeprefix(CUDA_LIBRARY) for name in names if name.startswith(CUDA_LIBRARY)}
            candidates = {name: self._resolve(listed / name) for name in names if name.endswith(f".so.{version}")}
            aliases = self._aliases(listed, names, candidates) if candidates else {}
            for name, real in sorted(candidates.items()):
                is_link = (listed / name).is_symlink()
                if real in files or (is_link and (real in linked or not real.is_file())):
                    continue  # lib64 is often a link to usr/lib64
                links = tuple(sorted(link for link, file in aliases.items() if file == real and link != name))
                library = DriverLibrary(path=self._within(folder / name), links=links)
                if is_link:
                    linked[real] = replace(library, file=self._within(real))
                else:
                    files[real] = library
        # Where all names are links, as on NixOS, the files are in none of the folders.
        libraries = files | {real: library for real, library in linked.items() if real not in files}
        others = {other for other in others if "." in other and other != version}  # not libcuda.so.1
        return InstalledLibraries(libraries=tuple(libraries.values()), other_versions=tuple(sorted(others)))

    def _aliases(self, folder: Path, names: Iterable[str], candidates: Mapping[str, Path]) -> dict[str, Path]:
        """Return the links of a folder that may lead to a candidate, with their files.

        A folder such as ``/usr/lib`` has thousands of links: most are seen to lead elsewhere without following them.
        """
        targets = {name: target for name in names if (target := _link_target(folder / name))}
        stems = {name.partition(".so")[0] for name in candidates}
        aliases = {}
        for name in targets:
            last = name
            for _ in range(_MAX_LINKS):
                if "/" in targets.get(last, "/"):
                    break
                last = targets[last]
            if last in candidates:
                aliases[name] = candidates[last]
            elif last in targets and last.partition(".so")[0] in stems:
                aliases[name] = self._resolve(folder / last)
        return aliases

    def _library_folders(self) -> dict[Path, Path]:
        """Return the folders that exist, without symbolic links, and the first name of each."""
        folders: dict[Path, Path] = {}
        resolved: dict[str, str] = {}
        for name in LIBRARY_DIRECTORIES:
            folder = self.here / name
            real = self._resolve(folder, resolved)
            if real not in folders and real.is_dir():
                folders[real] = folder
                if (real / "vdpau").is_dir():
                    folders[real / "vdpau"] = folder / "vdpau"
        return folders

    def _resolve(self, path: Path, resolved: dict[str, str] | None = None) -> Path:
        """Return a path below the root without symbolic links; absolute links lead below the root, as on the host.

        `resolved` are paths that were resolved before, for callers with many paths.
        """
        known = {} if resolved is None else resolved
        here = str(self.here).rstrip("/")
        real, rest, links = here, list(reversed(path.relative_to(self.here).parts)), 0
        while rest:
            part = rest.pop()
            if part == "..":
                real = real if real == here else real.rpartition("/")[0]
                continue
            step = f"{real}/{part}"
            if (target := known.get(step)) is None:
                known[step] = target = _link_target(step)
            if not target:
                real = step
                continue
            links += 1
            if links > _MAX_LINKS:
                return path
            if target.startswith("/"):
                real = here
            rest.extend(reversed([component for component in target.split("/") if component not in ("", ".")]))
        return Path(real or "/")

    def _within(self, path: Path) -> str:
        return f"/{path.relative_to(self.here)}"


def container_path(path: str) -> str:
    """Return the path that a file gets in containers."""
    for folder, moved in MOVED_DIRECTORIES.items():
        if path.startswith(f"{folder}/"):
            return f"{moved}{path.removeprefix(folder)}"
    return path


def _link_target(path: str | Path) -> str:
    """Return the target of a symbolic link; empty if the path is none."""
    try:
        return os.readlink(path)  # noqa: PTH115 - hundreds for each look at the node
    except OSError:
        return ""


def _listed(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:  # removed meanwhile
        return []


def _signature(folders: Iterable[Path]) -> tuple[Hashable, bool]:
    """Return what changes when a name appears in or vanishes from a folder; and whether all changes are visible."""
    now, entries, settled = time.time(), [], True
    for folder in folders:
        try:
            state = folder.stat()
        except OSError:
            continue
        entries.append((str(folder), state.st_dev, state.st_ino, state.st_mtime_ns))
        settled = settled and not 0 <= now - state.st_mtime < SETTLING_SECONDS
    return tuple(entries), settled
