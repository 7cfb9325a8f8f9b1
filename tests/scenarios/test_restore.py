"""An API server that is restored from a backup: what happened since then never happened, and all must know.

Resource versions go back, objects that were deleted are there again. A controller that trusts its memory would write
conflicts for ever, or give away devices of pods that it has seen ending. Ours ends, as its successor knows nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, namespaces, objects, steps
from tests.scenarios.claims import allocated, listed
from tests.scenarios.conftest import ALONE
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.cluster, pytest.mark.needs(Capability.COMPONENTS)]

NOTICED_WITHIN: Final = 60.0
"""Seconds from the restored server's first answer until our controller has ended."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of its own: nothing else would survive the way back. A restarted kwok waits for its former leases."""
    with Cluster(Options(nodes=1, controllers=WITHOUT_CLAIM_CONTROLLER, node_lease_seconds=4)) as found:
        installation.install(found.admin_kubeconfig)
        yield found


async def test_what_never_happened_costs_nobody_a_device(cluster: Cluster) -> None:
    way = installation.controller_kubeconfig(cluster.admin_kubeconfig, cluster.folder.path)
    controller = Controller(cluster.folder, Settings(kubeconfig=way, mode=Mode.REPLACE, configuration=ALONE))
    await controller.start()
    async with kubernetes.connect(cluster.admin_kubeconfig) as api, namespaces.temporary(api, purpose="back") as found:
        await used_by_a_pod(found)
        saved = back_up(cluster)
        await given_back(found)
        restore(cluster, saved)
        await eventually(
            lambda: not controller.process.alive, within=NOTICED_WITHIN, saying="it has seen that time went back"
        )
        assert "was it restored from a backup?" in controller.process.tail()

        await controller.start()
        claim = await found.get(CLAIMS, "shared")
        assert allocated(claim)
        assert listed(claim) == {"worker"}
        await steps.pods_run(found, "worker")
        await steps.end_pods(found, "worker")
        await steps.freed(found, "shared")
    await controller.stop()


async def used_by_a_pod(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices))
    await namespace.create(objects.pod("worker", PodShape(claim="shared")))
    await steps.pods_run(namespace, "worker")


async def given_back(namespace: Namespace) -> None:
    await steps.end_pods(namespace, "worker")
    await steps.freed(namespace, "shared")
    await namespace.delete(PODS, "worker")
    await namespace.create_all(objects.pods("more", 5, PodShape()))  # time goes on
    await steps.pods_run(namespace, count=5)


def back_up(cluster: Cluster) -> Path:
    """Copy what etcd has on disk."""
    data = cluster.folder.path / "etcd"
    saved = data.with_name("etcd.saved")
    cluster.etcd.stop()
    shutil.copytree(data, saved)
    cluster.etcd.start()
    return saved


def restore(cluster: Cluster, saved: Path) -> None:
    """Start everything anew on the copy, as the manual says; but our controller is not told."""
    servers = (cluster.etcd, cluster.apiserver, cluster.controller_manager, cluster.scheduler, cluster.kwok)
    for server in reversed(servers):
        server.stop()
    data = saved.with_name("etcd")
    shutil.rmtree(data)
    saved.rename(data)
    for server in servers:
        server.start()
