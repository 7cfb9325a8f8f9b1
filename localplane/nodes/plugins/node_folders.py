"""Where a node's plugins put their sockets and CDI files: a folder for each node, short enough for sockets.

A unix socket's path has 107 bytes. The longest one that plugins make bears the uid of their pod
(``DRIVER-UID-reg.sock``), so the folder of a node has to be short: it lies in a runtime folder of the plane's own, and
not beside its state, which may be anywhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOCKET_PATH_MAX: Final = 107
"""Bytes of the path of a unix socket at most (``sun_path`` without its end)."""

PLUGINS: Final = "plugins"
REGISTRY: Final = "plugins_registry"
CDI: Final = "cdi"


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """Those of one node; each may be read and written by its owner only."""

    root: Path

    @property
    def plugins(self) -> Path:
        """Where plugins have their own sockets and files: ``--plugins``."""
        return self.root / PLUGINS

    @property
    def registry(self) -> Path:
        """Where they put the sockets by which they are found: ``--registry``."""
        return self.root / REGISTRY

    @property
    def cdi(self) -> Path:
        """Where they describe devices: ``--cdi``."""
        return self.root / CDI

    def make(self) -> None:
        """Make them."""
        for folder in (self.plugins, self.registry, self.cdi):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def room(self) -> int:
        """Return how many bytes the name of a registration socket may have."""
        return SOCKET_PATH_MAX - len(bytes(self.registry)) - 1


def folders_by_node(runtime: Path, nodes: Iterable[str]) -> Mapping[str, NodeFolders]:
    """Return the folders of each node below a runtime folder."""
    return {node: NodeFolders(runtime / node) for node in nodes}
