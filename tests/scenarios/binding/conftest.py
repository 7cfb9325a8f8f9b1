"""A cluster without Reservations, whose scheduler has the extender bind pods; its API server keeps an audit log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.processes import Process
from tests.scenarios import objects, steps
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.requests_seen import AuditLog
from tests.scenarios.reservations.conftest import (
    certificates,
    cluster,
    extending,
    install,
    over_https,
    plane,
    port,
    pytest_runtest_makereport,
    target,
)
from tests.scenarios.target import Place

__all__ = ["certificates", "cluster", "plane", "port", "pytest_runtest_makereport", "target"]

BIND_ONLY: Final = "scheduler-configuration-bind-only.yaml"
SHARED: Final = PodShape(claim="shared", gated=True)


@pytest.fixture(scope="package")
def audited(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    return AuditLog(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="package")
def real(port: int, certificates: dict[str, Path], audited: AuditLog) -> Iterator[Cluster | None]:
    """A cluster of our own, whose scheduler's configuration has the entry that only binds."""
    if Place.chosen() is not Place.LOCAL:
        yield None
        return
    options = Options(
        controllers=WITHOUT_CLAIM_CONTROLLER,
        nodes=0,
        scheduler_configuration=over_https(port, certificates, sample=BIND_ONLY),
        apiserver_flags=audited.flags,
    )
    with Cluster(options) as cluster:
        install(cluster)
        yield cluster


@pytest.fixture
def extender(
    cluster: Cluster, port: int, certificates: dict[str, Path], request: pytest.FixtureRequest
) -> Iterator[Process]:
    """The extender, with its installed rights."""
    with extending(request, cluster, port, certificates) as process:
        yield process


@pytest.fixture
async def shared(namespace: Namespace, start_controller: StartController) -> Namespace:
    """A namespace with claim shared, reserved for a workload and allocated: a first pod of it runs."""
    await start_controller(configuration=ALONE)
    workload = objects.job("train", PodShape())
    workload["spec"]["suspend"] = True
    await namespace.create(workload)
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/train"))
    await namespace.create(objects.pod("first", SHARED))
    await steps.pods_run(namespace, "first")
    return namespace
