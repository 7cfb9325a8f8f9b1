"""Two Prometheus on one busy world: one finds it by deploy/monitoring/scrape.yaml, one by the chart's PodMonitors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.cluster.kubectl import kubectl
from tests.cluster.run_folder import RunFolder
from tests.cluster.waiting import until
from tests.scenarios.monitoring import prometheus, work
from tests.scenarios.monitoring.prometheus import Prometheus
from tests.scenarios.monitoring.world import NODES, World
from tests.scenarios.target import Place

DEPLOY: Final = Path(__file__).parents[3] / "deploy" / "monitoring"
RULES: Final = DEPLOY / "alerts.yaml"


@pytest.fixture(scope="package")
def world() -> Iterator[World]:
    """The processes, ready and with nothing to do yet."""
    if Place.chosen().api is None:
        pytest.skip("is about a plane of its own: make prometheus")
    if os.geteuid() != 0:
        pytest.skip("makes cgroups, which the kubelet plugins sample: root")
    with RunFolder() as folder:
        world = World(folder=folder)
        world.start()
        yield world


@pytest.fixture(scope="package")
def looking(world: World) -> dict[str, Prometheus]:
    """Both, looking before the work begins: what grows from nothing is seen to grow."""
    monitors = world.stand_in()
    ways = {
        "scrape-file": yaml.safe_load((DEPLOY / "scrape.yaml").read_text())["scrape_configs"],
        "pod-monitors": [prometheus.of_monitor(each) for each in monitors],
    }
    found = {}
    for name, configurations in ways.items():
        scrape = [prometheus.discovering(each, kubeconfig=world.kubeconfig) for each in configurations]
        found[name] = Prometheus(world.folder, name=name, scrape=scrape, rules=RULES)
        found[name].process.start()
    for each in found.values():
        until(partial(_sees_all, each, len(world.exposed)), within=60, saying=f"{each.process.name} sees all targets")
    return found


def _has_data(server: Prometheus, expression: str) -> bool:
    return server.query(expression) != []


def _sees_all(server: Prometheus, count: int) -> bool:
    return [each["health"] for each in server.targets()] == ["up"] * count


@pytest.fixture(scope="package")
def server(world: World, looking: dict[str, Prometheus]) -> Prometheus:
    """That of the scrape file, after the work."""
    server = looking["scrape-file"]
    extender = work.Client(world.extender_port, world.certificates)
    scheduler = work.Scheduler(extender, kubeconfig=world.kubeconfig, nodes=NODES)
    work.apply(work.reservation(), kubeconfig=world.kubeconfig)
    until(lambda: scheduler.place() != [], within=30, saying="the reservation has its place")
    work.apply(work.objects(), kubeconfig=world.kubeconfig)
    until(lambda: scheduler.place() == ["owner"], within=60, saying="the owner is bound")
    scheduler.preempt()
    _migrate(server, scheduler, world)
    world.run_batch_pods()
    reporting = "sum(dra_reserve_batch_nodes_degraded) == 0"
    until(partial(_has_data, server, reporting), within=60, saying="all nodes report what they use")
    work.Client(world.page_port, world.certificates).ask("GET", "/")
    kubectl("wait", "--for=condition=Complete", "job/train", "--timeout=120s", kubeconfig=world.kubeconfig)
    return server


def _migrate(server: Prometheus, scheduler: work.Scheduler, world: World) -> None:
    """Have pods migrated, after Prometheus has seen that they wait for a budget."""
    work.apply(work.crowd(), kubeconfig=world.kubeconfig)
    placed: list[str] = []

    def all_on_one_node() -> bool:
        placed.extend(scheduler.place(on=NODES[:1]))
        return len(placed) == work.COPIES

    until(all_on_one_node, within=60, saying="the copies are bound to one node")
    work.apply(work.migration(placed[0]), kubeconfig=world.kubeconfig)
    waiting, named = "dra_reserve_descheduler_migration_waiting", "dra_reserve_descheduler_candidates_total"
    until(partial(_has_data, server, waiting), within=60, saying="the migration waits for the budget")
    several = f"sum({named}) > {work.COPIES}"
    until(partial(_has_data, server, several), within=60, saying="two rounds have named the copies")
    kubectl("delete", "pdb", work.CROWD, f"--namespace={work.NAMESPACE}", kubeconfig=world.kubeconfig)

    def migrated() -> bool:
        scheduler.place()
        return _has_data(server, 'dra_reserve_descheduler_migrations_total{outcome="Succeeded"} >= 2')

    until(migrated, within=120, saying="the pod of the wish and one of the plugin have migrated")
