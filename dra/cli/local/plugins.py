"""DRA plugins beside the plane: ``dra-reserve kubelet-plugin`` for each of its nodes, with devices that are made up.

A node's devices are in a file, ``plugins/NODE.yaml`` in the plane's folder, which the plugin reads again when it has
changed: GPUs fall ill and vanish as one likes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from dra.cli.local.children import Child
from dra.cli.local.folder import KUBECONFIG, PLUGINS, SCRATCH, Folder
from localplane.nodes.plugins.node_folders import NodeFolders

OWN: Final = "own"
"""Plugins that users start themselves: sockets and nothing else."""

DRIVERS: Final = ("gpu",)
"""Of ours, those that can do something on a node that is made up; CPUs there are those of this machine."""

NODES_MAX: Final = 20
"""A process for each node: more of them than this are no plane to try things out on."""

_PRODUCT: Final = {"productName": "Simulated GPU", "memory": "80Gi", "architecture": "Simulated"}


def children(
    folder: Folder,
    drivers: Sequence[str],
    *,
    runtime: Path,
    nodes: Sequence[str],
    devices: int,
    started: Callable[[str, int | None], None],
) -> Iterator[tuple[str, Child]]:
    """Write the inventory of each node, and yield the node with its plugin; ``started`` is told each new pid."""
    if not drivers:
        return
    (folder / PLUGINS).mkdir(mode=0o700, exist_ok=True)
    for node in nodes:
        place, devices_file = NodeFolders(runtime / node), folder / PLUGINS / f"{node}.yaml"
        place.make()
        devices_file.write_text(inventory(devices), encoding="utf-8")
        yield (
            node,
            Child(
                name=f"the plugin of {node}",
                command=(
                    "kubelet-plugin",
                    f"--drivers={','.join(drivers)}",
                    f"--node-name={node}",
                    f"--inventory=simulated:{devices_file}",
                    f"--plugins={place.plugins}",
                    f"--registry={place.registry}",
                    f"--cdi={place.cdi}",
                    f"--kubeconfig={folder / KUBECONFIG}",
                ),
                log=folder / PLUGINS / f"{node}.log",
                scratch=folder / SCRATCH,
                started=partial(started, node),
            ),
        )


def inventory(devices: int) -> str:
    """Return the file that describes a node with so many GPUs, all alike."""
    gpus = [{"product": "simulated", "count": devices}] if devices else []
    document = {
        "apiVersion": "reserve.dra/v1alpha1",
        "kind": "NodeInventory",
        "products": {"simulated": _PRODUCT},
        "gpus": gpus,
    }
    return yaml.safe_dump(document, sort_keys=False)
