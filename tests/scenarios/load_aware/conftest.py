"""A cluster whose scheduler asks the extender twice: for Reservations, and for the measured load of nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import kubectl
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.processes import Process
from tests.scenarios import installation
from tests.scenarios.api import Api
from tests.scenarios.reservations.conftest import (
    ROOT,
    certificates,
    cluster,
    emptied,
    extending,
    install,
    over_https,
    plane,
    port,
    pytest_runtest_makereport,
    reserving,
    target,
)
from tests.scenarios.resources import NODE_METRICS
from tests.scenarios.target import Place

__all__ = [
    "certificates",
    "cluster",
    "emptied",
    "plane",
    "port",
    "pytest_runtest_makereport",
    "reserving",
    "target",
]

RIGHTS: Final = installation.DEPLOY / "reservations-load-aware"


@pytest.fixture(scope="package")
def real(port: int, certificates: dict[str, Path]) -> Iterator[Cluster | None]:
    """A cluster of our own, whose scheduler's configuration has both entries."""
    if Place.chosen() is not Place.LOCAL:
        yield None
        return
    configuration = by_load(over_https(port, certificates))
    options = Options(controllers=WITHOUT_CLAIM_CONTROLLER, nodes=0, scheduler_configuration=configuration)
    with Cluster(options) as cluster:
        install(cluster)
        installation.install(cluster.admin_kubeconfig, kustomization=RIGHTS)
        yield cluster


@pytest.fixture(scope="package")
def extender(
    cluster: Cluster, port: int, certificates: dict[str, Path], request: pytest.FixtureRequest
) -> Iterator[Process]:
    """The extender, with its installed rights, and with load-aware scheduling."""
    thresholds = {"usageThresholds": {"cpu": 65, "memory": 95}}
    with extending(request, cluster, port, certificates, loadAware=thresholds) as process:
        yield process


@pytest.fixture
async def api_with_metrics(cluster: Cluster, emptied: Api) -> AsyncIterator[Api]:
    """The API, which serves NodeMetrics and has none at the end."""
    file = f"--filename={ROOT}/crds/nodemetrics.slo.koordinator.sh.yaml"
    kubectl("apply", file, kubeconfig=cluster.admin_kubeconfig)
    kubectl("wait", "--for=condition=Established", "--timeout=60s", file, kubeconfig=cluster.admin_kubeconfig)
    yield emptied
    for metric in await emptied.all(NODE_METRICS):
        await emptied.delete(NODE_METRICS, metric["metadata"]["name"])


def by_load(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return a scheduler's configuration with a second entry for the extender: nodes by their measured load."""
    (extender,) = configuration["extenders"]
    second = {name: value for name, value in extender.items() if name not in {"preemptVerb", "bindVerb"}}
    second |= {"urlPrefix": f"{extender['urlPrefix']}/load", "weight": 1, "ignorable": True, "httpTimeout": "2s"}
    return configuration | {"extenders": [extender, second]}
