"""A cluster with the chart's page installed, two tenants, and a page server with the chart's account."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import pytest

from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.options import Options
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, namespaces
from tests.scenarios.page.page_process import ACCOUNT, PageProcess
from tests.scenarios.page.tenants import Tenant
from tests.scenarios.target import Mode, Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.scenarios.api import Api

NODES_OF_THE_CLUSTER: Final = 2
INSTALLED: Final = {
    "page": {"enabled": True, "replicas": 0},  # the server under test is ours to start
    "reservations": {"enabled": True, "extender": {"replicas": 0}},
    "descheduler": {"enabled": True, "replicas": 0},
}


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """A cluster in which Helm has installed the chart with the page."""
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("signs in with tokens of accounts that it creates, and takes rights away: a cluster of its own")
    with Cluster(Options(nodes=NODES_OF_THE_CLUSTER)) as found:
        installation.upgrade(found.admin_kubeconfig, mode=Mode.ALONGSIDE, values=INSTALLED)
        yield found


@pytest.fixture(scope="package")
def admin(cluster: Cluster) -> Path:
    """The kubeconfig of an administrator."""
    return cluster.admin_kubeconfig


@pytest.fixture(scope="package")
def account(cluster: Cluster) -> Path:
    """The kubeconfig of the installed account of the page."""
    path = cluster.folder.path / f"{ACCOUNT}.kubeconfig"
    return kubeconfig.for_service_account(
        path, admin=cluster.admin_kubeconfig, namespace=installation.NAMESPACE, name=ACCOUNT
    )


@pytest.fixture(scope="package")
def page(cluster: Cluster, account: Path) -> Iterator[PageProcess]:
    """A page server with the installed account."""
    found = PageProcess(cluster.folder, account)
    found.process.start()
    yield found
    assert found.process.stop() == 0


@pytest.fixture
async def api(admin: Path) -> AsyncIterator[Api]:
    async with kubernetes.connect(admin) as client:
        yield client


@pytest.fixture
async def tenants(api: Api, admin: Path) -> AsyncIterator[tuple[Tenant, Tenant]]:
    """Two tenants, each with a namespace, a node, devices, a claim in use, a claim that waits, and an account."""
    async with AsyncExitStack() as stack:
        made = []
        for name in ("amber", "cobalt"):
            namespace = await stack.enter_async_context(namespaces.temporary(api, purpose=name))
            made.append(await Tenant.create(namespace, admin))
        yield made[0], made[1]
