"""The kubelet's checkpoint: the claims in use on its node, with their pods and devices, in a file.

A plugin keeps its devices prepared until it is called to unprepare them, so a kubelet that forgets a prepared claim
leaks devices. Therefore a checkpoint that cannot be read is fatal at startup, as in the real kubelet. Whether a claim
is prepared is not stored, as upstream: for the next sandbox, the driver is called again.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from localplane.nodes.dra_manager import ClaimInfo

CHECKPOINT_FILE: Final = "dra_manager_state"


class UnreadableCheckpointError(RuntimeError):
    """The claims in use on a node are unknown; the text names the file and the remedy."""


class FileCheckpointer:
    """Stores the checkpoints of all nodes: one file in the folder of each node."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders

    def load(self) -> dict[str, list[ClaimInfo]]:
        """Return the claims in use on each node; raises UnreadableCheckpointError."""
        infos = {}
        for node, folder in self._folders.items():
            path = folder / CHECKPOINT_FILE
            try:
                infos[node] = msgspec.json.decode(path.read_bytes(), type=list[ClaimInfo])
            except FileNotFoundError:
                continue
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                what = error.strerror if isinstance(error, OSError) else error
                raise UnreadableCheckpointError(
                    f"node {node}: its checkpoint {path} cannot be read: {what}. It says which pods have which claims: "
                    "without it their plugins would never be told that these pods have ended. Put the file right, or "
                    f"begin without it: mv {path} {path}.damaged, and delete the pods of that node"
                ) from error
        return infos

    def save(self, node: str, claim_infos: list[ClaimInfo]) -> None:
        """Store the claims in use on a node."""
        path = self._folders[node] / CHECKPOINT_FILE
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(claim_infos))
        os.replace(new, path)  # noqa: PTH105 - the same, and atomic by its name
