"""Three teams on a cluster, a real controller and a real Prometheus: who holds what nobody uses, and who may see that.

A day is played into Prometheus' own storage as a scrape each half minute would have left it, with the names of the
teams; from then on Prometheus scrapes the controller itself. Not a part of CI: `make prometheus`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from dra.engine.device_usage.history import HELD_METRIC, LABELS, USED_METRIC
from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK
from tests.scenarios import namespaces, objects, steps
from tests.scenarios.claims import allocated, listed
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import eventually
from tests.scenarios.monitoring.conftest import RULES
from tests.scenarios.monitoring.prometheus import INTERVAL, Prometheus, play
from tests.scenarios.objects import PodShape
from tests.scenarios.page.page_client import PageClient, signed_in
from tests.scenarios.page.page_process import PageProcess, token_for
from tests.scenarios.page.tenants import Tenant, account
from tests.scenarios.resources import DEPLOYMENTS, PODS
from tests.scenarios.target import Mode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.cluster.cluster import Cluster
    from tests.scenarios.api import Api

pytestmark = [pytest.mark.cluster, pytest.mark.long]

HOUR: Final = 3600
SCRAPE: Final = 30
"""Seconds between two scrapes of the day that is played."""

KUBECTL_DRA: Final = str(Path(sys.executable).with_name("kubectl-dra"))


class Phase(NamedTuple):
    """What a team holds and uses for a time; hours are counted back from now."""

    begin: float
    end: float
    held: int
    used: int


class Team(NamedTuple):
    """One team with its day; what it ends with is what it has on the cluster."""

    tenant: Tenant
    workload: str
    phases: tuple[Phase, ...]
    hours: tuple[float, float, float]
    """Device-hours of 24 hours: held, used, idle."""

    idle_since: str
    """As the page shows it."""


def samples(teams: list[Team], now: float) -> Iterator[str]:
    """Yield the day in the text format."""
    for metric, number in ((HELD_METRIC, "held"), (USED_METRIC, "used")):
        yield f"# TYPE {metric} gauge"
        for team in teams:
            names = (team.tenant.name, team.workload, f"{team.tenant.name}.scenario.dra")
            labels = ",".join(f'{name}="{value}"' for name, value in zip(LABELS, names, strict=True))
            for phase in team.phases:
                times = range(int(now - phase.begin * HOUR), int(now - phase.end * HOUR), SCRAPE)
                yield from (f"{metric}{{{labels}}} {getattr(phase, number)} {at}" for at in times)
    yield "# EOF"


@pytest.fixture
async def controller(cluster: Cluster) -> AsyncIterator[Controller]:
    """A controller of the cluster."""
    alone = {"leaderElection": {"enabled": False}}
    settings = Settings(kubeconfig=cluster.admin_kubeconfig, mode=Mode.ALONGSIDE, configuration=alone)
    process = Controller(cluster.folder, settings)
    await process.start()
    yield process
    await process.stop()


@pytest.fixture
async def hoarder(api: Api, admin: Path, controller: Controller) -> AsyncIterator[Tenant]:
    """A tenant whose Deployment without pods keeps two devices."""
    del controller
    async with namespaces.temporary(api, purpose="hoarder") as namespace:
        device_class = await namespace.offer_devices(2)
        claim = objects.claim("keep", device_class=device_class, devices=2, reserved_for="deployments.apps/keep")
        await namespace.create(claim)
        await namespace.create(objects.deployment("keep", PodShape(claim="keep")))
        await steps.claim_is(namespace, "keep", allocated, saying="a pod of the Deployment uses it")
        entered = await steps.claim_is(
            namespace, "keep", lambda claim: listed(claim, "deployments"), saying="its Deployment is entered"
        )
        await namespace.patch(DEPLOYMENTS, "keep", {"spec": {"replicas": 0}})
        await eventually(lambda: namespace.all(PODS), until=lambda pods: not pods, saying="the Deployment has no pods")
        assert allocated(entered)
        yield Tenant(namespace, await asyncio.to_thread(account, admin, namespace.name))


@pytest.fixture
async def teams(tenants: tuple[Tenant, Tenant], hoarder: Tenant) -> list[Team]:
    """The teams, those first that idled most."""
    amber, cobalt = tenants
    nights = (Phase(24, 12, 1, 1), Phase(12, 3, 1, 0), Phase(3, 0, 1, 1))
    return [
        Team(hoarder, "deployments.apps/keep", (Phase(30, 20, 2, 2), Phase(20, 0, 2, 0)), (48.0, 8.0, 40.0), "20h"),
        Team(cobalt, "<none>", nights, (24.0, 15.0, 9.0), ""),
        Team(amber, "<none>", (Phase(24, 0, 1, 1),), (24.0, 24.0, 0.0), ""),
    ]


@pytest.fixture
async def prometheus(cluster: Cluster, controller: Controller, teams: list[Team]) -> AsyncIterator[str]:
    """The address of a Prometheus that has the day, and goes on with what the controller tells."""
    folder = cluster.folder
    play(folder, name="history", until=partial(samples, teams))
    job = {"job_name": "controller", "static_configs": [{"targets": [controller.metrics_address]}]}
    server = Prometheus(folder, name="history", scrape=[{**job, "scrape_interval": INTERVAL}], rules=RULES)
    server.process.start()
    live = f'{USED_METRIC}{{job="controller"}}'
    expected = {team.tenant.name: str(team.phases[-1].used) for team in teams}
    await eventually(
        lambda: asyncio.to_thread(server.query, live),
        until=lambda series: {sample["metric"][LABELS[0]]: sample["value"][1] for sample in series} == expected,
        saying="Prometheus has scraped what each team uses",
    )
    yield f"http://{LOOPBACK}:{server.port}"
    server.process.stop()


@pytest.fixture
def page(cluster: Cluster, account: Path, prometheus: str) -> Iterator[PageProcess]:
    """A page server with the installed account and the Prometheus."""
    configured = {"prometheus": {"url": prometheus}}
    process = PageProcess(cluster.folder, account, name="page-with-history", configuration=configured)
    process.process.start()
    yield process
    assert process.process.stop() == 0


async def rows(client: PageClient, **query: str) -> dict[str, list[str]]:
    """Return the cells of the view Idle by the name of the row."""
    status, body = await client.get("/api/idle", **query)
    assert status == HTTPStatus.OK, body
    return {row[2][2]: [str(cell[2]) for cell in row[3:-1]] for row in rows_of(json.loads(body))}


def rows_of(tree: Any) -> Iterator[Any]:
    """Yield the rows of the table in a drawn view."""
    if isinstance(tree, list):
        yield from (child for child in tree[2:] if tree[0] == "tbody")
        for child in tree[2:]:
            yield from rows_of(child)


def usage(prometheus: str, *arguments: str, kubeconfig: Path) -> dict[str, Any]:
    """Run ``kubectl dra usage --idle``; return its items by namespace, in their order."""
    command = [KUBECTL_DRA, "usage", "--idle", "--prometheus", prometheus, "-o", "json", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return {item["namespace"]: item for item in json.loads(done.stdout)["items"]}


def numbers(cells: list[str]) -> tuple[float, ...]:
    """Return the device-hours in the cells of a row."""
    return tuple(float(cell.replace(",", "")) for cell in cells[4:7])


ATTACKS: Final = ('{}"}} or {{claim_namespace=~".*', ".*", "{}|{}", "{}\\", "{}\n", "^{}$")
"""Names of namespaces that would be queries, with the names of other teams."""


async def test_the_idle_team_is_named_and_each_tenant_sees_its_own_history(
    page: PageProcess, prometheus: str, teams: list[Team], admin: Path
) -> None:
    told = await asyncio.to_thread(usage, prometheus, "-A", kubeconfig=admin)
    assert list(told) == [team.tenant.name for team in teams]
    for team in teams:
        item = told[team.tenant.name]
        assert (item["heldHours"], item["usedHours"], item["idleHours"]) == pytest.approx(
            team.hours, rel=0.01, abs=0.05
        ), team
        assert (item["held"], item["used"]) == team.phases[-1][2:]

    for team in teams:
        others = [other.tenant.name for other in teams if other is not team]
        async with signed_in(page, team.tenant.token, namespace=team.tenant.name) as client:
            for by, name in (("namespace", team.tenant.name), ("workload", f"{team.tenant.name}/{team.workload}")):
                (row,) = (await rows(client, by=by)).items()
                assert row[0] == name
                assert numbers(row[1]) == pytest.approx(team.hours, rel=0.01, abs=0.05)
                assert row[1][3] == team.idle_since
            await rows(client, by="class", over="7d")
            assert not [name for name in others if name.encode() in client.answered]
        for attack in ATTACKS:
            wanted = attack.format(*others) if attack.count("{}") <= 1 else attack.format(team.tenant.name, others[0])
            async with signed_in(page, team.tenant.token, namespace=wanted) as client:
                status, body = await client.get("/api/idle")
                assert (status, b"tbody" in body) == (HTTPStatus.BAD_REQUEST, False), wanted
        for other in others:
            async with signed_in(page, team.tenant.token, namespace=other) as client:
                status, body = await client.get("/api/idle", url="http://169.254.169.254/", prometheus=prometheus)
                assert (status, b"tbody" in body) == (HTTPStatus.FORBIDDEN, False)

    name = teams[0].tenant.name
    kubectl("create", "serviceaccount", "stranger", f"--namespace={name}", kubeconfig=admin)
    async with signed_in(page, token_for(admin, "stranger", namespace=name), namespace=name) as client:
        status, body = await client.get("/api/idle")
        assert (status, b"tbody" in body) == (HTTPStatus.FORBIDDEN, False)
