"""How fast pods join one shared claim, on a real Kubernetes with fake nodes: stock, ours, and the limit.

The limit is the same pods each with a private claim that lists it already: then the scheduler writes no claim at all,
and what is left is its own client limit (two requests a pod since it patches nominatedNodeName, specs/real-cluster.md).
All ways run one after the other on one cluster, so that the machine's mood is the same for all of them. `--binder`
compares the limit with what the scheduler extender makes of it: as the binder of all pods, it sends one of the two.

    python -m bench.join [--quick] [--binder] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bench import binder, readme
from bench.binder import Entry
from bench.component_requests import requests_sent
from tests.cluster.cluster import Cluster
from tests.cluster.options import ALL_CONTROLLERS, WITHOUT_CLAIM_CONTROLLER, ClientLimits, Options
from tests.scenarios import api as kubernetes
from tests.scenarios import gate_policy, installation, namespaces, objects
from tests.scenarios.api import Api
from tests.scenarios.claims import revision, started
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import eventually
from tests.scenarios.metrics import total
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, NAMESPACES, PODS
from tests.scenarios.target import Mode

Json = dict[str, Any]

NODES: Final = 50
UNGATING_AT_ONCE: Final = 32
RESULTS: Final = Path(__file__).with_name("join.json")

FAST_SCHEDULER: Final = ClientLimits(qps=500, burst=1000)


class Way(StrEnum):
    """How pods join."""

    STOCK = "stock"
    UNGATED = "ours, ungated"
    GATED = "ours, gated, replace"
    POLICY = "ours, gate by policy"
    ALONGSIDE = "ours, gated, alongside"
    BOUND = "ours, gated, replace, the extender binds"
    CALLED = "ours, gated, replace, the extender filters, ranks and binds"
    LIMIT = "limit: private, listed claims"


REPLACING: Final = (Way.UNGATED, Way.GATED, Way.POLICY, Way.BOUND, Way.CALLED)
MODES: Final = {**dict.fromkeys(REPLACING, Mode.REPLACE), Way.ALONGSIDE: Mode.ALONGSIDE}
ENTRIES: Final = {Way.BOUND: Entry.BIND_ONLY, Way.CALLED: Entry.RESERVATIONS}
"""What the scheduler's file says of the extender; nothing for other ways."""


@dataclass(frozen=True)
class Case:
    """One way with so many pods, several times."""

    way: Way
    pods: int
    times: int = 1
    within: float = 600.0


@dataclass(frozen=True)
class Outcome:
    """One run."""

    way: str
    pods: int
    seconds: float
    writes: float
    conflicts: float
    requests: float = 0.0
    """Requests of the scheduler for each pod, its Events included."""
    load: float = 0.0
    """The machine's load average at the end."""

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds


FULL: Final = (
    Case(Way.LIMIT, 200, times=3),
    Case(Way.GATED, 200, times=3),
    Case(Way.UNGATED, 200, times=3),
    Case(Way.POLICY, 200, times=3),
    Case(Way.ALONGSIDE, 200, times=3),
    Case(Way.GATED, 500),
    Case(Way.GATED, 5000),
    Case(Way.STOCK, 200),
)
FAST: Final = (Case(Way.LIMIT, 1000), Case(Way.GATED, 1000, times=3))
IN_TURNS: Final = (Way.LIMIT, Way.GATED, Way.BOUND, Way.CALLED)
BINDER: Final = 3 * tuple(Case(way, 1000) for way in IN_TURNS)
"""In rounds, so that neighbours are compared."""
FIFTH: Final = 3 * tuple(Case(way, 200) for way in IN_TURNS)
SLOW_SCHEDULER: Final = ClientLimits(qps=10, burst=20)
"""A fifth of the defaults, with a fifth of the pods: the same arithmetic, where the processors are busy with others."""

QUICK: Final = (Case(Way.GATED, 200), Case(Way.UNGATED, 200))


