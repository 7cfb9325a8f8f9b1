"""The local plane: its API server with 10,000 pods, with nobody and with 100 watching; then their whole life.

Everything in one process through `LocalTransport`, so the figures are those of the server alone, without HTTP. A
watcher reads blocks and counts their frames, nothing else: decoding is the client's cost (`make bench-world`). The life
of pods, with all components, is `bench.life`.

    python -m bench.plane [--pods N] [--watchers N] [--only server|life] [--lives N …] [--runs N] [--write] [--profile]
"""

import argparse
import asyncio
import cProfile
import gc
import json
import os
import platform
import pstats
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench import readme
from bench.life import Life
from dra.kube.transport import JSON, MERGE_PATCH, Request, Response
from localplane.server import ApiServer
from localplane.transport import LocalTransport

MARK: Final = "plane"

PODS: Final = "/api/v1/namespaces/default/pods"
BATCH: Final = 50
"""Writes after which others get their turn: a client over a network would let them more often."""

Figures = dict[str, float]


def pod(index: int) -> dict[str, Any]:
    """Return a pod as a Job makes it."""
    return {
        "metadata": {
            "name": f"train-{index:05}",
            "labels": {"batch.kubernetes.io/job-name": "train", "shard": str(index % 100)},
        },
        "spec": {
            "containers": [{"name": "main", "image": "train", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "train"}],
            "restartPolicy": "Never",
        },
    }


def asked(method: str, path: str, body: Any = None, content_type: str = JSON, **query: str) -> Request:  # noqa: ANN401 - JSON
    """Return a request."""
    raw = None if body is None else json.dumps(body).encode()
    return Request(method=method, path=path, query=query, body=raw, content_type=content_type, timeout=60.0)


class Watchers:
    """Clients that watch all pods and count."""

    def __init__(self, transport: LocalTransport, **query: str) -> None:
        self._transport = transport
        self._query = {"watch": "true", "resourceVersion": "0", **query}
        self.frames = 0
        self.bytes = 0

    @asynccontextmanager
    async def running(self, count: int) -> AsyncIterator[None]:
        """Run so many."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._watch()) for _ in range(count)]
            await asyncio.sleep(0)
            yield
            for task in tasks:
                task.cancel()

    async def _watch(self) -> None:
        async with self._transport.stream(asked("GET", "/api/v1/pods", **self._query)) as blocks:
            async for block in blocks:
                self.frames += block.count(b"\n")
                self.bytes += len(block)

    async def seen(self, frames: int) -> None:
        """Wait until all have seen what they must see."""
        while self.frames < frames:  # noqa: ASYNC110 - an event for each frame would be what is measured
            await asyncio.sleep(0)


async def write_all(transport: LocalTransport, requests: list[Request]) -> float:
    """Send requests one after the other; return how many a second."""
    began = time.perf_counter()
    for index, request in enumerate(requests):
        answer = await transport.send(request)
        succeeded(answer)
        if index % BATCH == 0:
            await asyncio.sleep(0)
    return len(requests) / (time.perf_counter() - began)


def succeeded(answer: Response) -> bytes:
    """Return the body of a success."""
    if answer.status >= 300:  # noqa: PLR2004 - 2xx
        raise SystemExit(answer.body.decode())
    return answer.body


def resident() -> int:
    """Return the bytes of memory in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def measure(pods: int, watchers: int) -> Figures:
    """Return all figures."""
    server = ApiServer()
    transport = LocalTransport(server)
    figures: Figures = {}
    before = resident()
    creates = [asked("POST", PODS, pod(index)) for index in range(pods)]
    figures["creates/s"] = await write_all(transport, creates)
    del creates
    stored = server.store.snapshot("pods")
    figures["bytes of JSON per pod"] = sum(len(obj.raw) for obj in stored) / pods
    figures["bytes of memory per pod"] = (resident() - before) / pods

    began = time.perf_counter()
    body = succeeded(await transport.send(asked("GET", PODS)))
    figures["list, ms"] = (time.perf_counter() - began) * 1000
    figures["list, MB"] = len(body) / 1e6
    began = time.perf_counter()
    succeeded(await transport.send(asked("GET", PODS, labelSelector="shard=7")))
    figures["list by label, ms"] = (time.perf_counter() - began) * 1000

    patches = [
        asked("PATCH", f"{PODS}/train-{index:05}/status", {"status": {"phase": "Running"}}, MERGE_PATCH)
        for index in range(pods)
    ]
    figures["updates/s"] = await write_all(transport, patches)

    for name, query in (("alike", {}), ("by label", {"labelSelector": "shard=7"})):
        crowd = Watchers(transport, **query)
        async with crowd.running(watchers):
            there = watchers * (pods if not query else pods // 100)
            await crowd.seen(there)
            crowd.frames = 0
            phase = "Pending" if query else "Succeeded"
            changes = [
                asked("PATCH", f"{PODS}/train-{index:05}/status", {"status": {"phase": phase}}, MERGE_PATCH)
                for index in range(pods)
            ]
            began = time.perf_counter()
            await write_all(transport, changes)
            await crowd.seen(there)
            spent = time.perf_counter() - began
            figures[f"updates/s, {watchers} watching {name}"] = pods / spent
            figures[f"frames/s to {watchers} watching {name}"] = there / spent
    figures["bytes of memory per pod, history full"] = (resident() - before) / pods
    return figures


async def lived(pods: int) -> Figures:
    """Return the figures of the whole plane."""
    gc.collect()
    return {f"one Job of {pods:,}: {name}": value for name, value in (await Life(pods).measure()).items()}


def median_of_lives(pods: list[int], runs: int) -> Figures:
    """Return the medians of the figures of Jobs of these sizes; the sizes take turns."""
    lives = [[asyncio.run(lived(size)) for size in pods] for _ in range(runs)]
    return {name: median(run[at][name] for run in lives) for at in range(len(pods)) for name in lives[0][at]}


def table(figures: Figures) -> str:
    """Return the figures as a table."""
    shown = {name: f"{value:,.{_decimals(name)}f}" for name, value in figures.items()}
    rows = "\n".join(f"| {name} | {value} |" for name, value in shown.items())
    return f"| | |\n|---|---:|\n{rows}"


def _decimals(name: str) -> int:
    return 2 if name.endswith("ms/pod") else 1 if name.endswith(", s") else 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--only", choices=("server", "life"))
    parser.add_argument("--lives", type=int, nargs="+", default=[1_000, 10_000], help="pods of each Job")
    parser.add_argument("--runs", type=int, default=3, help="lives of each Job, of which the medians are shown")
    parser.add_argument("--write", action="store_true", help=f"put the table into {readme.README.name}")
    parser.add_argument("--profile", action="store_true", help="with cProfile, on standard error")
    chosen = parser.parse_args()
    profile = cProfile.Profile()
    if chosen.profile:
        profile.enable()
    figures: Figures = {}
    if chosen.only != "life":
        figures |= asyncio.run(measure(chosen.pods, chosen.watchers))
    if chosen.only != "server":
        figures |= median_of_lives(chosen.lives, chosen.runs)
    if chosen.profile:
        profile.disable()
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(30)
    text = f"{chosen.pods:,} pods; Python {platform.python_version()}, {os.cpu_count()} cores.\n\n{table(figures)}"
    print(text)
    if chosen.write:
        readme.write(text, mark=MARK)


if __name__ == "__main__":
    main()
