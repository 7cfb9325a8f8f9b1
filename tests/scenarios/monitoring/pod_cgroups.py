"""Cgroups of pods, as a kubelet and a container runtime make them: the nodes of a plane have none of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.cluster import keeper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cluster.run_folder import RunFolder

_CLASS: Final = "besteffort"
_CONTROLLERS: Final = ("cpu", "memory")


class PodCgroups:
    """The cgroups of the pods of all nodes, each node below its own; they end with the folder."""

    def __init__(self, folder: RunFolder, *, nodes: Sequence[str]) -> None:
        self._folder = folder
        keeper.make_cgroup(folder.path)
        for node in nodes:
            self._make(f"{self.of_node(node)}/{_CLASS}")

    def of_node(self, node: str) -> str:
        """Return the path of the cgroup of all pods of a node."""
        return f"{keeper.cgroup_of(self._folder.path)}/{node}/kubepods"

    def run(self, node: str, *, uid: str) -> None:
        """Run a process that waits in the one container of a pod, of the QoS class BestEffort."""
        container = f"{self.of_node(node)}/{_CLASS}/pod{uid}/container"
        self._make(container)
        members = [f"{hierarchy / container}/cgroup.procs" for hierarchy in _accounting()]
        entering = "; ".join(f"echo $$ > {file}" for file in members)
        self._folder.process(f"container-{node}", ["sh", "-ec", f"{entering}; exec sleep infinity"]).start()

    @staticmethod
    def _make(path: str) -> None:
        for hierarchy in keeper.hierarchies():
            folder = hierarchy
            for name in path.split("/"):
                _pass_on_controllers(folder)
                folder /= name
                folder.mkdir(exist_ok=True)


def _accounting() -> list[Path]:
    """Return the hierarchies that count what a process uses; a new cgroup of cpusets takes no process."""
    return [hierarchy for hierarchy in keeper.hierarchies() if not (hierarchy / "cpuset.cpus").exists()]


def _pass_on_controllers(folder: Path) -> None:
    """Let the cgroups below have the controllers that plugins read; with v1 they have them anyway."""
    available = folder / "cgroup.controllers"
    passed_on = [name for name in _CONTROLLERS if available.exists() and name in available.read_text().split()]
    if passed_on:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in passed_on))
