"""Our kubelet plugin, run as users run it: the command, a kubeconfig without more rights than it needs, signals."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.eventually import eventually
from tests.scenarios.resources import RESOURCE_SLICES

if TYPE_CHECKING:
    from tests.cluster.node import RealNode
    from tests.scenarios.api import Api, Json

DRIVER: Final = "gpu.reserve.dra"

TREE: Final = Path(__file__).resolve().parents[3]

COMMAND: Final = ("env", f"PYTHONPATH={TREE}", sys.executable, "-m", "dra.cli.main", "kubelet-plugin")
"""The tree that is tested, whatever is installed."""

INVENTORY: Final = """
apiVersion: reserve.dra/v1alpha1
kind: NodeInventory
driverVersion: 570.86.15
cudaDriverVersion: "12.8"
products:
  h100: {{productName: NVIDIA H100 80GB HBM3, memory: 81559Mi, architecture: Hopper, cudaComputeCapability: "9.0"}}
gpus:
- {{product: h100, count: {count}, numaNodes: [0], pcieRoots: ["pci0000:17"]}}
"""

READY_WITHIN: Final = 30.0
"""Seconds from the start to published slices; the kubelet wipes what it finds when it starts."""


class Plugin:
    """One instance of the plugin on a real node; it may be stopped, killed and started again."""

    def __init__(self, node: RealNode, *, gpus: int = 1, instance: str = "", room: int | None = None) -> None:
        """`instance`: the uid of its pod, which tells it from the other one of a rolling update.

        `room`: bytes of the file system of its own that its folder then is.
        """
        self.node: Final = node
        folder = node.plugins / DRIVER
        self._limited: Final = folder if room else None
        self.folder: Final = node.limit_space(private(folder), size=room) if room else folder
        """Where we see it; the plugin itself is told of the folder's usual place."""
        self.inventory: Final = node.folder.path / "gpus.yaml"
        self.inventory.write_text(INVENTORY.format(count=gpus), encoding="utf-8")
        command = [
            *COMMAND,
            "--drivers=gpu",
            f"--inventory=simulated:{self.inventory}",
            f"--node-name={node.name}",
            f"--kubeconfig={node.kubeconfig}",
            f"--plugins={node.plugins}",
            f"--registry={node.plugins_registry}",
            f"--cdi={node.cdi}",
            *([f"--pod-uid={instance}"] if instance else []),
        ]
        name = f"plugin-{instance}" if instance else "plugin"
        self.process: Final = node.folder.process(name, node.within(*command) if room else command)

    @property
    def log(self) -> str:
        """Everything it has printed so far, over all its starts."""
        return self.process.log.read_text(encoding="utf-8", errors="replace")

    @property
    def checkpoint(self) -> Path:
        """What it remembers."""
        return self.folder / "checkpoint.json"

    @property
    def registration(self) -> Path:
        """The socket by which the kubelet finds it."""
        (found,) = self.node.plugins_registry.glob(f"{DRIVER}*reg.sock")
        return found

    async def start(self, api: Api) -> None:
        """Start it and return when its devices are published."""
        self.process.spawn()
        await self.is_ready(api)

    async def is_ready(self, api: Api) -> None:
        """Return when it serves and its devices are published."""

        async def published() -> bool:
            self.process.raise_if_dead()
            return bool(await slices(api, self.node.name)) and any(self.node.plugins_registry.glob(f"{DRIVER}*.sock"))

        await eventually(published, within=READY_WITHIN, saying=f"the plugin is ready (log: {self.process.log})")

    def stop(self) -> None:
        """Ask it to end, as a node's shutdown does; it must do so in time and without complaint."""
        code = self.process.stop()
        assert code == 0, f"the plugin ended with exit code {code}; the end of its log:\n{self.process.tail()}"

    def crash(self) -> None:
        """End it as a power cut would."""
        self.process.kill()

    def forget(self) -> None:
        """Remove what it left on the node, so that the next one starts afresh; it must have ended."""
        if self._limited:
            self.node.lift_limit(self._limited)
        shutil.rmtree(self.node.plugins / DRIVER, ignore_errors=True)
        for file in (*self.node.cdi.glob(f"{DRIVER}*"), *self.node.plugins_registry.glob(f"{DRIVER}*")):
            file.unlink(missing_ok=True)

    def prepared(self) -> set[str]:
        """Return the uids of the claims that it remembers as prepared."""
        return {each["claim"]["uid"] for each in _content(self.checkpoint)}


def private(folder: Path) -> Path:
    """Make a folder as the plugin does."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def cdi_files(node: RealNode) -> set[str]:
    """Return the names of the CDI files of our driver that the container runtime finds on the node."""
    return {file.name for file in node.cdi.iterdir() if not file.name.startswith(".")}


def cdi_file(claim: Json) -> str:
    """Return the name of a claim's CDI file."""
    return f"{DRIVER}-claim-{claim['metadata']['uid']}.json"


async def slices(api: Api, node: str) -> list[Json]:
    """Return the ResourceSlices of our driver on the node."""
    fields = f"spec.nodeName={node},spec.driver={DRIVER}"
    return await api.all(RESOURCE_SLICES, fieldSelector=fields)


def _content(checkpoint: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(checkpoint.read_text(encoding="utf-8"))["content"]
    except FileNotFoundError:
        return []
    return found
