"""Container edits of NVIDIA's GPUs, as ``nvidia-ctk cdi generate`` would write them, from the files on the node.

The edits are device nodes, the driver's libraries and programs, and ``NVIDIA_VISIBLE_DEVICES=void``, which keeps
NVIDIA's own runtime, if it is the node's default, from adding all GPUs.

Programs load ``libcuda.so.1``, but the file is ``libcuda.so.570.86.15``. Where NVIDIA's container toolkit is installed,
its hook creates the links and the loader's cache in the container, as for its own CDI specs. Without the toolkit, the
same file is also mounted under the names of its links: in the loader's default directories that is enough.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from kubeletplugin.contract import ContainerEdits, DeviceNode, Hook, Mount
from kubeletplugin.drivers.gpu.container_edits import GrantedConfig, device_environment
from kubeletplugin.drivers.gpu.driver_root import DriverLibrary, DriverRoot
from kubeletplugin.inventory.gpus import Gpu

CONTROL_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
PROGRAMS: Final = ("nvidia-smi", "nvidia-debugdump", "nvidia-persistenced")
MOUNT_OPTIONS: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
HOOK_PROGRAMS: Final = {"nvidia-cdi-hook": ("nvidia-cdi-hook",), "nvidia-ctk": ("nvidia-ctk", "hook")}
"""Hook programs of the toolkit, newest first, with their first arguments."""


class NvidiaContainerEdits:
    """The container edits of NVIDIA's GPUs."""

    def __init__(self, root: DriverRoot, *, host: DriverRoot | None = None) -> None:
        """Create edits for the driver's root, and for the host's root with the toolkit (default: the same)."""
        self._root = root
        self._host = host or root
        self._known: dict[str, ContainerEdits] = {}

    def common(self, driver_version: str) -> ContainerEdits:
        """Return control nodes, libraries, programs and hooks; a successful search is cached by driver version."""
        if (known := self._known.get(driver_version)) is not None:
            return known
        libraries = self._root.libraries(driver_version) if driver_version else ()
        nodes = tuple(
            DeviceNode(path=path, host_path=_host_path(host, path)) for path, host in self._root.nodes(CONTROL_NODES)
        )
        hooks = self._hooks(libraries)
        found = ContainerEdits(
            env=("NVIDIA_VISIBLE_DEVICES=void",),
            device_nodes=nodes,
            mounts=(*self._mounts(libraries, aliases=not hooks), *self._programs()),
            hooks=hooks,
        )
        if libraries and nodes:  # else the driver is still being installed
            self._known[driver_version] = found
        return found

    def device(self, gpu: Gpu, granted: GrantedConfig) -> ContainerEdits:
        """Return the GPU's own device nodes and environment variables."""
        nodes = tuple(DeviceNode(path=path, host_path=_host_path(self._root.node(path), path)) for path in gpu.nodes)
        return ContainerEdits(env=device_environment(gpu, granted), device_nodes=nodes)

    def _mounts(self, libraries: Iterable[DriverLibrary], *, aliases: bool) -> list[Mount]:
        found = []
        for library in libraries:
            folder = PurePosixPath(library.path).parent
            names = (library.path, *(f"{folder}/{link}" for link in library.links if aliases))
            found += [self._mount(library.path, name) for name in names]
        return found

    def _programs(self) -> list[Mount]:
        return [self._mount(path, path) for path in self._root.programs(PROGRAMS)]

    def _mount(self, path: str, name: str) -> Mount:
        return Mount(host_path=self._root.on_host(path), container_path=name, options=MOUNT_OPTIONS)

    def _hooks(self, libraries: tuple[DriverLibrary, ...]) -> tuple[Hook, ...]:
        if not libraries:
            return ()
        for program, first in HOOK_PROGRAMS.items():
            for path in self._host.programs((program,)):
                folders = sorted({str(PurePosixPath(each.path).parent) for each in libraries})
                links = [
                    f"{PurePosixPath(each.path).name}::{PurePosixPath(each.path).parent}/{link}"
                    for each in libraries
                    for link in each.links
                ]
                wanted = [("update-ldcache", "--folder", folders)]
                if links:
                    wanted.insert(0, ("create-symlinks", "--link", links))
                return tuple(
                    Hook(
                        hook_name="createContainer",
                        path=self._host.on_host(path),
                        args=(*first, command, *(part for value in values for part in (option, value))),
                        env=("NVIDIA_CTK_DEBUG=false",),
                    )
                    for command, option, values in wanted
                )
        return ()


def _host_path(host: str, path: str) -> str:
    """Return the host's path, or an empty string if it equals the container's path, which is CDI's default."""
    return host if host != path else ""
