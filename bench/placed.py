"""Reservations placed a second, and what each costs: koord-scheduler beside kube-scheduler with the extender, in turns.

All on one cluster, so that both sides of a round see the machine in the same mood: what counts is the median of the
rounds' ratios. A turn lasts from the first creation until each Reservation is Available; the processors' time and the
requests are those until `SETTLING` later, since Events and the deletion of placeholders follow. Either scheduler has
the stated limit of requests a second, and twice that at once. DRA_KOORDINATOR names the folder with koord-scheduler;
without it, only this project is measured.

    python -m bench.placed [--runs N] [--nodes N] [--reservations N] [--limits N...] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench import readme
from bench.binder import program
from bench.extender import LEASE
from bench.placed_rows import SHARED, Turn, requests, table
from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.options import Options
from tests.cluster.ports import LOOPBACK, free
from tests.scenarios import api as kubernetes
from tests.scenarios import installation
from tests.scenarios.eventually import eventually
from tests.scenarios.migrations.koordinator import peer
from tests.scenarios.reservations.conftest import DEPLOY, over_http
from tests.scenarios.resources import PODS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.processes import Process
    from tests.scenarios.api import Api, Json
    from tests.scenarios.resources import Resource

SETTLING: Final = 4.0
"""Seconds after the last placement in which requests and processors' time still count."""

LONGEST: Final = 180.0

AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
        {"level": "None", "verbs": ["watch"]},
        {"level": "Metadata"},
    ],
}
"""Every request but watches and Leases."""


class Side(NamedTuple):
    """A way to place Reservations: its processes, in the order in which they start."""

    name: str
    processes: Sequence[Process]


class Bench:
    """A cluster with both installations, of which one side runs at a time."""

    def __init__(self, cluster: Cluster, audit: Path, *, programs: Path | None) -> None:
        self._cluster: Final = cluster
        self._audit: Final = audit
        self._programs: Final = programs
        self._stock: Final = json.loads((cluster.folder.path / "scheduler.json").read_text())
        (self._port,) = free(1)
        self._installation: list[Json] = []

    def install(self) -> None:
        """Install both, and leave no scheduler running."""
        cluster = self._cluster
        admin = cluster.admin_kubeconfig
        cluster.scheduler.stop()
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=admin)
        if self._programs is not None:
            self._installation = peer.manifests()
            peer.install(admin, self._installation)
        installation.install(admin)
        installation.install(admin, kustomization=DEPLOY)

    def sides(self, limit: int) -> list[Side]:
        """Return the sides, whose schedulers may send so many requests a second."""
        ours = self._ours(limit)
        return [ours] if self._programs is None else [self._theirs(limit, self._programs), ours]

    def _ours(self, limit: int) -> Side:
        cluster, limits = self._cluster, {"qps": limit, "burst": 2 * limit}
        serve = {"serve": {"address": LOOPBACK, "port": self._port}}
        switched: dict[str, Any] = {"mode": "alongside", "reservations": True}
        raised = limits if limit > self._stock["clientConnection"]["qps"] else {}
        extender = program(cluster, "extender", "scheduler-extender", "dra-reserve-extender", serve)
        controller = program(cluster, "controller", "controller", "dra-reserve-controller", switched | raised)
        client = {"clientConnection": self._stock["clientConnection"] | limits}
        configuration = self._stock | over_http(self._port) | client
        (cluster.folder.path / "scheduler.json").write_text(json.dumps(configuration), encoding="utf-8")
        return Side("dra-reserve", (extender, controller, cluster.scheduler))

    def _theirs(self, limit: int, programs: Path) -> Side:
        folder, (port,) = self._cluster.folder, free(1)
        own = kubeconfig.for_service_account(
            folder.path / "koord-scheduler.kubeconfig",
            admin=self._cluster.admin_kubeconfig,
            namespace=peer.NAMESPACE,
            name="koord-scheduler",
        )
        configuration = peer.scheduler_configuration(self._installation, own)
        configuration["clientConnection"] |= {"qps": limit, "burst": 2 * limit}
        return Side("koord-scheduler", (peer.scheduler(folder, programs, configuration, port=port),))

    async def turn(self, api: Api, side: Side, many: Sequence[Json]) -> Turn:
        """Place Reservations with one side, and remove them."""
        for process in side.processes:
            await asyncio.to_thread(process.start)
        try:
            await asyncio.sleep(1)  # informers have listed, yet their first seconds cost more than later ones
            measured = {process.name: process for process in side.processes}
            measured |= {name: getattr(self._cluster, name) for name in SHARED}
            before = {name: process.processor_seconds for name, process in measured.items()}

            def costs() -> dict[str, float]:
                spent = {name: process.processor_seconds - before[name] for name, process in measured.items()}
                return {name: seconds / len(many) * 1000 for name, seconds in spent.items()}

            logged = self._audit.stat().st_size
            seconds = await placed(api, many)
            until_placed = costs()
            await eventually(partial(none, api, PODS), within=LONGEST, saying="all placeholders are gone")
            await asyncio.sleep(SETTLING)
            counts = requests(self._audit, logged)
            per_reservation = {name: count / len(many) for name, count in counts.most_common()}
            return Turn(len(many) / seconds, costs(), until_placed, per_reservation)
        finally:
            for process in reversed(side.processes):
                await asyncio.to_thread(process.stop)
            await api.request("DELETE", RESERVATIONS.path())
            await eventually(partial(none, api, RESERVATIONS), within=LONGEST, saying="all Reservations are gone")


