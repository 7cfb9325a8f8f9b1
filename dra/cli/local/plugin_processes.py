"""DRA plugins beside the plane: ``dra-reserve kubelet-plugin`` for each of its nodes, with devices that are made up.

A node's devices are in a file, ``plugins/NODE.yaml`` in the plane's folder, which the plugin reads again when it has
changed: GPUs fall ill and vanish as one likes.
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
"""Plugins that users start themselves: sockets and nothing else."""

SIMULATED_DRIVERS: Final = ("gpu",)
"""Of ours, those that can do something on a node that is made up; CPUs there are those of this machine."""

PLUGIN_NODES_MAX: Final = 20
"""A process for each node: more of them than this are no plane to try things out on."""

_SIMULATED_PRODUCT: Final = {"productName": "Simulated GPU", "memory": "80Gi", "architecture": "Simulated"}


def create_plugins(
    folder: PlaneFolder,
    drivers: Sequence[str],
    *,
    runtime: Path,
    nodes: Sequence[str],
    devices: int,
    started: Callable[[str, int | None], None],
) -> Iterator[tuple[str, ChildProcess]]:
    """Write the inventory of each node, and yield the node with its plugin; ``started`` is told each new pid."""
    if not drivers:
        return
    (folder / PLUGINS_FOLDER).mkdir(mode=0o700, exist_ok=True)
    for node in nodes:
        place, devices_file = NodeFolders(runtime / node), folder / PLUGINS_FOLDER / f"{node}.yaml"
        place.make()
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
                    f"--plugins={place.plugins}",
                    f"--registry={place.registry}",
                    f"--cdi={place.cdi}",
                    f"--kubeconfig={folder / KUBECONFIG_FILE}",
                ),
                log=folder / PLUGINS_FOLDER / f"{node}.log",
                scratch=folder / SCRATCH_FOLDER,
                started=partial(started, node),
            ),
        )


def inventory_file(devices: int) -> str:
    """Return the file that describes a node with so many GPUs, all alike."""
    gpus = [{"product": "simulated", "count": devices}] if devices else []
    document = {
        "apiVersion": "reserve.dra/v1alpha1",
        "kind": "NodeInventory",
        "products": {"simulated": _SIMULATED_PRODUCT},
        "gpus": gpus,
    }
    return yaml.safe_dump(document, sort_keys=False)
