"""The processes that `bench.beside` runs beside each other: the controller, the extender, the descheduler.

Each is the whole process of a Deployment with an API server inside (`bench.beside_cluster`). A line of JSON on standard
input begins a phase; a line on standard output ends it.

    python -m bench.beside_processes controller|extender|descheduler WORLD [--colocation]
"""

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from bench.beside_cluster import METRICS, PODS, SyntheticCluster, claim_pod, number_name, paced
from bench.descheduling import process_configuration
from controller.application import Application
from controller.extender.application import Extender
from controller.migration.application import Descheduler
from dra.api.configuration import ControllerConfiguration
from dra.api.extender_configuration import ExtenderConfiguration
from dra.cli.server_process import freeze_after
from dra.kube.tasks import background_task

Phase: TypeAlias = dict[str, Any]

CLAIM_CHANGES: Final = 20.0
POD_CHANGES: Final = 50.0
"""Pods in a second: new pods that use claims, and pods of other workloads, each in place of an older one."""

REPORT_INTERVAL: Final = 60.0
SCRAPE_INTERVAL: Final = 15.0
STARTED_AFTER: Final = 1.0
DELETED_AFTER: Final = 15.0
"""Seconds after which a listed pod runs, and is gone: a kubelet starts no pod that its claim does not list."""

ANSWERED_WITHIN: Final = 60.0
"""Seconds after the last new pod within which each is listed, or never."""

ALONE: Final = {"leaderElection": {"enabled": False}, "probes": None, "metrics": None}
STRETCH: Final = 0.001
"""Seconds of a callback from which on it is remembered."""

QUIET: Final = 3.0
"""Seconds without a write after which a process has done what its start demands."""

_NEW_POD: Final = re.compile(rb'"uid-(train-[0-9]+-new-[0-9]+)"')


