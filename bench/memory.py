"""Memory and CPU of the controller beside kube-controller-manager, on the same 100,000 pods in one real cluster.

The processes run in turns and alone: kube-controller-manager with nothing but its claim controller, with its default
controllers, and this project's controller in its place (mode replace). Each is *synced* when it has read all lists and
decided on each claim. Nothing is to be done for any claim: a turn fails when a pod or a claim was written.

    python -m bench.memory [--runs N] [--pods N] [--nodes N] [--rest SECONDS] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
import yaml

from bench import memory_objects, readme
from bench.process_memory import memory
from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import kubectl
from tests.cluster.options import Component, Options
from tests.cluster.ports import LOOPBACK
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, metrics
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.target import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.processes import Process
    from tests.scenarios.metrics import Metrics

MARK: Final = "memory"

IDLE_LIMIT: Final = 64.0
"""MiB of the controller without pods."""
SYNCED_LIMIT: Final = 400.0
"""MiB of the controller with 100,000 pods."""

SYNCED_WITHIN: Final = 600.0
INTERVAL: Final = 0.5
"""Seconds between two looks at a process."""

CLAIM_CONTROLLER: Final = "resourceclaim-controller"
DEFAULTS: Final = "*,-node-lifecycle-controller"
"""No kubelet runs, so the left-out controller would taint all nodes, and end their pods."""

_WRITES: Final = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
_KEPT: Final = ("pods", "resourceclaims")


@dataclass(frozen=True, kw_only=True)
class Side:
    """A process that is measured."""

    name: str
    process: Process
    spawn: Callable[[], None]
    metrics: str
    """URL of its metrics."""
    is_synced: Callable[[Metrics, int], bool]
    """Whether it has decided on so many claims."""


class Turn(NamedTuple):
    """What one process took."""

    seconds: float
    """From the start until synced."""
    processor: float
    """Seconds of a processor until synced."""
    synced: float
    """Resident MiB."""
    rested: float
    """Resident MiB, some time later."""
    peak: float
    """The most MiB that were resident."""


class Row(NamedTuple):
    """The turns of a process."""

    side: Side
    idle: Turn
    turns: list[Turn]

    def median(self) -> Turn:
        """Return the medians of all turns with pods."""
        return Turn(*(statistics.median(column) for column in zip(*self.turns, strict=True)))


def manager_is_synced(seen: Metrics, claims: int) -> bool:
    """Tell whether kube-controller-manager has handled as many claims, and none waits."""
    waiting = seen.get('workqueue_depth{name="resource_claim"}')
    handled = seen.get('workqueue_work_duration_seconds_count{name="resource_claim"}', 0.0)
    return waiting == 0 and handled >= claims


def controller_is_synced(seen: Metrics, claims: int) -> bool:
    """Tell whether this project's controller leads, and has decided on as many claims."""
    return seen.get("dra_reserve_leading") == 1 and seen.get("dra_reserve_decision_seconds_count", 0.0) >= claims


def sides(cluster: Cluster) -> list[Side]:
    """Return the processes, none of which runs."""
    manager = cluster.controller_manager
    manager.stop()
    stock = {
        f"kube-controller-manager, `{CLAIM_CONTROLLER}` alone": CLAIM_CONTROLLER,
        "kube-controller-manager, default controllers": DEFAULTS,
    }
    admin = cluster.admin_kubeconfig
    installation.install(admin)
    account = kubeconfig.for_service_account(
        cluster.folder.path / "controller.kubeconfig",
        admin=admin,
        namespace=installation.NAMESPACE,
        name=installation.SERVICE_ACCOUNT,
    )
    deployed = yaml.safe_load((installation.KUSTOMIZATION / "base" / "config.yaml").read_text(encoding="utf-8"))
    controller = Controller(
        cluster.folder, Settings(kubeconfig=account, mode=Mode.REPLACE.value, configuration=deployed)
    )
    ours = Side(
        name="`dra-reserve controller`",
        process=controller.process,
        spawn=controller.spawn,
        metrics=f"http://{controller.metrics_address}/metrics",
        is_synced=controller_is_synced,
    )
    return [
        *(
            Side(
                name=name,
                process=manager,
                spawn=partial(spawn_manager, manager, controllers),
                metrics=f"https://{LOOPBACK}:{cluster.ports.controller_manager}/metrics",
                is_synced=manager_is_synced,
            )
            for name, controllers in stock.items()
        ),
        ours,
    ]


def spawn_manager(manager: Process, controllers: str) -> None:
    """Start kube-controller-manager with some controllers."""
    flag = "--controllers="
    manager.command = [
        f"{flag}{controllers}" if argument.startswith(flag) else argument for argument in manager.command
    ]
    manager.spawn()


