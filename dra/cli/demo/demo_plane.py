"""The planes of a demo: ``dra-reserve local up``, each in its own process and folder, stopped with the demo."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from dra.cli.local import detached_plane
from dra.cli.local.controller_process import probes_address
from dra.cli.local.plane_folder import CONTROLLER_LOG_FILE, KUBECONFIG_FILE, LOG_FILE, PlaneFolder, PlaneRecord
from dra.kube import credentials
from dra.kube.client import Client
from dra.kube.errors import raise_for_status
from dra.kube.http import HttpTransport
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import JSON, Request

USER_AGENT: Final = "demo"
"""User agent of the demo's own requests, so that fault rules for the controller do not match them."""

START_TIMEOUT: Final = 60.0
READY_TIMEOUT: Final = 30.0
_POLL_INTERVAL: Final = 0.05
_STOP_TIMEOUT: Final = 10.0


class DemoPlaneError(RuntimeError):
    """A local plane failed, ended or was not ready in time."""


class DemoPlane:
    """A local plane that the demo starts, asks and stops."""

    def __init__(self, path: Path, *, api: str, nodes: int, devices: int, detached: bool = False) -> None:
        """Prepare a plane; with ``stays`` it can be kept, otherwise it ends with this process, however that ends."""
        self.folder = PlaneFolder(path)
        self.api = api
        shape = (f"--folder={path}", f"--api={api}", f"--nodes={nodes}", f"--devices={devices}")
        self._arguments = (*shape, "--no-reservations")  # the demo shows only claims
        self._detached = detached
        self._kept = False
        self._process: Process | None = None
        self._starting: asyncio.Task[PlaneRecord] | None = None
        self._transport: HttpTransport | None = None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the plane, for kubectl."""
        return self.folder / KUBECONFIG_FILE

    @property
    def record(self) -> PlaneRecord:
        """The plane's record of itself; raises DemoPlaneError if the plane has ended."""
        record = self.folder.record
        if record is None:
            raise DemoPlaneError(f"the plane with api {self.api} has ended; its log: {self.folder / LOG_FILE}")
        return record

    async def start(self) -> None:
        """Start the plane and wait until its nodes and its controller are ready; raise DemoPlaneError."""
        if self._detached:
            self._starting = asyncio.create_task(
                asyncio.to_thread(detached_plane.start_detached, self.folder, self._arguments)
            )
            await asyncio.shield(self._starting)
        else:
            await self._start_tethered()
        self._transport = HttpTransport(credentials.find(str(self.kubeconfig)), agent=USER_AGENT)
        await self.wait_controller_ready()

    async def _start_tethered(self) -> None:
        self.folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / LOG_FILE).open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dra.cli.local.tethered", "local", "up", *self._arguments),
                stdin=PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops the plane
            )
        await self._wait_until(self._is_up, within=START_TIMEOUT, saying="is up")

    def keep_running(self) -> None:
        """Let the plane run on when the demo ends."""
        self._kept = True

    async def wait_controller_ready(self) -> None:
        """Wait until the controller has read the cluster and acts; raise DemoPlaneError."""
        await self._wait_until(self._controller_answers, within=READY_TIMEOUT, saying="has a controller that is ready")

    async def stop(self) -> None:
        """Stop the plane, unless it is kept."""
        if self._transport is not None:
            await self._transport.close()
        if self._starting is not None and not self._kept:
            await asyncio.gather(self._starting, return_exceptions=True)
            await asyncio.to_thread(detached_plane.stop_plane, self.folder, save=False)
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def client(self) -> Client:
        """Return a client of the plane's API server; the plane must be started."""
        assert self._transport is not None, "not started"  # noqa: S101 - our own order of things
        return Client(self._transport, RateLimiter(1e4, 10_000))

    async def table(self, path: str) -> dict[str, Any]:
        """Return a collection as the Table that kubectl requests; raise ApiError."""
        return await self.request("GET", path, accept=f"{JSON};as=Table;v=v1;g=meta.k8s.io")

    async def request(self, method: str, path: str, body: object = None, *, accept: str = JSON) -> dict[str, Any]:
        """Return the decoded answer of the API server; raise ApiError."""
        assert self._transport is not None, "not started"  # noqa: S101 - as above
        raw = None if body is None else msgspec.json.encode(body)
        kind = JSON if raw else None
        request = Request(method=method, path=path, body=raw, content_type=kind, accept=accept, timeout=30.0)
        answer = await self._transport.send(request)
        raise_for_status(answer, path)
        return msgspec.json.decode(answer.body, type=dict[str, Any])

    def kill_controller(self) -> int:
        """Kill the controller without warning and return its pid; the plane restarts the controller."""
        pid = self.record.controller_pid
        if pid is None:
            raise DemoPlaneError(f"the plane with api {self.api} has no controller right now")
        os.kill(pid, signal.SIGKILL)
        return pid

    async def wait_new_controller(self, pid: int) -> int:
        """Return the pid of the controller that replaces a killed one, once the new controller is ready."""
        await self._wait_until(
            lambda: self.record.controller_pid not in (pid, None), within=READY_TIMEOUT, saying="has another one"
        )
        await self.wait_controller_ready()
        return self.record.controller_pid or 0

    async def _wait_until(self, holds: Any, *, within: float, saying: str) -> None:  # noqa: ANN401 - sync or async
        deadline = asyncio.get_running_loop().time() + within
        while not (await answer if asyncio.iscoroutine(answer := holds()) else answer):
            if self._process is not None and self._process.returncode is not None:
                log = (
                    (self.folder / LOG_FILE).read_text(encoding="utf-8", errors="replace")
                    if self.folder.path.exists()
                    else ""
                )
                raise DemoPlaneError(f"the plane with api {self.api} has ended:\n{log.strip()}")
            if asyncio.get_running_loop().time() > deadline:
                raise DemoPlaneError(f"the plane with api {self.api}: not so within {within:.0f} s: it {saying}")
            await asyncio.sleep(_POLL_INTERVAL)

    def _is_up(self) -> bool:
        record = self.folder.record
        return record is not None and self._process is not None and record.pid == self._process.pid and record.ready

    async def _controller_answers(self) -> bool:
        address = probes_address(self.folder / CONTROLLER_LOG_FILE)
        if address is None:
            return False
        try:
            async with (
                aiohttp.ClientSession(trust_env=False) as session,
                session.get(f"{address}/readyz", timeout=aiohttp.ClientTimeout(total=2)) as answer,
            ):
                return answer.status == 200  # noqa: PLR2004 - OK
        except (aiohttp.ClientError, TimeoutError):
            return False
