"""Our kubelet plugin, run as users run it: the command, a kubeconfig without more rights than it needs, signals."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from tests.cluster.ports import LOOPBACK, free
from tests.scenarios import metrics
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

    def __init__(
        self,
        node: RealNode,
        *,
        kubeconfig: Path,
        gpus: int = 1,
        instance: str = "",
        room: int | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        """`instance`: the uid of its pod, which tells it from the other one of a rolling update.

        `room`: bytes of the file system of its own that its folder then is.
        """
        self.node: Final = node
        self.kubeconfig: Final = kubeconfig
        folder = node.plugins / DRIVER
        self._limited: Final = folder if room else None
        self.folder: Final = node.limit_space(private(folder), size=room) if room else folder
        """Where we see it; the plugin itself is told of the folder's usual place."""
        self.inventory: Final = node.folder.path / "gpus.yaml"
        self.inventory.write_text(INVENTORY.format(count=gpus), encoding="utf-8")
        self._probes, self._metrics = free(2)
        command = [
            *COMMAND,
            "--drivers=gpu",
            f"--inventory=simulated:{self.inventory}",
            f"--node-name={node.name}",
            f"--kubeconfig={kubeconfig}",
            f"--plugins={node.plugins}",
            f"--registry={node.plugins_registry}",
            f"--cdi={node.cdi}",
            f"--probes={LOOPBACK}:{self._probes}",
            f"--metrics={LOOPBACK}:{self._metrics}",
            "--log-format=text",
            *([f"--pod-uid={instance}"] if instance else []),
            *arguments,
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

    async def start(self) -> None:
        """Start it and return when its probe says that it is ready: registered, and its devices published."""
        self.process.spawn()
        await self.is_ready()

    async def is_ready(self) -> None:
        """Return when its probe says so."""

        async def ready() -> bool:
            status, text = await self._get(self._probes, "/readyz")
            assert status == 200, text
            return True

        await eventually(ready, within=READY_WITHIN, saying=f"the plugin is ready (log: {self.process.log})")

    async def calls(self, operation: str) -> float:
        """Return how many calls of the kubelet's it has answered since it was started: prepare or unprepare."""
        _, text = await self._get(self._metrics, "/metrics")
        found = metrics.parse(text)
        return found.get(f'dra_reserve_plugin_call_seconds_count{{driver="{DRIVER}",operation="{operation}"}}', 0)

    def stop(self) -> None:
        """Ask it to end, as a node's shutdown does; it must do so in time and without complaint."""
        code = self.process.stop()
        assert code == 0, f"the plugin ended with exit code {code}; the end of its log:\n{self.process.tail()}"

    def crash(self) -> None:
        """End it as a power cut would."""
        self.process.kill()

    async def _get(self, port: int, path: str) -> tuple[int, str]:
        """Ask it something; while nobody answers, the status is 0."""
        self.process.raise_if_dead()
        try:
            async with (
                aiohttp.ClientSession(trust_env=False) as session,
                session.get(f"http://{LOOPBACK}:{port}{path}") as answer,
            ):
                return answer.status, await answer.text()
        except aiohttp.ClientConnectionError as error:
            return 0, str(error)

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