class ClaimDelays:
    """The seconds from when a pod appears until the write that lists it is sent."""

    def __init__(self) -> None:
        self.due: dict[str, float] = {}
        """When a pod was due."""
        self.seconds: list[float] = []
        self._lives: dict[str, Callable[[], None]] = {}
        """What happens to a pod once it is listed."""
        self._number = 0

    def begin(self) -> None:
        """Begin a phase."""
        self.seconds = []
        self.due.clear()
        self._lives.clear()

    def written(self, body: bytes) -> None:
        """Note the write of a claim."""
        now = time.perf_counter()
        for name in _NEW_POD.findall(body):
            if (due := self.due.pop(name.decode(), None)) is not None:
                self.seconds.append(now - due)
                self._lives.pop(name.decode())()

    async def change(self, cluster: SyntheticCluster, *, seconds: float) -> None:
        """Show a pod after the other, each of another claim's Job."""
        async for due in paced(CLAIM_CHANGES, seconds=seconds):
            self._number += 1
            claim = number_name(self._number % len(cluster.claims))
            name, node = f"{claim}-new-{self._number}", f"node-{self._number % len(cluster.claims):05}"
            self.due[name] = due

            show = partial(self._show, cluster, name, claim)
            self._lives[name] = partial(self._live, show, node)
            show("ADDED")

    async def answered(self) -> None:
        """Wait until each pod is listed, at most `ANSWERED_WITHIN`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWERED_WITHIN):
                await until(lambda: not self.due)

    @staticmethod
    def _live(show: Callable[..., None], node: str) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(STARTED_AFTER, partial(show, "MODIFIED", node=node, phase="Running"))
        loop.call_later(DELETED_AFTER, partial(show, "DELETED", node=node, phase="Succeeded"))

    def _show(
        self, cluster: SyntheticCluster, name: str, claim: str, kind: str, *, node: str = "", phase: str = "Pending"
    ) -> None:
        pod = claim_pod(name, claim, version=cluster.next_version(), node=node, phase=phase)
        cluster.show(PODS, msgspec.json.encode(pod), kind=kind)


class Stretches:
    """The seconds of the processor that callbacks of the event loop take; what other programs do is not in them."""

    def __init__(self) -> None:
        self.longest: list[tuple[float, str]] = []
        self.collections: list[float] = []
        self._began = 0.0
        gc.callbacks.append(self._collection)
        self._original = asyncio.Handle._run  # noqa: SLF001 - the one place through which each callback goes
        asyncio.Handle._run = self._measured()  # type: ignore[assignment,method-assign] # noqa: SLF001 - as above

    def end(self) -> None:
        """Measure no longer."""
        asyncio.Handle._run = self._original  # type: ignore[method-assign] # noqa: SLF001 - as above
        gc.callbacks.remove(self._collection)

    def _measured(self) -> Callable[[asyncio.Handle], None]:
        run, longest = self._original, self.longest

        def measured(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            seconds = time.thread_time() - began
            if seconds > STRETCH:
                task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined] # noqa: SLF001 - as above
                longest.append((seconds, repr(task.get_coro()) if isinstance(task, asyncio.Task) else str(handle)))

        return measured

    def _collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.collections.append(time.thread_time() - self._began)


def waited_seconds() -> float:
    """Return how long this thread has waited for a processor."""
    return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


async def scrapes(application: Application, *, seconds: float) -> None:
    """Render the metrics as often as a Prometheus asks for them."""
    async for _ in paced(1 / SCRAPE_INTERVAL, seconds=seconds):
        await application.before_scrape()
        application.metrics.render()


async def reports(cluster: SyntheticCluster, *, seconds: float) -> None:
    """Show a new NodeMetric of each node in each minute."""
    nodes, number = len(cluster.metrics), 0
    async for _ in paced(nodes / REPORT_INTERVAL, seconds=seconds):
        number += 1
        cluster.show(METRICS, cluster.report(number % nodes))


class OtherPods:
    """Pods of workloads without claims, each in place of an older one."""

    def __init__(self, cluster: SyntheticCluster) -> None:
        self._cluster = cluster
        self._number = 0

    def next(self) -> tuple[dict[str, Any], str]:
        """Return a new pod that waits, and the node on which its predecessor ran, which is gone."""
        line = self._cluster.pods[self._number % len(self._cluster.pods)]
        self._number += 1
        self._cluster.show(PODS, line, kind="DELETED")
        pod = json.loads(line.replace(b"-7d9f8b6c5d-", b"-g%d-" % self._number))
        node = pod["spec"].pop("nodeName")
        self._show(pod | {"status": {"phase": "Pending"}}, kind="ADDED")
        return pod, node

    def bind(self, pod: dict[str, Any], node: str) -> None:
        """Show the pod on its node, and then running."""
        bound = pod | {"spec": pod["spec"] | {"nodeName": node}}
        self._show(bound | {"status": {"phase": "Pending"}})
        self._show(bound)

    def _show(self, pod: dict[str, Any], *, kind: str = "MODIFIED") -> None:
        metadata = pod["metadata"] | {"resourceVersion": self._cluster.next_version()}
        self._cluster.show(PODS, msgspec.json.encode(pod | {"metadata": metadata}), kind=kind)

    async def change(self, *, seconds: float) -> None:
        """Have pods appear and go."""
        async for _ in paced(POD_CHANGES, seconds=seconds):
            self.bind(*self.next())


async def phases() -> AsyncIterator[Phase]:
    """Yield what standard input asks for; say that this process is ready."""
    print(json.dumps({"ready": True}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield json.loads(line)


async def until(reached: Callable[[], bool]) -> None:
    """Wait."""
    while not reached():  # noqa: ASYNC110 - the subject must not know that it is measured
        await asyncio.sleep(0.1)


async def is_quiet(cluster: SyntheticCluster) -> None:
    """Wait until nothing has been written for some seconds."""
    version = -1
    while version != cluster.version:
        version = cluster.version
        await asyncio.sleep(QUIET)


async def controller(world: Path, *, colocation: bool) -> None:
    """Measure the decisions on claims."""
    delays = ClaimDelays()
    cluster = SyntheticCluster(world, on_claim_written=delays.written)
    given = {"colocation": colocation, "reservations": colocation, "koordinator": colocation}
    application = Application(ControllerConfiguration.model_validate(ALONE | given), cluster)
    sample = application.metrics.registry.get_sample_value
    others = OtherPods(cluster)
    async with background_task(application.run(), name="controller"):
        await until(lambda: sample("dra_reserve_leading") == 1.0)
        await freeze_after(application.wait_for_sync())
        await is_quiet(cluster)
        async for phase in phases():
            stretches = Stretches()
            delays.begin()
            waited, spent = waited_seconds(), time.process_time()
            version = cluster.version
            load = [scrapes(application, seconds=phase["seconds"])]
            if phase["load"]:
                load += [reports(cluster, seconds=phase["seconds"]), others.change(seconds=phase["seconds"])]
            await asyncio.gather(delays.change(cluster, seconds=phase["seconds"]), *load)
            await delays.answered()
            stretches.end()
            longest = sorted(stretches.longest, reverse=True)
            result = {
                "delays": delays.seconds,
                "unanswered": len(delays.due),
                "stretch_ms": round(1000 * longest[0][0], 1) if longest else 0.0,
                "stretches": [f"{1000 * seconds:.1f} {name}" for seconds, name in longest[:8]],
                "gc_ms": round(1000 * max(stretches.collections, default=0.0), 1),
                "waited_s": round(waited_seconds() - waited, 2),
                "cpu_s": round(time.process_time() - spent, 2),
                "versions": cluster.version - version,
            }
            print(json.dumps(result), flush=True)


async def extender(world: Path) -> None:
    """Schedule pods by the load of nodes."""
    cluster = SyntheticCluster(world, on_claim_written=lambda _: None)
    given = ALONE | {"loadAware": {}, "serve": {"port": 0}}
    application = Extender(ExtenderConfiguration.model_validate(given), cluster, previous_writes_seconds=0.0)
    others = OtherPods(cluster)
    names = [node["metadata"]["name"] for node in cluster.nodes]
    bound = 0

    async def schedule(*, seconds: float) -> None:
        nonlocal bound
        waiting, _ = others.next()
        async for _ in paced(POD_CHANGES, seconds=seconds):  # a pod is known before it is scheduled
            pod, (waiting, _), left = waiting, others.next(), names
            await asyncio.sleep(0.001)
            for verb in ("filter", "load/filter"):
                left = (await _called(application, verb, pod, left))["NodeNames"]
            scores = dict.fromkeys(left, 0)
            for verb in ("prioritize", "load/prioritize"):
                for host in await _called(application, verb, pod, left):
                    scores[host["Host"]] += host["Score"]
            node = max(scores, key=scores.__getitem__)
            metadata = pod["metadata"]
            binding = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
            _, answer = await application.handler.handle("bind", msgspec.json.encode(binding | {"Node": node}))
            bound += not json.loads(answer)["Error"]
            others.bind(pod, node)

    async with background_task(application.work(), name="extender"):
        await until(lambda: application.is_binding)
        await freeze_after(application.wait_for_sync())
        async for phase in phases():
            bound, spent = 0, time.process_time()
            await asyncio.gather(schedule(seconds=phase["seconds"]), reports(cluster, seconds=phase["seconds"]))
            print(json.dumps({"bound": bound, "cpu_s": round(time.process_time() - spent, 2)}), flush=True)


async def _called(application: Extender, verb: str, pod: dict[str, Any], names: list[str]) -> Any:  # noqa: ANN401 - JSON
    status, answer = await application.handler.handle(verb, msgspec.json.encode({"Pod": pod, "NodeNames": names}))
    if status != 200:  # noqa: PLR2004 - OK
        raise SystemExit(f"{verb}: {status} {answer.decode()}")
    return json.loads(answer)


async def descheduler(world: Path) -> None:
    """Run rounds, one after the other."""
    cluster = SyntheticCluster(world, on_claim_written=lambda _: None)
    configuration = process_configuration(ALONE | {"dryRun": True, "deschedulingInterval": "1s"})
    application = Descheduler(configuration, cluster, previous_writes_seconds=0.0)
    sample = application.metrics.registry.get_sample_value
    others = OtherPods(cluster)

    def rounds() -> float:
        return sample("dra_reserve_descheduler_rounds_total", {"outcome": "completed"}) or 0.0

    async with background_task(application.run(), name="descheduler"):
        await until(lambda: sample("dra_reserve_descheduler_leading") == 1.0)
        await freeze_after(application.wait_for_sync())
        async for phase in phases():
            before, spent = rounds(), time.process_time()
            await asyncio.gather(reports(cluster, seconds=phase["seconds"]), others.change(seconds=phase["seconds"]))
            result = {"rounds": rounds() - before, "cpu_s": round(time.process_time() - spent, 2)}
            print(json.dumps(result), flush=True)


def main() -> None:
    """Run one process until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("process", choices=["controller", "extender", "descheduler"])
    parser.add_argument("world", type=Path)
    parser.add_argument("--colocation", action="store_true")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    match chosen.process:
        case "controller":
            running = controller(chosen.world, colocation=chosen.colocation)
        case "extender":
            running = extender(chosen.world)
        case _:
            running = descheduler(chosen.world)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(running)
    os._exit(0)  # the round that runs in a thread must not keep the bench waiting


if __name__ == "__main__":
    main()