async def take_turn(side: Side, *, claims: int, rest: float) -> Turn:
    """Run a process until it is synced and has rested."""
    began = time.monotonic()
    side.spawn()
    try:
        await until_synced(side, claims)
        seconds, processor = time.monotonic() - began, side.process.processor_seconds
        synced, _ = memory(side.process.pid)
        await asyncio.sleep(rest)
        rested, peak = memory(side.process.pid)
        return Turn(seconds, processor, synced, rested, peak)
    finally:
        await asyncio.to_thread(side.process.stop)


async def until_synced(side: Side, claims: int) -> None:
    """Return when a process has decided on all claims."""
    async with aiohttp.ClientSession(trust_env=False) as session, asyncio.timeout(SYNCED_WITHIN):
        while True:
            side.process.raise_if_dead()
            try:
                async with session.get(side.metrics, ssl=False) as answer:
                    if side.is_synced(metrics.parse(await answer.text()), claims):
                        return
            except aiohttp.ClientError:
                pass  # not listening yet
            await asyncio.sleep(INTERVAL)


def writes(cluster: Cluster) -> float:
    """Return how many writes of pods and claims the API server has answered."""
    seen = metrics.parse(kubectl("get", "--raw", "/metrics", kubeconfig=cluster.admin_kubeconfig))
    return sum(
        count
        for series, count in seen.items()
        if series.startswith("apiserver_request_total{")
        and any(f'verb="{verb}"' in series for verb in _WRITES)
        and any(f'resource="{resource}"' in series for resource in _KEPT)
    )


async def measure(cluster: Cluster, *, pods: int, nodes: int, runs: int, rest: float) -> list[Row]:
    """Measure all processes without pods, write the pods, and measure all processes in turns."""
    rows = [Row(side, await take_turn(side, claims=0, rest=rest), []) for side in sides(cluster)]
    began = time.monotonic()
    async with kubernetes.connect(cluster.admin_kubeconfig) as api:
        await memory_objects.write(api, pods=pods, nodes=nodes, etcd_port=cluster.ports.etcd)
    print(f"{pods:,} pods written in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    for _ in range(runs):
        for row in rows:
            before = writes(cluster)
            turn = await take_turn(row.side, claims=pods // memory_objects.CLAIM_PODS, rest=rest)
            if after := writes(cluster) - before:
                raise SystemExit(f"{row.side.name} wrote pods or claims {after:.0f} times")
            row.turns.append(turn)
            print(f"{row.side.name}: {turn}; load {os.getloadavg()[0]:.0f}", file=sys.stderr, flush=True)
    return rows


def table(rows: list[Row], *, rest: float) -> str:
    """Return the figures in Markdown, and the peers' figures as multiples of the controller's."""
    lines = [
        f"| | without pods, MiB | synced, MiB | {rest:.0f} s later | peak | s until synced | s of a core until then |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    medians = [(row.side.name, row.idle.rested, row.median()) for row in rows]
    for name, idle, turn in medians:
        cells = [idle, turn.synced, turn.rested, turn.peak]
        seconds = [turn.seconds, turn.processor]
        numbers = [*(f"{mebibytes:.0f}" for mebibytes in cells), *(f"{value:.1f}" for value in seconds)]
        lines.append(f"| {name} | {' | '.join(numbers)} |")
    *peers, (_, our_idle, ours) = medians
    for name, idle, turn in peers:
        ratios = [idle / our_idle, turn.synced / ours.synced, turn.rested / ours.rested, turn.peak / ours.peak]
        ratios += [turn.seconds / ours.seconds, turn.processor / ours.processor]
        lines.append(f"| **{name} : ours** | {' | '.join(f'{ratio:.1f}×' for ratio in ratios)} |")
    return "\n".join(lines)


def misses(ours: Row) -> list[str]:
    """Return the limits that the controller did not keep."""
    measured = {"idle": (ours.idle.rested, IDLE_LIMIT), "synced": (ours.median().synced, SYNCED_LIMIT)}
    return [f"{name}: {mib:.0f} MiB, more than {limit:.0f}" for name, (mib, limit) in measured.items() if mib > limit]


def main() -> None:
    """Measure, print, and fail when a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rest", type=float, default=30.0, help="seconds after which memory is read once more")
    parser.add_argument("--write", action="store_true", help=f"put the table into {readme.README.name}")
    chosen = parser.parse_args()
    with Cluster(Options(without=frozenset(Component))) as cluster:
        rows = asyncio.run(measure(cluster, pods=chosen.pods, nodes=chosen.nodes, runs=chosen.runs, rest=chosen.rest))
        version = cluster.kubernetes.removeprefix("v")
    conditions = (
        f"Kubernetes {version}, {chosen.pods:,} pods, {chosen.pods // memory_objects.CLAIM_PODS:,} claims, "
        f"{chosen.nodes:,} nodes, medians of {chosen.runs} runs; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[1]:.0f}."
    )
    text = f"{conditions}\n\n{table(rows, rest=chosen.rest)}"
    print(text)
    if chosen.write:
        readme.write(text, mark=MARK)
    if failed := misses(rows[-1]):
        raise SystemExit("limits not kept: " + "; ".join(failed))


if __name__ == "__main__":
    main()
