"""The folders of a node's plugins for sockets and CDI files: one for each node, with a path short enough for sockets.

The path of a unix socket has at most 107 bytes. The longest names that plugins use contain the uid of their pod
(``DRIVER-UID-reg.sock``), so the folder of a node needs a short path. It lies in a runtime folder of the plane and
not beside the plane's state, which may be anywhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLUGINS: Final = "plugins"
REGISTRY: Final = "plugins_registry"
CDI: Final = "cdi"


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """The folders of one node; only their owner may read and write them."""

    root: Path

    @property
    def plugins(self) -> Path:
        """Return the folder for the sockets and files of plugins: ``--plugins``."""
        return self.root / PLUGINS

    @property
    def registry(self) -> Path:
        """Return the folder for registration sockets, where the kubelet finds plugins: ``--registry``."""
        return self.root / REGISTRY

    @property
    def cdi(self) -> Path:
        """Return the folder for CDI files, which describe devices: ``--cdi``."""
        return self.root / CDI

    def make(self) -> None:
        """Create all folders of the node."""
        for folder in (self.plugins, self.registry, self.cdi):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def folders_by_node(runtime: Path, nodes: Iterable[str]) -> Mapping[str, NodeFolders]:
    """Return the folders of each node below a runtime folder."""
    return {node: NodeFolders(runtime / node) for node in nodes}
