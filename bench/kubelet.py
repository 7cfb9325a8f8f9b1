"""As much of a kubelet as a plugin's speed depends on: calls over its socket, and a look at its process.

`Caller` keeps a number of calls under way and notes how long each took; `Process` starts a program and reads its CPU
time and memory from the kernel.
"""

import asyncio
import contextlib
import json
import signal
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from grpc import aio

from bench.process_memory import memory
from dra.wire import devicehealth
from dra.wire.plugin import Claim, DraPluginClient, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest
from dra.wire.registration import InfoRequest, RegistrationClient, RegistrationStatus

TIMEOUT: Final = 45.0
"""Seconds; what a kubelet waits for."""

STOP_SECONDS: Final = 20.0
_SCHEDULED: Final = 2
"""``CPUCLOCK_SCHED``: in nanoseconds, where /proc/PID/stat has hundredths of a second."""

_PERCENT: Final = 100


class Times(NamedTuple):
    """Of some prepares and unprepares, each in a call of its own."""

    prepare: list[float]
    unprepare: list[float]
    seconds: float

    @property
    def rate(self) -> float:
        """Pairs a second."""
        return len(self.prepare) / self.seconds


def p50(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """Return what one of a hundred exceeds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * 99 // _PERCENT)]


class Caller:
    """A kubelet's connection to one driver."""

    def __init__(self, channel: aio.Channel) -> None:
        self._client = DraPluginClient(channel)

    async def separately(self, claims: Iterable[Claim], *, at_a_time: int) -> Times:
        """Prepare and unprepare each claim, so many at a time."""
        todo, times = iter(claims), Times([], [], 0.0)
        began = time.perf_counter()
        await asyncio.gather(*(self._work(todo, times) for _ in range(at_a_time)))
        return times._replace(seconds=time.perf_counter() - began)

    async def together(self, claims: Sequence[Claim]) -> Times:
        """Prepare all in one call, and unprepare them in another."""
        first, second = await self.prepare(claims), await self.unprepare(claims)
        return Times([first], [second], first + second)

    async def prepare(self, claims: Sequence[Claim]) -> float:
        """Return how long a call took."""
        began = time.perf_counter()
        answer = await self._client.node_prepare_resources(NodePrepareResourcesRequest(claims=claims), timeout=TIMEOUT)
        return _answered(began, [claim.error for claim in answer.claims.values()], claims)

    async def unprepare(self, claims: Sequence[Claim]) -> float:
        """Return how long a call took."""
        began = time.perf_counter()
        answer = await self._client.node_unprepare_resources(
            NodeUnprepareResourcesRequest(claims=claims), timeout=TIMEOUT
        )
        return _answered(began, [claim.error for claim in answer.claims.values()], claims)

    async def _work(self, todo: Iterator[Claim], times: Times) -> None:
        for claim in todo:
            times.prepare.append(await self.prepare([claim]))
            times.unprepare.append(await self.unprepare([claim]))


@asynccontextmanager
async def calling(socket: str) -> AsyncIterator[Caller]:
    """Connect to a socket."""
    alone = [("grpc.use_local_subchannel_pool", 1)]  # else a new connection to a path may be an old one
    async with aio.insecure_channel(f"unix:{socket}", options=alone) as channel:
        yield Caller(channel)


def _answered(began: float, errors: list[str], claims: Sequence[Claim]) -> float:
    spent = time.perf_counter() - began
    if len(errors) != len(claims) or any(errors):
        raise SystemExit(f"{len(claims)} claims, answers: {[error for error in errors if error] or len(errors)}")
    return spent


async def registered(socket: Path) -> str:
    """Do as a kubelet that finds a plugin; return where it serves."""
    async with aio.insecure_channel(f"unix:{socket}") as channel:
        client = RegistrationClient(channel)
        info = await client.get_info(InfoRequest(), timeout=5)
        await client.notify_registration_status(RegistrationStatus(plugin_registered=True), timeout=5)
        endpoint: str = info.endpoint
        return endpoint


async def watched(endpoint: str) -> None:
    """Listen to the health of a driver's devices."""
    async with aio.insecure_channel(f"unix:{endpoint}") as channel:
        request = devicehealth.NodeWatchResourcesRequest()
        async for _ in devicehealth.DraResourceHealthClient(channel).node_watch_resources(request):
            pass


def processor_seconds(pid: int) -> float:
    """Return the seconds of a processor that all threads of a process have used, those that ended included."""
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


class Process:
    """A program, seen from outside."""

    def __init__(self, started: subprocess.Popen[str]) -> None:
        self._started = started

    def read_facts(self) -> dict[str, Any]:
        """Return the line of JSON that it prints."""
        line = self._stdout.readline()
        if not line:
            raise SystemExit(f"{self._started.args!r} ended without a word; see above")
        facts: dict[str, Any] = json.loads(line)
        return facts

    def cpu(self) -> float:
        """Return the seconds of CPU that all its threads have used, those that ended included."""
        return processor_seconds(self._started.pid)

    def resident(self) -> float:
        """Return its memory in MiB."""
        resident, _ = memory(self._started.pid)
        return resident

    def switches(self) -> int:
        """Return how often its threads have begun to wait."""
        folders = Path(f"/proc/{self._started.pid}/task").iterdir()
        switches = 0
        for folder in folders:
            with contextlib.suppress(OSError):
                switches += int((folder / "status").read_text().partition("voluntary_ctxt_switches:")[2].split()[0])
        return switches

    @property
    def _stdout(self) -> IO[str]:
        if self._started.stdout is None:
            raise AssertionError("it was started with a pipe")
        return self._started.stdout


@contextlib.contextmanager
def started(command: Sequence[str], **more: Any) -> Iterator[Process]:  # noqa: ANN401 - of Popen
    """Run a program until the block is left; then SIGTERM."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more) as process:  # noqa: S603 - ourselves
        try:
            yield Process(process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
