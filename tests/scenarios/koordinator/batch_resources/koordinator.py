"""koord-manager on a cluster of its own, without webhooks, kubelets and agents."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dra.model import quantities
from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.options import Component, Options
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.scenarios import api as kubernetes
from tests.scenarios.koordinator.batch_resources.outcomes import Outcome, Record
from tests.scenarios.koordinator.batch_resources.setting import create_all
from tests.scenarios.migrations.koordinator import peer
from tests.scenarios.resources import NODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.scenarios.api import Api
    from tests.scenarios.koordinator.batch_resources.cases import Case

Json = dict[str, Any]

MANAGER: Final = "koord-manager"
QUIET_SECONDS: Final = 20
"""Seconds without a change after which koord-manager has answered."""
WITHIN: Final = 600

CPU: Final = "kubernetes.io/batch-cpu"
MEMORY: Final = "kubernetes.io/batch-memory"


@contextmanager
def running(programs: Path, cases: Sequence[Case]) -> Iterator[Path]:
    """Run a cluster with all cases and koord-manager, and yield the administrator's kubeconfig."""
    without = frozenset({Component.SCHEDULER, Component.NODES})
    with Cluster(Options(nodes=0, without=without)) as cluster:
        admin, folder = cluster.admin_kubeconfig, cluster.folder
        peer.install(admin, peer.manifests())
        asyncio.run(_create(admin, cases))
        own = kubeconfig.for_service_account(
            folder.path / f"{MANAGER}.kubeconfig", admin=admin, namespace=peer.NAMESPACE, name=MANAGER
        )
        metrics, probes, pprof = free(3)
        manager = folder.process(
            MANAGER,
            [
                str(programs / MANAGER),
                f"--kubeconfig={own}",
                "--enable-leader-election=false",
                f"--metrics-addr={LOOPBACK}:{metrics}",
                f"--health-probe-addr={LOOPBACK}:{probes}",
                f"--pprof-addr={LOOPBACK}:{pprof}",
                "--enable-pprof=false",
                "--logtostderr=true",
                f"--config-namespace={peer.NAMESPACE}",
                "--sync-period=0",
                "--feature-gates=WebhookFramework=false",
            ],
            ready=partial(healthy, metrics, "/metrics", tls=False),  # without webhooks there is no /healthz
        )
        manager.env = {**manager.env, "POD_NAMESPACE": peer.NAMESPACE}
        manager.start()
        yield admin


async def _create(admin: Path, cases: Sequence[Case]) -> None:
    async with kubernetes.connect(admin) as api:
        await create_all(api, cases)


async def answers(admin: Path, cases: Sequence[Case]) -> list[Record]:
    """Return what koord-manager has written on each node, once it writes no more."""
    async with kubernetes.connect(admin) as api:
        found, since = await _outcomes(api), 0
        for _ in range(WITHIN):
            await asyncio.sleep(1)
            before, found = found, await _outcomes(api)
            written = sum(each.cpu is not None for each in found.values())
            since = since + 1 if found == before and written > len(cases) // 2 else 0
            if since >= QUIET_SECONDS:
                return [Record(case=each.number, digest=each.digest, outcome=found[each.name]) for each in cases]
    raise TimeoutError(f"{MANAGER} still writes after {WITHIN} s")


async def _outcomes(api: Api) -> dict[str, Outcome]:
    return {each["metadata"]["name"]: outcome(each) for each in await api.all(NODES)}


def outcome(node: Json) -> Outcome:
    """Return the batch resources of a Node; raise AssertionError if capacity and allocatable differ."""
    amounts = []
    for name in (CPU, MEMORY):
        texts = {node["status"][part].get(name) for part in ("capacity", "allocatable")}
        assert len(texts) == 1, f"node {node['metadata']['name']}: {name} is {texts}"
        (text,) = texts
        amounts.append(None if text is None else int(quantities.parse(text)))
    return Outcome(*amounts)
