"""In the place of the session's cluster: one of the version before the newest, for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.cluster.node import RealNode
from tests.cluster.options import Options
from tests.cluster.ports import free
from tests.cluster.processes import Process
from tests.scenarios import installation
from tests.scenarios.conftest import CONTROLLERS, NODE, SOUND_NODES
from tests.scenarios.reservations import conftest as reservations
from tests.scenarios.target import Mode, Place, Target


@pytest.fixture
def extender_port() -> int:
    (found,) = free(1)
    return found


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, Path]:
    return reservations.certified(tmp_path)


@pytest.fixture
def target(mode: Mode, extender_port: int, certificates: dict[str, Path]) -> Iterator[Target]:
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("components are replaced by those of another version: a cluster of its own")
    _, older = binaries.controlplanes()[:2]
    # Devices are held in mode replace alone, so no Reservation needs the extender in the other one.
    asking = reservations.over_https(extender_port, certificates) if mode is Mode.REPLACE else {}
    options = Options(
        kubernetes=older.version, controllers=CONTROLLERS[mode], nodes=SOUND_NODES, scheduler_configuration=asking
    )
    with Cluster(options) as cluster:
        admin = cluster.admin_kubeconfig
        installation.install(admin, kustomization=installation.OVERLAYS[mode])
        if mode is Mode.REPLACE:
            installation.install(admin, kustomization=reservations.DEPLOY)
        installation.guard(admin)
        yield Target(
            mode=mode,
            admin=admin,
            controller=installation.controller_kubeconfig(admin, cluster.folder.path),
            folder=cluster.folder,
            own=cluster,
        )


@pytest.fixture
def real_node(target: Target, request: pytest.FixtureRequest) -> Iterator[RealNode]:
    with RealNode(target.cluster) as node:
        request.config.stash[NODE] = node
        yield node


@pytest.fixture
def extender(
    target: Target, extender_port: int, certificates: dict[str, Path], request: pytest.FixtureRequest
) -> Iterator[Process | None]:
    """The extender, with its installed rights; none where nothing is reserved."""
    with ExitStack() as stack:
        yield (
            stack.enter_context(reservations.extending(request, target.cluster, extender_port, certificates))
            if target.mode is Mode.REPLACE
            else None
        )
