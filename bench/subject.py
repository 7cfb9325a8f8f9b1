"""What is measured, in a process of its own: the controller, or a kopf handler, on the cluster of `bench.cluster`.

Started by `bench.world`; prints one line of JSON.
"""

import argparse
import asyncio
import contextlib
import cProfile
import json
import logging
import os
import pstats
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench import stream
from bench.cluster import GO, Cluster
from dra.kube.tasks import background_task
from dra.model.meta import Uid

POLL: Final = 0.002
"""Seconds between looks at how far the subject has come."""

LIMIT: Final = 300.0
"""Seconds after which a phase has failed."""

MIB: Final = 1 << 20


def resident() -> float:
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / MIB


def peak() -> float:
    """Return the most that was ever resident in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def until(reached: Callable[[], bool]) -> None:
    """Wait for the subject."""
    async with asyncio.timeout(LIMIT):
        while not reached():  # noqa: ASYNC110 - the subject must not know that it is measured
            await asyncio.sleep(POLL)


class Stopwatch:
    """Wall and CPU time of this process since the last lap."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def lap(self, name: str) -> dict[str, float]:
        """Return the seconds since the last lap, and begin the next one."""
        wall, cpu = time.perf_counter(), time.process_time()
        seconds = {f"{name}_s": wall - self._wall, f"{name}_cpu_s": cpu - self._cpu}
        self._wall, self._cpu = wall, cpu
        return seconds


async def ours(url: str, pods: int, events: int) -> dict[str, Any]:
    """Run the whole controller, as ``dra-reserve controller`` does."""
    from controller.application import Application  # noqa: PLC0415 - the other subject must not pay for it
    from dra.api.configuration import ControllerConfiguration  # noqa: PLC0415
    from dra.kube.credentials import RestConfig, StaticCredentials  # noqa: PLC0415
    from dra.kube.http import HttpTransport  # noqa: PLC0415

    configuration = ControllerConfiguration.model_validate(
        {"leaderElection": {"enabled": False}, "probes": {"port": 0}, "metrics": {"port": 0}}
    )
    inside = None if url else Cluster(pods=pods, events=events)
    before = resident()
    application = Application(configuration, inside or HttpTransport(StaticCredentials(RestConfig(url))))
    sample = application.metrics.registry.get_sample_value

    def decisions() -> float:
        return sample("dra_reserve_decision_seconds_count") or 0.0

    def writes() -> float:
        return sample("dra_reserve_claim_writes_total", {"write": "SetReservedFor"}) or 0.0

    watch = Stopwatch()
    async with background_task(application.run(), name="controller"):
        await until(lambda: sample("dra_reserve_leading") == 1.0)
        figures = {"rss_before_mib": before, **watch.lap("list")}
        await until(lambda: decisions() > 0)
        figures |= {**watch.lap("decision"), "rss_mib": resident()}
        await asyncio.sleep(1.0)
        decided, written = decisions(), writes()
        last = Uid(stream.uid((events - 1) % pods))

        def arrived() -> bool:
            pod = application.cache.consumer(last)
            return pod is not None and pod.resource_version == str(stream.BASE + events)

        watch.lap("pause")
        if inside is not None:
            inside.go.set()
        else:
            await post(url + GO)
        await until(arrived)
        figures |= watch.lap("events")
        await asyncio.sleep(1.0)
        figures |= {"decisions": decisions() - decided, "writes": writes() - written, "rss_after_mib": resident()}
    return figures


async def kopfs(url: str, pods: int, events: int) -> dict[str, Any]:
    """Run a kopf operator whose handler notes what it sees, and decides nothing."""
    import kopf  # noqa: PLC0415 - an extra

    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    seen: dict[str, tuple[str, str]] = {}
    finals, calls = 0, 0
    from_final = stream.BASE + events - pods

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:  # noqa: ANN401 - kopf passes everything
        return kopf.ConnectionInfo(server=url)

    @kopf.on.event("", "v1", "pods", registry=registry)
    async def pod(meta: kopf.Meta, status: kopf.Status, **_: Any) -> None:  # noqa: ANN401 - likewise
        nonlocal finals, calls
        calls += 1
        seen[meta["uid"]] = (status["phase"], meta["resourceVersion"])
        finals += int(meta["resourceVersion"]) > from_final

    before = resident()
    watch = Stopwatch()
    working = kopf.operator(registry=registry, settings=settings, standalone=True, clusterwide=True)
    async with background_task(working, name="operator") as running:
        await until(lambda: len(seen) == pods or running.done())
        figures = {"rss_before_mib": before, **watch.lap("list"), "rss_mib": resident()}
        await asyncio.sleep(1.0)
        watch.lap("pause")
        finals, called = 0, calls
        await post(url + GO)
        await until(lambda: finals >= pods or running.done())
        figures |= {**watch.lap("events"), "calls": calls - called, "rss_after_mib": resident()}
    return figures


async def post(url: str) -> None:
    """Send a request that says nothing."""
    async with aiohttp.ClientSession() as session, session.post(url) as answer:
        answer.raise_for_status()


def main() -> None:
    """Measure one subject."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=["ours", "kopf"])
    parser.add_argument("--url", default="", help="of the server; without it everything is in this process")
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    subject = ours if chosen.subject == "ours" else kopfs
    profile = cProfile.Profile() if chosen.profile else None
    with profile or contextlib.nullcontext():
        figures = asyncio.run(subject(chosen.url, chosen.pods, chosen.events))
    if profile:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(35)
    print(json.dumps({**figures, "peak_mib": peak()}), flush=True)
    os._exit(0)  # threads of a half-stopped framework must not keep the bench waiting


if __name__ == "__main__":
    main()
