"""Our controller on the nodes of the records: it writes what the engine computes, and so what koord-manager wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.options import Component, Options
from tests.scenarios import api as kubernetes
from tests.scenarios import installation
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import eventually
from tests.scenarios.koordinator.batch_resources import engine
from tests.scenarios.koordinator.batch_resources.cases import SPECIAL, Case
from tests.scenarios.koordinator.batch_resources.drafts import all_cases
from tests.scenarios.koordinator.batch_resources.koordinator import outcome
from tests.scenarios.koordinator.batch_resources.setting import create_all
from tests.scenarios.resources import NODES
from tests.scenarios.target import Capability, Mode, Place

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.needs(Capability.COMPONENTS, Capability.RIGHTS)]

WITHIN = 300.0


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("all nodes at once on a cluster of their own, without kubelets")
    without = frozenset({Component.SCHEDULER, Component.NODES})
    with Cluster(Options(nodes=0, without=without)) as cluster:
        installation.install(cluster.admin_kubeconfig)
        installation.install(cluster.admin_kubeconfig, kustomization=installation.DEPLOY / "colocation")
        yield cluster


async def test_the_controller_writes_what_the_engine_computes(own_cluster: Cluster) -> None:
    configuration = engine.configuration()
    wanted, cases = {}, []
    for case in all_cases():
        offered, held = (each.offered for each in engine.offer(case, configuration))
        # Without kubelets no pod is admitted, so what is held does not count.
        if case.kind not in SPECIAL and offered[0] > held[0] and offered[1] > held[1]:
            wanted[case.name] = offered
            cases.append(case)
    assert len(cases) >= 300
    await _compare(own_cluster, cases, wanted)


async def _compare(cluster: Cluster, cases: Sequence[Case], wanted: dict[str, tuple[int, int]]) -> None:
    admin = cluster.admin_kubeconfig
    settings = Settings(
        kubeconfig=installation.controller_kubeconfig(admin, cluster.folder.path),
        mode=Mode.ALONGSIDE,
        configuration={"colocation": True, "leaderElection": {"enabled": False}},
    )
    async with kubernetes.connect(admin) as api:
        await create_all(api, cases)
        controller = Controller(cluster.folder, settings, name="batch-resources")
        await controller.start()

        async def different() -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
            found = {each["metadata"]["name"]: outcome(each).offered for each in await api.all(NODES)}
            return {name: (found[name], right) for name, right in wanted.items() if found[name] != right}

        try:
            await eventually(different, until=lambda left: not left, within=WITHIN, saying="all nodes are as computed")
        finally:
            await controller.stop()