class Count:
    """Counts pods of a namespace that have come to a stage, by a watch: polling lists would be part of the load."""

    def __init__(self, api: Api, namespace: str, stage: Callable[[Json], bool] = started) -> None:
        self._api, self._namespace, self._stage = api, namespace, stage
        self._there: set[str] = set()
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Watch until cancelled. The server ends a watch that it finds slow, as happens on two cores: go on there."""
        since = "0"
        while True:
            async with aclosing(self._api.watch(PODS, namespace=self._namespace, resourceVersion=since)) as events:
                async for _, pod in events:
                    since = revision(pod)
                    if self._stage(pod):
                        self._there.add(pod["metadata"]["name"])
                        self._changed.set()

    async def reaches(self, number: int, *, within: float) -> float:
        """Return when so many are there."""
        async with asyncio.timeout(within):
            while len(self._there) < number:
                self._changed.clear()
                await self._changed.wait()
        return time.monotonic()


async def join(namespace: Namespace, case: Case) -> float:
    """Let the pods of a case join and return how many seconds that took, creation included."""
    devices = await namespace.offer_devices(1)
    gated = case.way not in {Way.STOCK, Way.UNGATED}
    async with counting(namespace) as count:
        if case.way is Way.LIMIT:
            return await join_private(namespace, count, case, devices)
        reserved_for = None
        if case.way is not Way.STOCK:
            workload = objects.job("train", PodShape())
            workload["spec"]["suspend"] = True
            await namespace.create(workload)
            reserved_for = "jobs.batch/train"
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for=reserved_for))
        if case.way is Way.POLICY:
            await gate_policy.opt_in(namespace)
        began = time.monotonic()
        await namespace.create_all(objects.pods("p", case.pods, PodShape(claim="shared", gated=gated)))
        return await count.reaches(case.pods, within=case.within) - began


async def join_private(namespace: Namespace, count: Count, case: Case, devices: str) -> float:
    """The limit: each pod is listed in a claim of its own before it is ungated; only the ungating is timed."""
    names = [f"p-{number}" for number in range(case.pods)]
    await namespace.create_all(objects.claim(name, device_class=devices) for name in names)
    pods = await namespace.create_all(objects.pod(name, PodShape(claim=name, gated=True)) for name in names)
    pool = f"{namespace.name}-shared"
    result = {"request": "device", "driver": devices, "pool": pool, "device": "device-0"}
    stamp = pods[0]["metadata"]["creationTimestamp"]
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": stamp}

    async def enlist(pod: Json) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        entry = {"resource": "pods", "name": name, "uid": uid}
        await namespace.patch_status(CLAIMS, name, {"allocation": allocation, "reservedFor": [entry]})

    async def ungate(pod: Json) -> None:
        await namespace.patch(PODS, pod["metadata"]["name"], {"spec": {"schedulingGates": None}})

    await for_all(pods, enlist)
    began = time.monotonic()
    await for_all(pods, ungate)
    return await count.reaches(case.pods, within=case.within) - began


async def for_all(pods: Iterable[Json], act: Callable[[Json], Any]) -> None:
    """Act on all, some at a time."""
    slots = asyncio.Semaphore(UNGATING_AT_ONCE)

    async def one(pod: Json) -> None:
        async with slots:
            await act(pod)

    await asyncio.gather(*map(one, pods))


@asynccontextmanager
async def counting(namespace: Namespace, stage: Callable[[Json], bool] = started) -> AsyncIterator[Count]:
    """Yield a count of the pods that come to a stage from now on: that have started, if no other is given."""
    count = Count(namespace.api, namespace.name, stage)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(count.follow())
        yield count
        following.cancel()


async def run(cluster: Cluster, case: Case, *, record: Callable[[Outcome], None]) -> None:
    """Run one case once, with its controllers, in a namespace of its own; record the outcome before cleaning up."""
    mode = MODES.get(case.way)
    stock = case.way in {Way.STOCK, Way.ALONGSIDE}
    cluster.run_controllers(ALL_CONTROLLERS if stock else WITHOUT_CLAIM_CONTROLLER)
    controller = None
    if mode is not None:
        account = installation.controller_kubeconfig(cluster.admin_kubeconfig, cluster.folder.path)
        settings = Settings(kubeconfig=account, mode=mode, configuration={"logging": {"level": "warning"}})
        controller = Controller(cluster.folder, settings, name="controller")
        await controller.start()
    metrics: dict[str, float] = {}
    entry = ENTRIES.get(case.way)
    extending = nullcontext() if entry is None else binder.binding(cluster, entry)
    async with kubernetes.connect(cluster.admin_kubeconfig) as client, extending:
        async with namespaces.temporary(client, purpose=case.way.name) as namespace:
            before = await requests_sent(cluster.ports.scheduler)
            seconds = await join(namespace, case)
            requests = await requests_sent(cluster.ports.scheduler) - before
            if controller is not None:
                metrics = await controller.metrics()
                await controller.stop()
            writes = total(metrics, "dra_reserve_claim_writes_total")
            conflicts = total(metrics, "dra_reserve_claim_conflicts_total")
            outcome = Outcome(
                case.way.value,
                case.pods,
                round(seconds, 2),
                writes,
                conflicts,
                requests=round(requests / case.pods, 2),
                load=round(os.getloadavg()[0], 1),
            )
            record(outcome)
        await gone(client, namespace.name)


async def gone(client: Api, namespace: str) -> None:
    """Wait until the namespace of the last case is deleted, however long that takes: it must not load the next one."""
    await eventually(
        lambda: client.find(NAMESPACES, namespace),
        until=lambda remaining: remaining is None,
        within=math.inf,
        saying=f"namespace {namespace} is gone",
    )


async def measure(
    cases: Iterable[Case], *, record: Callable[[Outcome], None], limits: ClientLimits | None = None
) -> None:
    """Run cases one after the other on one cluster; record each outcome as soon as it is known."""
    options = Options(nodes=NODES) if limits is None else Options(nodes=NODES, scheduler_limits=limits)
    with Cluster(options) as cluster:
        installation.install(cluster.admin_kubeconfig)
        gate_policy.install(cluster.admin_kubeconfig)  # for all ways; it applies to the namespaces that ask for it
        for case in cases:
            for _ in range(case.times):
                await run(cluster, case, record=record)


@dataclass
class Record:
    """The outcomes of one cluster, printed one by one, and as a table at the end, also at an early one."""

    title: str = ""
    outcomes: list[Outcome] = field(default_factory=list)

    def __call__(self, outcome: Outcome) -> None:
        """Record one outcome."""
        print(f"{outcome.rate:8.2f} pods/s  {outcome}", flush=True)
        self.outcomes.append(outcome)

    def measure(self, cases: Iterable[Case], limits: ClientLimits | None = None) -> None:
        """Run cases; print the table of those that have ended even when one fails."""
        try:
            asyncio.run(measure(cases, record=self, limits=limits))
        finally:
            print(self.title + table(self.outcomes))


def medians(outcomes: Iterable[Outcome]) -> dict[tuple[str, int], float]:
    """Return the median rate of each way and number of pods."""
    rates: dict[tuple[str, int], list[float]] = {}
    for outcome in outcomes:
        rates.setdefault((outcome.way, outcome.pods), []).append(outcome.rate)
    return {key: statistics.median(values) for key, values in rates.items()}


def table(outcomes: list[Outcome]) -> str:
    """Return a table with ratios to the limit and to stock at the same number of pods, if they were measured."""
    rates = medians(outcomes)
    header = (
        *("way", "pods", "runs", "pods/s (median)", "of the limit", "times stock"),
        *("claim writes/pod", "scheduler requests/pod", "load average"),
    )
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for (way, pods), rate in rates.items():
        limit = rates.get((Way.LIMIT.value, pods))
        stock = rates.get((Way.STOCK.value, pods))
        runs = [o for o in outcomes if (o.way, o.pods) == (way, pods)]
        writes = statistics.median(o.writes / o.pods for o in runs)
        cells = [
            way,
            f"{pods:,}",
            str(len(runs)),
            f"{rate:.2f}",
            f"{rate / limit:.2f}" if limit else "",
            f"{rate / stock:.1f}" if stock else "",
            f"{writes:.3f}" if writes else "",
            f"{statistics.median(o.requests for o in runs):.1f}",
            f"{min(o.load for o in runs):g} to {max(o.load for o in runs):g}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the tables, and keep the outcomes if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 pods, once each, without stock")
    parser.add_argument("--binder", action="store_true", help="1,000 pods: the limit, ours, and the extender as binder")
    parser.add_argument("--fifth", action="store_true", help="with --binder: 200 pods, a fifth of the limits")
    parser.add_argument("--write", action="store_true", help=f"keep the outcomes in {RESULTS.name}")
    arguments = parser.parse_args()
    quick, fifth = arguments.quick, arguments.fifth
    default, fast = Record(), Record(f"\nscheduler at {FAST_SCHEDULER.qps} QPS\n")
    if arguments.binder:
        records = {"fifth" if fifth else "binder": default}
        default.measure(FIFTH if fifth else BINDER, SLOW_SCHEDULER if fifth else None)
    else:
        records = {"default": default, "fast": fast}
        default.measure(QUICK if quick else FULL)
        if not quick:
            fast.measure(FAST, FAST_SCHEDULER)
    if arguments.write:
        kept = json.loads(RESULTS.read_text(encoding="utf-8"))
        kept |= {name: [vars(o) for o in record.outcomes] for name, record in records.items()}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        if arguments.binder:
            (mark,) = records
            readme.write(table(default.outcomes), mark=mark)


if __name__ == "__main__":
    main()
