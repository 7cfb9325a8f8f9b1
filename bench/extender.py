"""What the scheduler extender costs: pods a second through the real kube-scheduler on 500 nodes, without and with it.

All on one cluster, in turns, so that the machine's mood is the same within a round: what counts is the median of the
rounds' ratios. With it a hundred reservations are held, and none of the pods is an owner; it is asked over plain HTTP,
and over HTTPS with both sides' certificates, as in deploy/reservations. Without it, the scheduler's own limit (50
requests a second) sets the pace: it posts the bindings itself.

    python -m bench.extender [--quick] [--runs N] [--nodes N] [--pods N] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from bench import readme
from bench.binder import configure, extender, program
from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.options import Options
from tests.cluster.ports import free
from tests.scenarios import api as kubernetes
from tests.scenarios import installation
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import DEPLOY, certified, over_http, over_https, section
from tests.scenarios.reservations.test_manual import reservation, stranger
from tests.scenarios.resources import PODS, RESERVATIONS

if TYPE_CHECKING:
    from tests.scenarios.api import Api

HTTP: Final = "HTTP"
HTTPS: Final = "HTTPS"
ENOUGH: Final = 0.7
"""What the issue asks for."""

LEASE: Final = 400
HELD: Final = 100
UNBOUND: Final = "spec.nodeName="
LONGEST: Final = 120.0


async def rate(api: Api, pods: int) -> float:
    """Return how many pods a second are bound."""
    many = [stranger(f"pod-{number}", cpu="100m") for number in range(pods)]
    began = time.monotonic()
    creating = asyncio.create_task(api.create_all(many, namespace="default"))

    left = pods
    while left:  # those that wait are fewer and fewer: cheap to look at, on the cores that the scheduler needs
        await asyncio.sleep(0.25)
        left = pods if not creating.done() else len(await api.all(PODS, namespace="default", fieldSelector=UNBOUND))
        if time.monotonic() - began > LONGEST:
            raise TimeoutError(f"{left} of {pods} pods are not bound after {LONGEST:g} s")
    seconds = time.monotonic() - began
    await creating
    await api.delete_collection(PODS, namespace="default")

    async def none() -> bool:
        return not await api.all(PODS, namespace="default")

    await eventually(none, within=60, saying="all pods are gone")
    return pods / seconds


class Round(NamedTuple):
    """Pods a second, one after the other; and what a pod costs the extender, in ms of a processor."""

    without: float
    rates: dict[str, float]
    costs: dict[str, float]


async def measure(cluster: Cluster, port: int, *, pods: int, runs: int) -> list[Round]:
    """Return what was seen without the extender, and with it, asked in each way."""
    certificates = certified(cluster.folder.path)
    ways = {HTTP: (None, over_http(port)), HTTPS: (section(certificates), over_https(port, certificates))}
    extenders = {way: extender(cluster, port, name=f"extender-{way}", tls=tls) for way, (tls, _) in ways.items()}
    switched = {"mode": "alongside", "reservations": True}
    controller = program(cluster, "controller", "controller", "dra-reserve-controller", switched)
    stock = json.loads((cluster.folder.path / "scheduler.json").read_text())
    rounds: list[Round] = []
    async with kubernetes.connect(cluster.admin_kubeconfig) as api:
        for _ in range(runs):
            this_round = Round(await rate(api, pods), {}, {})
            for way, (_, asking) in ways.items():
                asked = extenders[way]
                await asyncio.to_thread(asked.start)
                await asyncio.to_thread(controller.start)
                await configure(cluster, stock | asking)
                await hold(api)
                before = asked.processor_seconds
                this_round.rates[way] = await rate(api, pods)
                this_round.costs[way] = (asked.processor_seconds - before) / pods * 1000
                await asyncio.to_thread(controller.stop)
                await asyncio.to_thread(asked.stop)
                await configure(cluster, stock)
            rounds.append(this_round)
            by_way = ", ".join(f"{pods_per_second:.1f} over {way}" for way, pods_per_second in this_round.rates.items())
            print(f"{this_round.without:.1f} pods/s without, {by_way}")
    return rounds


async def hold(api: Api) -> None:
    """Have reservations made, unless they are there already, and placed."""
    if not await api.all(RESERVATIONS):
        await api.create_all(reservation(f"held-{number}", cpu="4") for number in range(HELD))
    await eventually(
        lambda: api.all(RESERVATIONS),
        until=lambda stored: all(one.get("status", {}).get("phase") == "Available" for one in stored),
        within=60,
        saying="all reservations are available",
    )


def main() -> int:
    """Measure, print, and with --write put it into the README."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="300 pods, once")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    arguments = parser.parse_args()
    pods, runs = (300, 1) if arguments.quick else (arguments.pods, arguments.runs)
    (port,) = free(1)
    with Cluster(Options(nodes=arguments.nodes, node_lease_seconds=LEASE)) as cluster:
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=cluster.admin_kubeconfig)
        installation.install(cluster.admin_kubeconfig)
        installation.install(cluster.admin_kubeconfig, kustomization=DEPLOY)
        rounds = asyncio.run(measure(cluster, port, pods=pods, runs=runs))
        version = cluster.kubernetes.removeprefix("v")
    conditions = f"{arguments.nodes} nodes, {pods} pods at once, {HELD} reservations held, medians of {runs} rounds"
    text = "\n".join(
        (
            f"{conditions}; {os.cpu_count()} cores.",
            "",
            f"| kube-scheduler {version} | pods/s | of stock | in each round | extender, ms of a core per pod |",
            "|---|---:|---:|---|---:|",
            f"| without extender | {statistics.median(this_round.without for this_round in rounds):.1f} | 1.00 | | |",
            *(_row(way, rounds) for way in (HTTP, HTTPS)),
        )
    )
    print(text)
    if arguments.write:
        readme.write(text, mark="extender")
    return 0 if all(statistics.median(ratios(way, rounds)) >= ENOUGH for way in (HTTP, HTTPS)) else 1


def ratios(way: str, rounds: list[Round]) -> list[float]:
    """Return what is left of the rate, for each round."""
    return [this_round.rates[way] / this_round.without for this_round in rounds]


def _row(way: str, rounds: list[Round]) -> str:
    shares = ratios(way, rounds)
    rate = statistics.median(this_round.rates[way] for this_round in rounds)
    cost = statistics.median(this_round.costs[way] for this_round in rounds)
    cells = (
        f"{rate:.1f}",
        f"{statistics.median(shares):.2f}",
        ", ".join(f"{share:.2f}" for share in shares),
        f"{cost:.1f}",
    )
    return f"| every pod filtered, ranked and bound by it, {way} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
