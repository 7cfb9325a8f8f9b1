"""The processes of an installation, each under the memory limit and with the lease that it ships with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.memory import Limited, installed, limited
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.cluster.processes import Process
from tests.scenarios import installation
from tests.scenarios.api import Api
from tests.scenarios.controller import INSTALLED
from tests.scenarios.metrics import Metrics, parse
from tests.scenarios.resources import LEASES

ACCOUNTS: Final = {
    "controller": "dra-reserve-controller",
    "scheduler-extender": "dra-reserve-extender",
    "descheduler": "dra-reserve-descheduler",
    "page": "dra-reserve-page",
}
"""Process → its account, and the name of its lease; the page has no lease."""

READY_WITHIN: Final = 120.0
"""Seconds from the start to ready, beside objects of tenants that have to be read."""

QUICK: Final = {"enabled": True, "leaseSeconds": 15, "renewSeconds": 10, "retrySeconds": 2}

Lease = tuple[str, int]
"""The holder, and how often the lease has changed hands."""


@dataclass(frozen=True)
class Shipped:
    """One process with its cgroup."""

    process: Process
    memory: Limited
    metrics_port: int

    async def metrics(self) -> Metrics:
        """Return what /metrics says now."""
        url = f"http://{LOOPBACK}:{self.metrics_port}/metrics"
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as answer:
            answer.raise_for_status()
            return parse(await answer.text())


@contextmanager
def shipped(cluster: Cluster, *, serve: int, tls: Mapping[str, str]) -> Iterator[dict[str, Shipped]]:
    """Run all processes; `serve` is the port of the extender that kube-scheduler's configuration names.

    Raises NoCgroupError where no memory can be limited.
    """
    configurations: dict[str, dict[str, Any]] = {
        "controller": {"mode": "replace", "reservations": True, "leaderElection": QUICK},
        "scheduler-extender": {
            "serve": {"address": LOOPBACK, "port": serve},
            "tls": dict(tls),
            "leaderElection": QUICK | {"retrySeconds": 1},
        },
        "descheduler": {"leaderElection": QUICK | {"retrySeconds": 1}},
        "page": {"serve": {"address": LOOPBACK, "port": free(1)[0]}},
    }
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(_running(cluster, name, configuration))
            for name, configuration in configurations.items()
        }
        for each in running.values():
            each.process.wait_ready(within=READY_WITHIN)
        yield running


@contextmanager
def _running(cluster: Cluster, name: str, configuration: dict[str, Any]) -> Iterator[Shipped]:
    folder = cluster.folder.path
    credentials = kubeconfig.for_service_account(
        folder / f"{name}.kubeconfig",
        admin=cluster.admin_kubeconfig,
        namespace=installation.NAMESPACE,
        name=ACCOUNTS[name],
    )
    probes, metrics = free(2)
    listeners = {"probes": probes, "metrics": metrics}
    content = configuration | {key: {"address": LOOPBACK, "port": port} for key, port in listeners.items()}
    file: Path = folder / f"{name}.yaml"
    file.write_text(json.dumps(content | {"logging": {"format": "text"}}), encoding="utf-8")
    command = [*INSTALLED, name, f"--kubeconfig={credentials}", f"--config={file}"]
    with limited(name, mebibytes=installed(name)) as memory:
        process = cluster.folder.process(
            name, memory.within(command), ready=partial(healthy, probes, "/readyz", tls=False)
        )
        process.spawn()
        try:
            yield Shipped(process, memory, metrics)
        finally:
            process.stop()


async def drop_leases(api: Api) -> None:
    """Delete the leases of processes that ran before; their successors are ready before they have them."""
    for account in ACCOUNTS.values():
        await api.delete(LEASES, account, namespace=installation.NAMESPACE)


async def leases(api: Api) -> dict[str, Lease]:
    """Return the lease of each process that has one; nothing until all of them are held."""
    held: dict[str, Lease] = {}
    for name, account in ACCOUNTS.items():
        if name == "page":
            continue
        lease = await api.find(LEASES, account, namespace=installation.NAMESPACE)
        if lease is None or not lease["spec"].get("holderIdentity"):
            return {}
        held[name] = (str(lease["spec"]["holderIdentity"]), int(lease["spec"].get("leaseTransitions", 0)))
    return held
