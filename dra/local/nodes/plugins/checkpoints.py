"""What a kubelet remembers on disk: which claims are in use on its node, by which pods, with which devices.

A plugin holds its devices until it is told otherwise, so who forgets that a claim was prepared leaks them. Whether it
is prepared is not remembered, as with the real kubelet: the next sandbox asks the driver again.
"""

import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from dra.local.nodes.preparations import Preparation

NAME: Final = "dra_manager_state"

_log: Final = logging.getLogger(__name__)


class Checkpoints:
    """Those of all nodes: a file in the folder of each."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders

    def load(self) -> dict[str, list[Preparation]]:
        """Return what was in use on each node."""
        found = {}
        for node, folder in self._folders.items():
            try:
                found[node] = msgspec.json.decode((folder / NAME).read_bytes(), type=list[Preparation])
            except FileNotFoundError:
                continue
            except msgspec.DecodeError as error:
                _log.warning("node %s: its checkpoint %s is not readable: %s", node, folder / NAME, error)
        return found

    def save(self, node: str, preparations: list[Preparation]) -> None:
        """Remember what is in use on a node."""
        path = self._folders[node] / NAME
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = path.with_suffix(".new")
        made.write_bytes(msgspec.json.encode(preparations))
        os.replace(made, path)  # noqa: PTH105 - the same, and atomic by its name
