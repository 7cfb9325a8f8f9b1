"""Container edits of NVIDIA's GPUs, as ``nvidia-ctk cdi generate`` would write them, from the files on the node.

The edits are device nodes, the driver's libraries and programs, and ``NVIDIA_VISIBLE_DEVICES=void``, which keeps
NVIDIA's own runtime, if it is the node's default, from adding all GPUs.

Programs load ``libcuda.so.1``, but the file is ``libcuda.so.570.86.15``. Where NVIDIA's container toolkit is installed,
its hook creates the links and the loader's cache in the container, as for its own CDI specs. Without the toolkit, the
same file is also mounted under the names of its links: in the loader's default directories that is enough.

Device nodes, programs and hooks may come or move while the plugin runs (``nvidia-uvm`` is loaded by the first program
that computes; the toolkit is replaced), so all are looked for at each call.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from kubeletplugin.contract import ContainerEdits, DeviceNode, Hook, Mount
from kubeletplugin.drivers.gpu.container_edits import GrantedConfig, device_environment
from kubeletplugin.drivers.gpu.driver_root import (
    CUDA_LIBRARY,
    DriverLibrary,
    DriverRoot,
    InstalledLibraries,
    container_path,
)
from kubeletplugin.inventory.gpus import Gpu

CONTROL_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
REQUIRED_NODES: Final = ("nvidiactl", "nvidia-uvm")
"""Control nodes without which no program can compute."""

PROGRAMS: Final = ("nvidia-smi", "nvidia-debugdump", "nvidia-persistenced")
MOUNT_OPTIONS: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
HOOK_PROGRAMS: Final = {"nvidia-cdi-hook": ("nvidia-cdi-hook",), "nvidia-ctk": ("nvidia-ctk", "hook")}
"""Hook programs of the toolkit, newest first, with their first arguments."""

_MAX_VERSIONS_SHOWN: Final = 3


class _Look(NamedTuple):
    """The last look at the files of a driver version."""

    root: DriverRoot
    installed: InstalledLibraries
    common: ContainerEdits


class NvidiaContainerEdits:
    """The container edits of NVIDIA's GPUs."""

    def __init__(self, root: DriverRoot, *, host: DriverRoot | None = None) -> None:
        """Create edits for the driver's root, and for the host's root with the toolkit."""
        self._root = root
        self._container_root = root.of_driver_container
        self._hosts = tuple(dict.fromkeys((host or root, root, root.of_host)))
        self._looks: dict[str, _Look] = {}

    def common(self, driver_version: str) -> ContainerEdits:
        """Return control nodes, libraries, programs and hooks as they are now."""
        last = self._looks.get(driver_version)
        root, installed = self._search(driver_version)
        libraries = installed.libraries
        nodes = tuple(
            DeviceNode(path=path, host_path=_host_path(host, path)) for path, host in root.nodes(CONTROL_NODES)
        )
        hooks = self._hooks(libraries)
        now = ContainerEdits(
            env=("NVIDIA_VISIBLE_DEVICES=void",),
            device_nodes=nodes,
            mounts=(*_library_mounts(root, libraries, aliases=not hooks), *_program_mounts(root)),
            hooks=hooks,
        )
        common = last.common if last is not None and last.common == now else now
        self._looks = {driver_version: _Look(root=root, installed=installed, common=common)}
        return common

    def device(self, gpu: Gpu, granted: GrantedConfig) -> ContainerEdits:
        """Return the GPU's own device nodes and environment variables, of the root that `common` has found last."""
        root, _ = self._seen(gpu.driver_version)
        nodes = tuple(DeviceNode(path=path, host_path=_host_path(root.node(path), path)) for path in gpu.nodes)
        return ContainerEdits(env=device_environment(gpu, granted), device_nodes=nodes)

    def flaw(self, gpu: Gpu) -> str:
        """Return which files containers would lack, of those that `common` has found last, and the remedy."""
        version = gpu.driver_version
        if not version:
            return (
                "the version of NVIDIA's kernel module is not known, so that its libraries cannot be found; "
                "load the module with: modprobe nvidia"
            )
        root, installed = self._seen(version)
        if not installed.complete:
            return _library_flaw(root, installed, version)
        required = (*(f"/dev/{name}" for name in REQUIRED_NODES), *gpu.nodes)
        if missing := [path for path in required if not root.has_node(path)]:
            return (
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing, without which CUDA fails; "
                "create device nodes with: nvidia-modprobe -u -c=0 && nvidia-smi -L"
            )
        return ""

    def _seen(self, driver_version: str) -> tuple[DriverRoot, InstalledLibraries]:
        look = self._looks.get(driver_version)
        return (look.root, look.installed) if look is not None else self._search(driver_version)

    def _search(self, driver_version: str) -> tuple[DriverRoot, InstalledLibraries]:
        """Return the first root that has the libraries of a version, or the configured root; and the libraries."""
        if not driver_version:
            return self._root, InstalledLibraries()
        first = self._root.installed(driver_version)
        if not first.complete and (other := self._container_root.installed(driver_version)).complete:
            return self._container_root, other
        return self._root, first

    def _hooks(self, libraries: tuple[DriverLibrary, ...]) -> tuple[Hook, ...]:
        if not libraries:
            return ()
        programs = (
            (host.on_host(path), first)
            for program, first in HOOK_PROGRAMS.items()
            for host in self._hosts
            for path in host.programs((program,))
        )
        program, first = next(programs, ("", ()))
        if not program:
            return ()
        folders = sorted({_container_folder(library) for library in libraries})
        links = [
            f"{PurePosixPath(library.path).name}::{_container_folder(library)}/{link}"
            for library in libraries
            for link in library.links
        ]
        wanted = [("update-ldcache", "--folder", folders)]
        if links:
            wanted.insert(0, ("create-symlinks", "--link", links))
        return tuple(
            Hook(
                hook_name="createContainer",
                path=program,
                args=(*first, command, *(part for value in values for part in (option, value))),
                env=("NVIDIA_CTK_DEBUG=false",),
            )
            for command, option, values in wanted
        )


