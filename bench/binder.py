"""The scheduler extender on the cluster of a bench: how it is started, and how kube-scheduler comes to ask it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster import kubeconfig
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.scenarios import installation
from tests.scenarios.reservations.conftest import DEPLOY, PROGRAM, ROOT, certified, over_https, section

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.processes import Process


class Entry(StrEnum):
    """What is asked of the extender, by the sample of the scheduler's file."""

    BIND_ONLY = "scheduler-configuration-bind-only.yaml"
    RESERVATIONS = "scheduler-configuration.yaml"


def program(cluster: Cluster, name: str, command: str, account: str, configuration: dict[str, Any]) -> Process:
    """Return a process of ours, with its installed rights."""
    folder, (probes,) = cluster.folder.path, free(1)
    own = kubeconfig.for_service_account(
        folder / f"{name}.kubeconfig",
        admin=cluster.admin_kubeconfig,
        namespace=installation.NAMESPACE,
        name=account,
    )
    file = folder / f"{name}.yaml"
    common = {"probes": {"address": LOOPBACK, "port": probes}, "metrics": None, "leaderElection": {"enabled": False}}
    file.write_text(json.dumps(configuration | common), encoding="utf-8")
    ready = partial(healthy, probes, "/readyz", tls=False)
    process = cluster.folder.process(name, [*PROGRAM, command, f"--kubeconfig={own}", f"--config={file}"], ready=ready)
    process.env = {**process.env, "PYTHONPATH": str(ROOT)}
    return process


def extender(cluster: Cluster, port: int, *, name: str = "extender", tls: dict[str, str] | None = None) -> Process:
    """Return the extender as a process that answers at this port."""
    serve = {"serve": {"address": LOOPBACK, "port": port}, "tls": tls}
    return program(cluster, name, "scheduler-extender", "dra-reserve-extender", serve)


async def configure(cluster: Cluster, configuration: dict[str, Any]) -> None:
    """Start the scheduler anew."""
    (cluster.folder.path / "scheduler.json").write_text(json.dumps(configuration), encoding="utf-8")
    await asyncio.to_thread(cluster.scheduler.restart)


@asynccontextmanager
async def binding(cluster: Cluster, entry: Entry) -> AsyncIterator[None]:
    """Have the extender asked by the scheduler for the block, which is started anew before and after."""
    await asyncio.to_thread(installation.install, cluster.admin_kubeconfig, kustomization=DEPLOY)
    (port,) = free(1)
    certificates = certified(cluster.folder.path)
    stock = json.loads((cluster.folder.path / "scheduler.json").read_text(encoding="utf-8"))
    process = extender(cluster, port, tls=section(certificates))
    await asyncio.to_thread(process.start)
    try:
        await configure(cluster, stock | over_https(port, certificates, sample=entry.value))
        yield
    finally:
        await configure(cluster, stock)
        await asyncio.to_thread(process.stop)
