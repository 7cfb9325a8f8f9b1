"""The descheduler of the package behind a proxy, to be killed and started again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.processes import Process
from tests.scenarios.controller import IMPATIENT
from tests.scenarios.eventually import eventually
from tests.scenarios.proxy import Proxy
from tests.scenarios.target import Target

BEGINS: Final = "migrating pods; "
"""Message of a descheduler that acts from then on."""


@dataclass(frozen=True, kw_only=True)
class Proxied:
    """A process and the proxy on its way to the API server."""

    process: Process
    proxy: Proxy

    async def start(self) -> None:
        """Start the process, and return when it acts: it leads, and writes of its predecessor have arrived."""
        before = self._log().count(BEGINS)
        await asyncio.to_thread(self.process.start)
        await eventually(
            lambda: self._log().count(BEGINS), until=lambda times: times > before, saying="the descheduler acts"
        )

    def crash(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()

    def _log(self) -> str:
        log = self.process.log
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


@asynccontextmanager
async def behind_a_proxy(
    process: Process, target: Target, *, program: Sequence[str] = IMPATIENT, **changes: Any
) -> AsyncIterator[Proxied]:
    """Restart a descheduler behind a proxy, with changes of its configuration; at the end it runs as before."""
    file = target.folder.path / f"{process.name}.yaml"
    text, command = file.read_text(encoding="utf-8"), process.command
    async with Proxy(target.folder.path / "descheduler.kubeconfig", admin=target.admin) as proxy:
        way = proxy.kubeconfig(target.folder.path / "descheduler-proxied.kubeconfig")
        await asyncio.to_thread(process.stop)
        process.command = [*program, "descheduler", f"--kubeconfig={way}", f"--config={file}"]
        file.write_text(json.dumps(json.loads(text) | changes), encoding="utf-8")
        found = Proxied(process=process, proxy=proxy)
        try:
            await found.start()
            yield found
        finally:
            await asyncio.to_thread(process.stop)
            process.command = command
            file.write_text(text, encoding="utf-8")
            await asyncio.to_thread(process.start)
