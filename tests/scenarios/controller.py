"""Our controller, run as users run it: the installed command, a kubeconfig, a configuration file, signals."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from tests.cluster.ports import LOOPBACK, free
from tests.scenarios import metrics
from tests.scenarios.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.run_folder import RunFolder
    from tests.scenarios.metrics import Metrics

INSTALLED: Final = (str(Path(sys.executable).with_name("dra-reserve")),)
"""The command that users run."""

IMPATIENT: Final = (sys.executable, "-P", str(Path(__file__).with_name("impatient.py")))
"""The same command, which does not wait for minutes for pods that vanished."""

READY_WITHIN: Final = 60.0
"""Seconds from start to ready: it reads the cluster and, if the one before was killed, waits for its lease."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the controller is started."""

    kubeconfig: Path
    mode: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """The configuration file; the addresses of probes and metrics are added."""
    arguments: tuple[str, ...] = ()
    """More of the command line, e.g. ("--lease-namespace", "x")."""
    program: tuple[str, ...] = INSTALLED
    """What is started in the place of the installed command."""
    ready_path: str = "/readyz"
    """The path that answers 200 when the controller is ready; a standby may be asked /healthz."""


class Controller:
    """One controller process; several may run at once, each with ports and a log of its own."""

    def __init__(self, folder: RunFolder, settings: Settings, *, name: str = "controller") -> None:
        self.settings: Final = settings
        self._probes, self._metrics = free(2)
        self._file: Final = folder.path / f"{name}.yaml"
        command = [*settings.program, "controller", f"--kubeconfig={settings.kubeconfig}", f"--mode={settings.mode}"]
        self.process: Final = folder.process(name, [*command, f"--config={self._file}", *settings.arguments])

    @property
    def log(self) -> str:
        """Everything it has printed so far, over all its starts."""
        return self.process.log.read_text(encoding="utf-8", errors="replace")

    async def start(self, *, within: float = READY_WITHIN) -> None:
        """Start it and return when its probe says that it is ready."""
        self.spawn()
        await self.is_ready(within=within)

    def spawn(self) -> None:
        """Start it and return at once."""
        self._file.write_text(json.dumps(self._configuration()), encoding="utf-8")
        self.process.spawn()

    async def is_ready(self, *, within: float = READY_WITHIN) -> None:
        """Return when its probe says that it is ready."""
        await eventually(self._ready, within=within, saying=f"the controller is ready (log: {self.process.log})")

    async def troubles(self) -> str | None:
        """Return what its probe says that it still has to know; None while it does not answer."""
        self.process.raise_if_dead()
        try:
            _, text = await _get(self._probes, self.settings.ready_path)
        except aiohttp.ClientConnectionError:
            return None
        return text

    async def stop(self) -> None:
        """Ask it to end, as a node's shutdown does; it must do so in time and without complaint."""
        code = await asyncio.to_thread(self.process.stop)
        assert code == 0, f"the controller ended with exit code {code}; the end of its log:\n{self.process.tail()}"

    def crash(self) -> None:
        """End it as a power cut would; it may be started again."""
        self.process.kill()

    def freeze(self) -> None:
        """Let it stand still; a leader must not write after its lease when it goes on."""
        self.process.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self.process.thaw()

    @property
    def metrics_address(self) -> str:
        """The host and port of /metrics."""
        return f"{LOOPBACK}:{self._metrics}"

    async def metrics(self) -> Metrics:
        """Return what /metrics says now."""
        status, text = await _get(self._metrics, "/metrics")
        assert status == 200, text
        return metrics.parse(text)

    def _configuration(self) -> dict[str, Any]:
        return {
            **self.settings.configuration,
            "probes": {"address": LOOPBACK, "port": self._probes},
            "metrics": {"address": LOOPBACK, "port": self._metrics},
        }

    async def _ready(self) -> bool:
        self.process.raise_if_dead()
        try:
            status, _ = await _get(self._probes, self.settings.ready_path)
        except aiohttp.ClientConnectionError:
            return False
        return status == 200


async def _get(port: int, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.get(f"http://{LOOPBACK}:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()
