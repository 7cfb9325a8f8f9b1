"""Runs a DRA plugin for each node beside the plane: ``dra-reserve kubelet-plugin`` with simulated devices.

A node's devices are in a file, ``plugins/NODE.yaml`` in the plane's folder. The plugin reads the file again when it has
changed: a user can make GPUs fail or vanish.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from dra.cli.local.child_process import ChildProcess
from dra.cli.local.plane_folder import KUBECONFIG_FILE, PLUGINS_FOLDER, SCRATCH_FOLDER, PlaneFolder
from localplane.nodes.plugins.node_folders import NodeFolders

OWN_PLUGINS: Final = "own"
"""Value for plugins that users start themselves: the plane then provides only the sockets."""

SIMULATED_DRIVERS: Final = ("gpu",)
"""Own drivers that can simulate devices; the CPU driver cannot, because it reports the CPUs of this machine."""

PLUGIN_NODES_MAX: Final = 20
"""Maximum number of nodes with plugins: each plugin is a process."""

_SIMULATED_PRODUCT: Final = {"productName": "Simulated GPU", "memory": "80Gi", "architecture": "Simulated"}


def create_plugins(
    folder: PlaneFolder,
    drivers: Sequence[str],
    *,
    runtime: Path,
    nodes: Sequence[str],
    devices: int,
    on_pid_change: Callable[[str, int | None], None],
) -> Iterator[tuple[str, ChildProcess]]:
    """Write the inventory of each node, and yield the node with its plugin; ``started`` is called with each new pid."""
    if not drivers:
        return
    (folder / PLUGINS_FOLDER).mkdir(mode=0o700, exist_ok=True)
    for node in nodes:
        node_folders, devices_file = NodeFolders(runtime / node), folder / PLUGINS_FOLDER / f"{node}.yaml"
        node_folders.make()
        devices_file.write_text(inventory_file(devices), encoding="utf-8")
        yield (
            node,
            ChildProcess(
                name=f"the plugin of {node}",
                command=(
                    "kubelet-plugin",
                    f"--drivers={','.join(drivers)}",
                    f"--node-name={node}",
                    f"--inventory=simulated:{devices_file}",
                    f"--plugins={node_folders.plugins}",
                    f"--registry={node_folders.registry}",
                    f"--cdi={node_folders.cdi}",
                    f"--kubeconfig={folder / KUBECONFIG_FILE}",
                ),
                log=folder / PLUGINS_FOLDER / f"{node}.log",
                scratch=folder / SCRATCH_FOLDER,
                on_pid_change=partial(on_pid_change, node),
            ),
        )


def inventory_file(devices: int) -> str:
    """Return the inventory file of a node with this number of equal GPUs."""
    gpus = [{"product": "simulated", "count": devices}] if devices else []
    document = {
        "apiVersion": "reserve.dra/v1alpha1",
        "kind": "NodeInventory",
        "products": {"simulated": _SIMULATED_PRODUCT},
        "gpus": gpus,
    }
    return yaml.safe_dump(document, sort_keys=False)
