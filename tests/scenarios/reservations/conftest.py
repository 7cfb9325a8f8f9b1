"""A cluster whose scheduler asks our extender, and nodes without taints: manifests of users are used as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.options import ALL_CONTROLLERS, Options
from tests.scenarios import installation
from tests.scenarios.target import Mode, Place, Target

NODES: Final = ("node-0", "node-1", "node-2")
RESERVATIONS: Final = installation.DEPLOY / "reservations"
EXAMPLES: Final = Path(__file__).parents[3] / "examples" / "reservations"


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("the scheduler's configuration names the extender: a cluster of its own")
    options = Options(controllers=ALL_CONTROLLERS, nodes=0)
    with Cluster(options) as cluster:
        cluster.nodes.add(list(NODES))
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=cluster.admin_kubeconfig)
        installation.install(cluster.admin_kubeconfig)
        installation.install(cluster.admin_kubeconfig, kustomization=RESERVATIONS)
        yield cluster


@pytest.fixture(scope="package")
def target(cluster: Cluster) -> Target:
    """The cluster as the fixtures for controllers know it."""
    admin, folder = cluster.admin_kubeconfig, cluster.folder
    return Target(
        mode=Mode.ALONGSIDE,
        admin=admin,
        controller=installation.controller_kubeconfig(admin, folder.path),
        folder=folder,
        own=cluster,
    )
