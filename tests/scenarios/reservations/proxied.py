"""The descheduler of the package behind a proxy, to be killed and started again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cluster.processes import Process
from tests.scenarios.controller import IMPATIENT
from tests.scenarios.eventually import eventually
from tests.scenarios.proxy import Proxy
from tests.scenarios.target import Target

BEGINS: Final = "migrating pods; "
"""Message of a descheduler that acts from then on."""


@dataclass(kw_only=True)
class Proxied:
    """A process and the proxy on its way to the API server."""

    process: Process
    proxy: Proxy
    file: Path
    kubeconfig: Path
    read: int = 0
    """The length of the log when the process was started last."""

    def configure(self, program: Sequence[str], **changes: Any) -> None:
        """Have the next start run another program, or another configuration."""
        self.process.command = [*program, "descheduler", f"--kubeconfig={self.kubeconfig}", f"--config={self.file}"]
        configuration = json.loads(self.file.read_text(encoding="utf-8"))
        self.file.write_text(json.dumps(configuration | changes), encoding="utf-8")

    async def start(self) -> None:
        """Start the process, and return when it acts: it leads, and writes of its predecessor have arrived."""
        self.spawn()
        await asyncio.to_thread(self.process.wait_ready)
        await eventually(self.acts, saying="the descheduler acts")

    def spawn(self) -> None:
        """Start the process, and return at once."""
        self.read = len(self._log())
        self.process.spawn()

    def acts(self) -> bool:
        """Tell whether the process has begun to act."""
        return BEGINS in self.said

    @property
    def said(self) -> str:
        """The log since the start."""
        return self._log()[self.read :]

    async def stop(self) -> None:
        """End the process as a node's shutdown does."""
        await asyncio.to_thread(self.process.stop)

    def crash(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()

    def _log(self) -> str:
        log = self.process.log
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


@asynccontextmanager
async def behind_a_proxy(
    process: Process,
    target: Target,
    *,
    credentials: Path | None = None,
    program: Sequence[str] = IMPATIENT,
    **changes: Any,
) -> AsyncIterator[Proxied]:
    """Stop a descheduler, to be started behind a proxy with other settings; at the end it runs as before."""
    file = target.folder.path / f"{process.name}.yaml"
    text, command = file.read_text(encoding="utf-8"), process.command
    async with Proxy(credentials or target.folder.path / "descheduler.kubeconfig", admin=target.admin) as proxy:
        kubeconfig = proxy.kubeconfig(target.folder.path / "descheduler-proxied.kubeconfig")
        found = Proxied(process=process, proxy=proxy, file=file, kubeconfig=kubeconfig)
        await found.stop()
        found.configure(program, **changes)
        try:
            yield found
        finally:
            await found.stop()
            process.command = command
            file.write_text(text, encoding="utf-8")
            await asyncio.to_thread(process.start)
