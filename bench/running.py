"""110 pods, each with a claim for a CPU of its own, on a real kubelet: how long until all run, with each driver.

The kubelet plugin and a driver in Go on the official helper (tests/cluster/plugin_peer) take turns on one node; each
publishes 128 CPUs. The plugin reads them from the sysfs of a machine that has them; as this machine has not, neither
driver writes cpusets. All claims and then all pods are created at once; kube-scheduler allocates the claims. Needs
root, runc and busybox, as the scenarios on a real kubelet do.

    python -m bench.running [--pods N] [--runs N] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import shutil
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench import readme
from bench.kubelet import processor_seconds
from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.cluster.node import RealNode
from tests.cluster.options import Options
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.kubeletplugin.inventory import machines
from tests.scenarios import api as kubernetes
from tests.scenarios import objects
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node.plugin import COMMAND
from tests.scenarios.resources import CLAIMS, EVENTS, PODS, RESOURCE_SLICES

if TYPE_CHECKING:
    from tests.cluster.processes import Process
    from tests.scenarios.api import Api

MARK: Final = "running"
NAMESPACE: Final = "default"
CPUS: Final = 128
RATIO_LIMIT: Final = 1.0
LONGEST: Final = 900.0

MACHINE: Final = {"blocks": [{"socket": 0, "node": 0, "cores": f"0-{CPUS - 1}", "threads": [f"0-{CPUS - 1}"]}]}
_BIND: Final = 'for each in cpu node; do mount --bind "$0/sys/devices/system/$each" "/sys/devices/system/$each"; done'
_SIMULATED: Final = ("unshare", "--mount", "sh", "-ec", f'{_BIND}; exec "$@"')
"""Before the root of a simulated sysfs and a command: what the command sees of the machine's CPUs."""


class Driver(NamedTuple):
    """What publishes CPUs and prepares claims."""

    name: str
    driver: str
    process: Process


class Run(NamedTuple):
    """What was measured once."""

    seconds: float
    """From the first request for a pod until all pods run."""
    cpu: float
    """Milliseconds of a core that the driver took for each pod, until all pods ran."""
    refusals: int
    """Pods whose claims the kubelet could not have prepared at first: it tries again after some seconds."""


def plugin(node: RealNode) -> Driver:
    """Return the kubelet plugin."""
    root = machines.build(MACHINE, node.folder.path / "machine")
    (probes,) = free(1)
    command = [
        *_SIMULATED,
        str(root),
        *COMMAND,
        "--drivers=cpu",
        "--reserved-cpus=0",
        "--kubepods-cgroup=none",
        f"--kubelet={node.plugins.parent}",
        f"--node-name={node.name}",
        f"--kubeconfig={node.kubeconfig}",
        f"--plugins={node.plugins}",
        f"--registry={node.plugins_registry}",
        f"--cdi={node.cdi}",
        f"--probes={LOOPBACK}:{probes}",
    ]
    ready = partial(healthy, probes, "/readyz", tls=False)
    return Driver("plugin", "cpu.reserve.dra", node.folder.process("plugin", command, ready=ready))


def peer(node: RealNode) -> Driver:
    """Return the driver in Go."""
    folder = node.folder.path / "peer"
    folder.mkdir()
    account = json.loads(node.kubeconfig.read_text(encoding="utf-8"))
    server, user = account["clusters"][0]["cluster"], account["users"][0]["user"]
    (folder / "server.pem").write_bytes(base64.b64decode(server["certificate-authority-data"]))
    access = {
        "url": server["server"],
        "token": user["token"],
        "node": node.name,
        "plugins": str(node.plugins),
        "registry": str(node.plugins_registry),
        "cdi": str(node.cdi),
        "devices": CPUS,
    }
    (folder / "access.json").write_text(json.dumps(access), encoding="utf-8")
    command = [str(binaries.build(binaries.plugin_peer())), str(folder)]
    return Driver("Go driver", "gpu.reserve.dra", node.folder.process("peer", command))


async def measure(api: Api, node: RealNode, driver: Driver, *, pods: int) -> Run:
    """Start a driver, have pods run with it, and end all of them."""
    await asyncio.to_thread(driver.process.start)
    fields = f"spec.nodeName={node.name},spec.driver={driver.driver}"
    await eventually(lambda: api.all(RESOURCE_SLICES, fieldSelector=fields), saying=f"{driver.name} publishes")
    await run_pods(api, driver, pods=1)  # the kubelet has registered it
    before = processor_seconds(driver.process.pid)
    seconds = await run_pods(api, driver, pods=pods, on_running=lambda: processor_seconds(driver.process.pid))
    run = Run(seconds.wall, 1000 * (seconds.at - before) / pods, seconds.refusals)
    driver.process.stop()
    shutil.rmtree(node.plugins / driver.driver, ignore_errors=True)
    for slice_ in await api.all(RESOURCE_SLICES, fieldSelector=fields):
        await api.delete(RESOURCE_SLICES, slice_["metadata"]["name"])
    return run


