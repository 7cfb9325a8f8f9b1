"""A cluster of real Kubernetes with everything installed, and room for large objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.ports import free
from tests.scenarios import api as kubernetes
from tests.scenarios import installation
from tests.scenarios.api import Api
from tests.scenarios.reservations.conftest import certified, over_https, section
from tests.scenarios.resources import POD_GROUPS
from tests.scenarios.target import Mode, Place, Target

NODES: Final = ("node-0", "node-1")
COMPONENTS: Final = ("reservations", "descheduler", "page", "kubelet-plugin")
QUOTA: Final = 8 << 30
"""Bytes that etcd stores; the default, two gigabytes, has room for fewer objects than a tenant may create."""


@dataclass(frozen=True)
class Installed:
    """A cluster with everything installed, but for the processes."""

    cluster: Cluster
    serve: int
    """The port of the extender that kube-scheduler's configuration names."""

    tls: dict[str, str]

    @property
    def target(self) -> Target:
        """The cluster as helpers for accounts know it."""
        admin = self.cluster.admin_kubeconfig
        return Target(mode=Mode.REPLACE, admin=admin, controller=admin, folder=self.cluster.folder, own=self.cluster)


@pytest.fixture(scope="package")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A cluster whose scheduler asks the extender, with the rights and policies of deploy/."""
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("limits the memory of processes, and etcd must have room: a cluster of its own")
    certificates = certified(tmp_path_factory.mktemp("certificates"))
    (serve,) = free(1)
    options = Options(
        controllers=WITHOUT_CLAIM_CONTROLLER,
        nodes=0,
        scheduler_configuration=over_https(serve, certificates),
        feature_gates={"GenericWorkload": True},
        apiserver_flags=(f"--runtime-config={POD_GROUPS.api_version}=true",),
        etcd_flags=(f"--quota-backend-bytes={QUOTA}",),
    )
    with Cluster(options) as cluster:
        admin = cluster.admin_kubeconfig
        cluster.nodes.add([*NODES])
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=admin)
        installation.install(admin)
        for component in COMPONENTS:
            installation.install(admin, kustomization=installation.DEPLOY / component)
        yield Installed(cluster, serve, section(certificates))


@pytest.fixture(scope="package")
def target(installed: Installed) -> Target:
    """The cluster; marks the tests as those that need Kubernetes."""
    return installed.target


@pytest.fixture
async def api(installed: Installed) -> AsyncIterator[Api]:
    async with kubernetes.connect(installed.cluster.admin_kubeconfig) as client:
        yield client
