"""The processes of a build on one API server, as users run them, each with a record of its requests."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import web

from tests.cluster.ports import LOOPBACK, free
from tests.scenarios import metrics
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import WRITES
from tests.scenarios.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cluster.processes import Process
    from tests.cluster.run_folder import RunFolder
    from tests.older_build.builds import Build
    from tests.scenarios.faults import Call
    from tests.scenarios.metrics import Metrics

LEASE: Final = {"leaseSeconds": 6, "renewSeconds": 4, "retrySeconds": 0.5}
LEADS_WITHIN: Final = 40.0
"""Seconds until a process leads: it starts, waits for the lease of a killed one, and for its late writes."""
BOOKKEEPING: Final = ("leases", "events")
"""Written by a process about itself and for people, with limits of their own."""

CONTROLLER: Final = "controller"
EXTENDER: Final = "scheduler-extender"
DESCHEDULER: Final = "descheduler"
LEADING: Final = {
    CONTROLLER: "dra_reserve_leading",
    EXTENDER: "dra_reserve_extender_leading",
    DESCHEDULER: "dra_reserve_descheduler_leading",
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A cluster to run processes on."""

    folder: RunFolder
    admin: Path
    extender_port: int
    """Port at which the scheduler calls the extender: `Service`."""
    translates: bool
    """Whether the API server translates requests in Koordinator's form, as a plane does without policies."""


class Part:
    """One process of a build: `CONTROLLER`, `EXTENDER` or `DESCHEDULER`."""

    def __init__(
        self, build: Build, command: str, place: Place, proxy: Proxy, *, configuration: dict[str, Any]
    ) -> None:
        self.build: Final = build
        self.name: Final = f"{command} of {build}"
        self._command: Final = command
        self._proxy: Final = proxy
        self._probes, self._metrics, self.port = free(3)
        stem = f"{command}-{build.tree.name}-{self.port}"
        self._file: Final = place.folder.path / f"{stem}.yaml"
        self._configuration: Final = {
            "leaderElection": LEASE,
            "logging": {"format": "text"},
            **configuration,
            "probes": {"address": LOOPBACK, "port": self._probes},
            "metrics": {"address": LOOPBACK, "port": self._metrics},
            **({"serve": {"address": LOOPBACK, "port": self.port}} if command == EXTENDER else {}),
        }
        way = proxy.kubeconfig(place.folder.path / f"{stem}.kubeconfig")
        line = build.command(command, f"--kubeconfig={way}", f"--config={self._file}")
        self.process: Final[Process] = place.folder.process(stem, line)

    def __str__(self) -> str:
        return self.name

    async def start(self, *, leading: bool = False) -> None:
        """Start it, and wait until it leads or, as the standby, until it is alive."""
        self._file.write_text(json.dumps(self._configuration), encoding="utf-8")
        self.process.spawn()
        await eventually(self._is_alive, saying=f"{self} is alive (log: {self.process.log})")
        if leading:
            await self.leads()

    async def stop(self) -> None:
        """End it in order, as an upgrade does."""
        code = await asyncio.to_thread(self.process.stop)
        assert code == 0, f"{self} ended with exit code {code}:\n{self.process.tail()}"

    def kill(self) -> None:
        """End it as a power cut does."""
        self.process.kill()

    async def leads(self, *, within: float = LEADS_WITHIN) -> None:
        """Wait until it says that it leads."""
        await eventually(self.is_leading, within=within, saying=f"{self} leads (log: {self.process.log})")

    async def is_leading(self) -> bool:
        """Tell whether it says that it leads."""
        return (await self.metrics()).get(LEADING[self._command]) == 1.0

    async def is_ready(self) -> bool:
        """Tell whether its probe says that it is ready."""
        return await self._status("/readyz") == 200

    async def metrics(self) -> Metrics:
        """Return what /metrics says now."""
        return metrics.parse(await self.exposition())

    async def exposition(self) -> str:
        """Return the text of /metrics."""
        self.process.raise_if_dead()
        return await fetch(self._metrics, "/metrics")

    async def ask(self, verb: str, body: object) -> Any:
        """Return the answer of an extender to a call of kube-scheduler."""
        async with _session() as session, session.post(f"http://{LOOPBACK}:{self.port}/{verb}", json=body) as answer:
            assert answer.status == 200, f"{self}: {verb}: {answer.status} {await answer.text()}"
            return json.loads(await answer.read())

    def writes(self, *, since: float) -> list[Call]:
        """Return what it has tried to write from a moment on (`time.monotonic()`)."""
        return [
            each.call
            for each in self._proxy.exchanges
            if each.call.verb in WRITES and each.call.resource not in BOOKKEEPING and each.came > since
        ]

    async def _is_alive(self) -> bool:
        return await self._status("/healthz") == 200

    async def _status(self, path: str) -> int:
        self.process.raise_if_dead()
        try:
            async with _session() as session, session.get(f"http://{LOOPBACK}:{self._probes}{path}") as answer:
                return answer.status
        except aiohttp.ClientConnectionError:
            return 0