def _library_flaw(root: DriverRoot, installed: InstalledLibraries, version: str) -> str:
    where = f"below {root.on_host('') or '/'}"
    if installed.other_versions:
        return (
            f"NVIDIA's kernel module is of version {version}, but the libraries {where} are of version "
            f"{', '.join(installed.other_versions[:_MAX_VERSIONS_SHOWN])}; reboot the node, so that the module of the "
            "new packages is loaded, or install the packages of the module's version"
        )
    return (
        f"no {CUDA_LIBRARY}{version} is {where}, in none of the folders that the plugin searches; install the driver's "
        "libraries, or set --nvidia-root (chart: kubeletPlugin.gpu.nvidiaRoot) to the driver's root"
    )


def _library_mounts(root: DriverRoot, libraries: Iterable[DriverLibrary], *, aliases: bool) -> list[Mount]:
    mounts = []
    for library in libraries:
        names = (PurePosixPath(library.path).name, *(library.links if aliases else ()))
        mounts += [_mount(root, library.file or library.path, f"{_container_folder(library)}/{name}") for name in names]
    return mounts


def _program_mounts(root: DriverRoot) -> list[Mount]:
    return [_mount(root, path, container_path(path)) for path in root.programs(PROGRAMS)]


def _mount(root: DriverRoot, path: str, name: str) -> Mount:
    return Mount(host_path=root.on_host(path), container_path=name, options=MOUNT_OPTIONS)


def _container_folder(library: DriverLibrary) -> str:
    return str(PurePosixPath(container_path(library.path)).parent)


def _host_path(host: str, path: str) -> str:
    """Return the host's path, or an empty string if it equals the container's path, which is CDI's default."""
    return host if host != path else ""