class _Running(NamedTuple):
    """When all pods ran: seconds since their creation, what a clock showed, and Events of refused claims."""

    wall: float
    at: float
    refusals: int


async def run_pods(
    api: Api,
    driver: Driver,
    *,
    pods: int,
    on_running: Any = lambda: 0.0,  # noqa: ANN401
) -> _Running:
    """Create pods, each with a claim, wait until all run, and delete them."""
    claims = [objects.claim(f"cpu-{number}", device_class=driver.driver) for number in range(pods)]
    await api.create_all(claims, namespace=NAMESPACE)
    bodies = [
        objects.pod(f"pod-{number}", PodShape(spec=objects.ON_REAL_NODE, claim=f"cpu-{number}"))
        for number in range(pods)
    ]
    began = time.monotonic()
    await api.create_all(bodies, namespace=NAMESPACE)
    running = "status.phase=Running"
    await eventually(
        lambda: api.all(PODS, namespace=NAMESPACE, fieldSelector=running),
        until=lambda them: len(them) == pods,
        within=LONGEST,
        saying=f"{pods} pods run with {driver.name}",
    )
    seconds, spent = time.monotonic() - began, on_running()
    events = await api.all(EVENTS, namespace=NAMESPACE)
    refusals = sum(event["reason"] == "FailedPrepareDynamicResources" for event in events)
    await api.delete_collection(EVENTS, namespace=NAMESPACE)
    result = _Running(seconds, spent, refusals)
    await api.delete_collection(PODS, namespace=NAMESPACE)
    await eventually(
        lambda: api.all(PODS, namespace=NAMESPACE), until=lambda left: not left, within=LONGEST, saying="pods are gone"
    )
    await api.delete_collection(CLAIMS, namespace=NAMESPACE)
    await eventually(
        lambda: api.all(CLAIMS, namespace=NAMESPACE), until=lambda left: not left, saying="claims are gone"
    )
    return result


async def compare(cluster: Cluster, node: RealNode, *, pods: int, runs: int) -> dict[str, list[Run]]:
    """Let the drivers take turns, each first in every other round."""
    drivers = [plugin(node), peer(node)]
    measured: dict[str, list[Run]] = {driver.name: [] for driver in drivers}
    async with kubernetes.connect(cluster.admin_kubeconfig) as api:
        for driver in drivers:
            await api.create(objects.device_class(driver.driver, driver=driver.driver))
        for number in range(runs):
            for driver in drivers if number % 2 == 0 else reversed(drivers):
                run = await measure(api, node, driver, pods=pods)
                measured[driver.name].append(run)
                amounts = f"{run.seconds:.1f} s, {run.cpu:.1f} ms, {run.refusals} tried again"
                print(f"{driver.name}: {amounts}; load {os.getloadavg()[0]:.1f}", flush=True)
    return measured


def table(measured: dict[str, list[Run]], ratios: list[float]) -> str:
    """Return a table as Markdown."""
    lines = [
        "| driver | s until all run | in each round | CPU of the driver, ms per pod | pods that were tried again |",
        "|---|---:|---|---:|---|",
    ]
    for name, runs in measured.items():
        by_round = ", ".join(f"{run.seconds:.1f}" for run in runs)
        seconds, cpu = (statistics.median(run[place] for run in runs) for place in range(2))
        retried = ", ".join(str(run.refusals) for run in runs)
        lines.append(f"| {name} | {seconds:.1f} | {by_round} | {cpu:.1f} | {retried} |")
    by_round = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    lines.append(f"| **plugin : Go driver** | {statistics.median(ratios):.2f} | {by_round} | | |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; exit with 1 if the plugin is slower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    asked = parser.parse_args()
    with Cluster(Options(nodes=0)) as cluster, RealNode(cluster) as node:
        measured = asyncio.run(compare(cluster, node, pods=asked.pods, runs=asked.runs))
        version = cluster.kubernetes.removeprefix("v")
    first, second = measured.values()
    ratios = [ours.seconds / theirs.seconds for ours, theirs in zip(first, second, strict=True)]
    load = ", ".join(f"{average:.0f}" for average in os.getloadavg())
    text = (
        f"{asked.pods} pods on a kubelet {version}; medians of {asked.runs} rounds; {os.cpu_count()} cores, load "
        f"averages {load}.\n\n{table(measured, ratios)}"
    )
    print(text)
    if asked.write:
        readme.write(text, mark=MARK)
    return 0 if statistics.median(ratios) <= RATIO_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