@dataclass
class Pair:
    """The same process of two builds, of which one leads."""

    leader: Part
    standby: Part
    """The leader itself, where there is only one process."""

    async def start(self) -> None:
        """Start both; the first one leads."""
        await self.leader.start(leading=True)
        await self._stand_by()

    async def hand_over(self, *, by_crash: bool = False) -> float:
        """Let the standby take over, and start the former leader as its standby; return when that began."""
        began = time.monotonic()
        if by_crash:
            self.leader.kill()
        else:
            await self.leader.stop()
        self.leader, self.standby = self.standby, self.leader
        await self.leader.leads()
        await self._stand_by()
        return began

    async def _stand_by(self) -> None:
        await self.standby.start()
        assert not await self.standby.is_leading(), f"{self.standby} leads, and so does {self.leader}"


class Service:
    """The address that the scheduler calls: forwards to the extender that is ready, as a Service does."""

    def __init__(self, port: int, *extenders: Part) -> None:
        self._port: Final = port
        self.extenders: Final = extenders

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve as long as the context lasts."""
        application = web.Application(client_max_size=1 << 24)
        application.router.add_get("/readyz", self._is_ready)
        application.router.add_post("/{verb}", self._forward)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, self._port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _is_ready(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if await self._chosen() else 503)

    async def _forward(self, request: web.Request) -> web.Response:
        body = await request.read()
        chosen = await self._chosen()
        if chosen is None:
            return web.Response(status=503, text="no extender is ready")
        url = f"http://{LOOPBACK}:{chosen.port}/{request.match_info['verb']}"
        try:
            async with _session() as session, session.post(url, data=body) as answer:
                return web.Response(status=answer.status, body=await answer.read())
        except aiohttp.ClientError as error:
            return web.Response(status=502, text=str(error))

    async def _chosen(self) -> Part | None:
        for each in self.extenders:
            if each.process.alive and await each.is_ready():
                return each
        return None


@asynccontextmanager
async def pair(
    command: str, place: Place, *builds: Build, configuration: dict[str, Any] | None = None
) -> AsyncIterator[Pair]:
    """Make a process of each build, one or two, not started yet; whichever runs at the end is stopped in order."""
    async with AsyncExitStack() as stack:
        made = []
        for build in builds:
            proxy = await stack.enter_async_context(Proxy(place.admin, admin=place.admin))
            made.append(Part(build, command, place, proxy, configuration=configuration or {}))
        yield Pair(made[0], made[-1])
        for each in made:
            if each.process.alive:
                await each.stop()


async def fetch(port: int, path: str) -> str:
    """Return what a process answers on one of its ports."""
    async with _session() as session, session.get(f"http://{LOOPBACK}:{port}{path}") as answer:
        return await answer.text()


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=15))
