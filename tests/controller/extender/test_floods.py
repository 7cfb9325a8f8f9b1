"""Clients without a certificate flood real processes with a container's memory; kube-scheduler is served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from controller.extender.server import CONNECTION_LIMITS
from dra.telemetry import telemetry_server
from tests.cluster.memory import Limited, NoCgroupError, limited
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.cluster.processes import Process
from tests.cluster.run_folder import RunFolder
from tests.cluster.waiting import until
from tests.controller.extender.authority import SERVER, Authority
from tests.scenarios import planes

REAL_TIME = True

pytestmark = pytest.mark.slow

SILENT: Final = 7_000
"""Connections of clients that say nothing: 300 KiB each would be 2 GiB."""

SCRAPERS: Final = 10_000
AT_ONCE: Final = 500
"""Scrapers at a time; all of them are the descriptors of two processes."""

MEMORY: Final = 384
"""MiB of each process: the extender has 150 MiB of connections at most, and Python 100."""

PATIENCE: Final = 30.0
"""Seconds that one answer may take while two cores make connections and accept them."""


@dataclass(frozen=True, slots=True)
class Flooded:
    """A process with a limit of memory, and where it listens."""

    process: Process
    memory: Limited
    ports: dict[str, int]

    def unharmed(self) -> None:
        assert self.process.alive, (self.memory.peak >> 20, self.process.tail())
        assert self.memory.peak < MEMORY << 20


@pytest.fixture(autouse=True, scope="module")
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * SILENT:
        pytest.skip(f"{2 * SILENT} descriptors are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def remark(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Says something that --junit-xml and `-rP` show."""

    def said(text: str) -> None:
        record_property("measured", text)
        sys.stdout.write(f"{text}\n")

    return said


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def folder() -> Iterator[RunFolder]:
    with RunFolder() as found:
        yield found


@pytest.fixture(scope="module")
def plane(folder: RunFolder) -> Path:
    return planes.start(folder, api="stock", reservations=True)


@pytest.fixture
def flooded(request: pytest.FixtureRequest, folder: RunFolder, plane: Path, authority: Authority) -> Iterator[Flooded]:
    """The process that the test's parameter names."""
    name = str(request.param)
    ports = dict(zip(("probes", "metrics", "serve"), free(3), strict=True))
    configuration = {each: {"address": LOOPBACK, "port": ports[each]} for each in ("probes", "metrics")}
    configuration |= {"leaderElection": {"enabled": False}, "logging": {"format": "text"}}
    if name == "scheduler-extender":
        certificate, key = authority.sign(SERVER, usage="serverAuth")
        tls = {"certificate": str(certificate), "key": str(key), "clientAuthority": str(authority.certificate)}
        configuration |= {"serve": {"address": LOOPBACK, "port": ports["serve"]}, "tls": tls}
    file = folder.path / f"{name}.json"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    with contextlib.ExitStack() as stack:
        try:
            memory = stack.enter_context(limited(name, mebibytes=MEMORY))
        except NoCgroupError as error:
            pytest.skip(f"no memory limit can be set here: {error}")
        process = folder.process(
            name,
            memory.within([*planes.PROGRAM, name, f"--kubeconfig={plane}", f"--config={file}"]),
            ready=partial(healthy, ports["probes"], "/healthz", tls=False),
        )
        process.env = {**process.env, "PYTHONPATH": str(planes.ROOT)}
        process.start(within=120)
        try:
            yield Flooded(process, memory, ports)
        finally:
            process.stop()


@pytest.fixture
async def scheduler(authority: Authority) -> AsyncIterator[aiohttp.ClientSession]:
    """A client with kube-scheduler's certificate, that opens a connection for each call."""
    context = ssl.create_default_context(cafile=authority.certificate)
    context.load_cert_chain(*authority.sign("kube-scheduler", usage="clientAuth"))
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        yield session


async def called(scheduler: aiohttp.ClientSession, port: int) -> float:
    """Have the extender answer one call; return the seconds that it took."""
    pod = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"containers": []}}
    began = asyncio.get_running_loop().time()
    url = f"https://{LOOPBACK}:{port}/filter"
    async with scheduler.post(url, json={"Pod": pod, "NodeNames": ["n"]}, server_hostname=SERVER) as got:
        assert json.loads(await got.read())["NodeNames"] == []
    return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("flooded", ["scheduler-extender"], indirect=True)
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half-a-hello"])
async def test_silent_connections_cost_the_extender_no_more_than_its_limit(
    flooded: Flooded, scheduler: aiohttp.ClientSession, said: bytes, remark: Callable[[str], None]
) -> None:
    took = [await called(scheduler, flooded.ports["serve"])]
    with contextlib.ExitStack() as silent:
        for number in range(SILENT):
            made = silent.enter_context(await asyncio.to_thread(connected, flooded.ports["serve"]))
            with contextlib.suppress(OSError):
                made.sendall(said)
            if number % 500 == 0:
                took.append(await called(scheduler, flooded.ports["serve"]))
        took.append(await called(scheduler, flooded.ports["serve"]))
        flooded.unharmed()
        dropped = await scraped(flooded.ports["metrics"], 'listener="extender"')
    remark(f"{len(took)} calls, slowest {max(took):.2f} s; peak {flooded.memory.peak >> 20} MiB; {dropped}")
    assert sum(dropped.values()) >= SILENT - CONNECTION_LIMITS.max_connections


@pytest.mark.parametrize("flooded", ["scheduler-extender", "controller"], indirect=True)
async def test_scrapers_cost_a_process_no_more_than_its_limit(
    flooded: Flooded, scheduler: aiohttp.ClientSession, remark: Callable[[str], None]
) -> None:
    answered, turns = 0, asyncio.Semaphore(AT_ONCE)

    async def scrape() -> None:
        nonlocal answered
        async with turns:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                answer = await asyncio.wait_for(raw(flooded.ports["metrics"]), PATIENCE)
                answered += b"200 OK" in answer

    flood = [asyncio.create_task(scrape()) for _ in range(SCRAPERS)]
    took = []
    while not all(each.done() for each in flood):
        alive = partial(healthy, flooded.ports["probes"], "/healthz", tls=False)
        await asyncio.to_thread(until, alive, within=PATIENCE, saying="the kubelet's probe is answered")
        if "scheduler-extender" in flooded.process.name:
            took.append(await called(scheduler, flooded.ports["serve"]))
        await asyncio.sleep(0.1)
    flooded.unharmed()
    dropped = await scraped(flooded.ports["metrics"], 'listener="metrics"', source="127.0.0.2")
    slowest = max(took, default=0.0)
    peak = flooded.memory.peak >> 20
    remark(f"{answered} answered; {len(took)} calls, slowest {slowest:.2f} s; peak {peak} MiB; {dropped}")
    assert answered > 0
    assert telemetry_server.CONNECTION_LIMITS.new_connections_per_second is not None
    assert sum(dropped.values()) > 0


def connected(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port))


async def raw(port: int, *, source: str = LOOPBACK) -> bytes:
    """Return an answer of /metrics with its head."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, local_addr=(source, 0))
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()


async def scraped(port: int, label: str, *, source: str = "127.0.0.2") -> dict[str, float]:
    """Return how many connections of a listener were dropped, by cause, as another address reads it."""
    await asyncio.sleep(telemetry_server.RENDER_CACHE_SECONDS)
    lines = (await raw(port, source=source)).decode().splitlines()
    found = [line for line in lines if line.startswith("dra_reserve_connections_dropped_total{") and label in line]
    return {line.partition('cause="')[2].partition('"')[0]: float(line.rpartition(" ")[2]) for line in found}