def reservation(name: str) -> Json:
    """Return a Reservation that both sides place."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "4", "memory": "4Gi"}}}
    template = {
        "metadata": {"namespace": "default"},
        "spec": {"schedulerName": "koord-scheduler", "containers": [container]},
    }
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name},
        "spec": {
            "allocateOnce": False,
            "ttl": "1h",
            "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
            "template": template,
        },
    }


async def none(api: Api, resource: Resource) -> bool:
    """Return whether there is no object of a resource."""
    return not (await api.request("GET", resource.path(), query={"limit": "1"}))["items"]


async def placed(api: Api, many: Sequence[Json]) -> float:
    """Create Reservations, and return the seconds until each is Available."""
    left = {made["metadata"]["name"] for made in many}
    listed = await api.request("GET", RESERVATIONS.path(), query={"limit": "1"})
    began = time.monotonic()
    creating = asyncio.create_task(api.create_all(many))
    async with asyncio.timeout(LONGEST):
        async for _, seen in api.watch(RESERVATIONS, resourceVersion=listed["metadata"]["resourceVersion"]):
            if seen.get("status", {}).get("phase") == "Available":
                left.discard(seen["metadata"]["name"])
            if not left:
                break
    seconds = time.monotonic() - began
    await creating
    return seconds


async def measure(
    bench: Bench, *, admin: Path, reservations: int, limits: Sequence[int], runs: int
) -> dict[tuple[int, str], list[Turn]]:
    """Return the turns of each side by limit, one of each side after the other."""
    many = [reservation(f"r-{number}") for number in range(reservations)]
    turns: dict[tuple[int, str], list[Turn]] = {}
    async with kubernetes.connect(admin) as api:
        for number in range(runs):
            for limit in limits:
                sides = bench.sides(limit)
                for side in sides if number % 2 == 0 else reversed(sides):
                    turn = await bench.turn(api, side, many)
                    turns.setdefault((limit, side.name), []).append(turn)
                    costs = ", ".join(
                        f"{name} {cost:.1f} ({turn.costs_until_placed[name]:.1f})" for name, cost in turn.costs.items()
                    )
                    print(
                        f"{limit}/s {side.name}: {turn.rate:.1f} a second; ms of a core (until placed): {costs}; "
                        f"load {os.getloadavg()[0]:.0f}"
                    )
                    sys.stdout.flush()
    return turns


def main() -> int:
    """Measure, print, and with --write put it into the README."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--reservations", type=int, default=300)
    parser.add_argument("--limits", type=int, nargs="+", default=[50, 500])
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    asked = parser.parse_args()
    programs = peer.binaries("koord-scheduler")
    with tempfile.TemporaryDirectory() as folder:
        policy, audit = Path(folder, "policy.json"), Path(folder, "audit.log")
        policy.write_text(json.dumps(AUDIT_POLICY), encoding="utf-8")
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--audit-log-mode=batch")
        options = Options(nodes=asked.nodes, node_lease_seconds=LEASE, apiserver_flags=flags)
        with Cluster(options) as cluster:
            bench = Bench(cluster, audit, programs=programs)
            bench.install()
            turns = asyncio.run(
                measure(
                    bench,
                    admin=cluster.admin_kubeconfig,
                    reservations=asked.reservations,
                    limits=asked.limits,
                    runs=asked.runs,
                )
            )
            version = cluster.kubernetes.removeprefix("v")
    conditions = (
        f"Kubernetes {version}, {asked.nodes} nodes, {asked.reservations} Reservations, medians of {asked.runs} "
        f"rounds; {os.cpu_count()} cores, load average {os.getloadavg()[1]:.0f}."
    )
    text = "\n".join((conditions, "", *table(turns)))
    print(text)
    if asked.write:
        readme.write(text, mark="placed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
