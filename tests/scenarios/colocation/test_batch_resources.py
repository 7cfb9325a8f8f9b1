"""Five hundred nodes whose NodeMetrics a test writes, on a real API server: what is offered, and how often.

The controller has the rights of deploy/colocation, and the policies there and of its base hold.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from dra.kube.clock import SYSTEM
from dra.model import quantities
from tests.cluster import fake_nodes
from tests.cluster.kubectl import kubectl
from tests.scenarios import api as kubernetes
from tests.scenarios import installation
from tests.scenarios.api import AT_ONCE, Api, ApiError, Json
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import NODES, Resource
from tests.scenarios.target import Capability, Mode, Target

if TYPE_CHECKING:
    from tests.scenarios.namespaces import Namespace

pytestmark = [pytest.mark.modes(Mode.ALONGSIDE), pytest.mark.needs(Capability.RIGHTS), pytest.mark.long]

NODE_METRICS: Final = Resource("slo.koordinator.sh/v1alpha1", "NodeMetric", "nodemetrics", namespaced=False)
CONFIG_MAPS: Final = Resource("v1", "ConfigMap", "configmaps")
NAMESPACE, NAME = "koordinator-system", "slo-controller-config"
BATCH: Final = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")

NUMBER: Final = 500
CPU_MILLI: Final = 64_000
MEMORY: Final = 256 << 30
"""What kwok's nodes have."""

WITHIN: Final = 120.0
CONFIG: Final = {"enable": True, "cpuReclaimThresholdPercent": 65, "memoryReclaimThresholdPercent": 70}

Wanted = tuple[int, int]


class Cluster:
    """The nodes of the test, and what they report."""

    def __init__(self, api: Api, controller: Controller) -> None:
        self.api: Final = api
        self.controller: Final = controller
        self.names: Final = [f"colocated-{number:03}" for number in range(NUMBER)]

    async def each(self, act: Callable[[int, str], Any], names: list[str] | None = None) -> None:
        """Do something for each node, a few at a time."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(number: int, name: str) -> None:
            async with turn:
                await act(number, name)

        chosen = self.names if names is None else names
        await asyncio.gather(*(one(self.names.index(name), name) for name in chosen))

    async def all_have_capacity(self) -> bool:
        """Tell whether kwok has registered all nodes."""
        nodes = await self.api.all(NODES, labelSelector=fake_nodes.FAKE)
        return {each["metadata"]["name"] for each in nodes if "capacity" in each["status"]} >= {*self.names}

    async def report(self, system_milli: Callable[[int], int], *, age: float = 0.0) -> None:
        """Write what all nodes use: the system as given, and one pod of 4 CPUs and 8 GiB."""
        at = (SYSTEM.wall() - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")

        async def write(number: int, name: str) -> None:
            usage = {"resources": {"cpu": f"{system_milli(number)}m", "memory": "1Gi"}}
            pod = {"namespace": "default", "name": "gone", "podUsage": {"resources": {"cpu": "4", "memory": "8Gi"}}}
            status = {"updateTime": at, "nodeMetric": {"systemUsage": usage}, "podsMetric": [pod]}
            await self.api.patch(NODE_METRICS, name, {"status": status}, subresource="status")

        await self.each(write)

    async def offered(self) -> Mapping[str, Wanted | None]:
        """Return what each node offers; capacity and allocatable are always equal."""
        offered: dict[str, Wanted | None] = {}
        for node in await self.api.all(NODES, labelSelector=fake_nodes.FAKE):
            capacity, allocatable = (
                [node["status"][part].get(each) for each in BATCH] for part in ("capacity", "allocatable")
            )
            assert capacity == allocatable
            name = node["metadata"]["name"]
            offered[name] = None if None in capacity else tuple(int(quantities.parse(each)) for each in capacity)  # type: ignore[assignment]
        return {name: offered.get(name) for name in self.names}

    async def offers(self, wanted: Callable[[int], Wanted | None]) -> float:
        """Wait until each node offers what is wanted; return the seconds that it took."""
        began = time.monotonic()
        expected = {name: wanted(number) for number, name in enumerate(self.names)}

        async def wrong() -> list[Any]:
            offered = await self.offered()
            return [(name, offered[name], expected[name]) for name in self.names if offered[name] != expected[name]][:3]

        await eventually(
            wrong, until=lambda found: found == [], within=WITHIN, saying="all nodes offer what they should"
        )
        return time.monotonic() - began

    async def writes(self) -> int:
        """Return the number of writes so far."""
        return int((await self.controller.metrics())["dra_reserve_batch_writes_total"])

    async def configure(self, content: Mapping[str, Any]) -> None:
        """Write the key of the ConfigMap."""
        await self.api.patch(
            CONFIG_MAPS, NAME, {"data": {"colocation-config": json.dumps(content)}}, namespace=NAMESPACE
        )


def formula(system_milli: int) -> Wanted:
    """Return what is left by the formula: no pod holds anything."""
    cpu = CPU_MILLI - CPU_MILLI * 35 // 100 - system_milli - 4_000
    memory = MEMORY - MEMORY * 30 // 100 - (1 << 30) - (8 << 30)
    return max(0, cpu), memory


@pytest.fixture
async def cluster(
    target: Target, api: Api, namespace: Namespace, start_controller: StartController
) -> AsyncIterator[Cluster]:
    del namespace
    objects = installation.rendered(installation.DEPLOY / "colocation", admin=target.admin)
    kept = [each for each in objects if _is_of_the_controller(each)]
    _apply(target, [each for each in kept if each["kind"] in {"CustomResourceDefinition", "Namespace"}])
    kubectl("wait", "--for=condition=Established", "crd/nodemetrics.slo.koordinator.sh", kubeconfig=target.admin)
    _apply(target, kept)
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE}}
    await api.request(
        "POST", CONFIG_MAPS.path(namespace=NAMESPACE), config_map | {"data": {"colocation-config": json.dumps(CONFIG)}}
    )
    made = Cluster(api, await start_controller(configuration=ALONE | {"colocation": True}))
    await made.each(lambda _, name: api.request("POST", NODES.path(), fake_nodes.node(name)))
    await eventually(made.all_have_capacity, within=WITHIN, saying="kwok has registered all nodes")
    try:
        yield made
    finally:
        await made.each(lambda _, name: api.delete(NODES, name))
        await api.delete(CONFIG_MAPS, NAME, namespace=NAMESPACE)


def _is_of_the_controller(obj: Json) -> bool:
    name, kind = obj["metadata"]["name"], obj["kind"]
    of_ours = name in {"dra-reserve-colocation", "controller-node-metrics.reserve.dra", NAMESPACE}
    return of_ours or (kind == "CustomResourceDefinition" and name.startswith("nodemetrics."))


def _apply(target: Target, objects: list[Json]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=json.dumps(listed))


async def test_five_hundred_nodes_offer_what_the_formula_leaves(
    cluster: Cluster, target: Target, remark: Callable[[str], None]
) -> None:
    api = cluster.api

    async def without() -> list[str]:
        found = {each["metadata"]["name"]: each for each in await api.all(NODE_METRICS)}
        return [name for name in cluster.names if name not in found][:3]

    await eventually(without, until=lambda names: names == [], within=WITHIN, saying="each node has a NodeMetric")
    metric, node = await api.get(NODE_METRICS, "colocated-007"), await api.get(NODES, "colocated-007")
    assert [each["uid"] for each in metric["metadata"]["ownerReferences"]] == [node["metadata"]["uid"]]
    assert metric["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 60
    assert await cluster.writes() == 0

    await cluster.report(lambda number: 100 * number)
    seconds = await cluster.offers(lambda number: formula(100 * number))
    first = await cluster.writes()
    assert first == NUMBER, "one write for each node"

    # A minute later: half of the nodes use a little more, the others much more.
    before = [formula(100 * number)[0] for number in range(NUMBER)]

    def later(number: int) -> int:
        return 100 * number + (before[number] // 20 if number % 2 else before[number] // 5)

    changed = [number for number in range(NUMBER) if number % 2 == 0 and before[number]]
    await cluster.report(later)
    await cluster.offers(lambda number: formula(later(number)) if number in changed else formula(100 * number))
    second = await cluster.writes() - first
    assert second == len(changed), "a change of 5 percent waits, one of 20 percent does not"
    remark(f"colocation: {NUMBER} nodes: {first} writes for the first report, {second} for the second; {seconds:.1f} s")

    # The reports of all nodes are older than 15 minutes.
    await cluster.report(later, age=901.0)
    await cluster.offers(lambda _: (0, 0))
    await cluster.report(lambda number: 100 * number)
    await cluster.offers(lambda number: formula(100 * number))

    # What fits the old content of the ConfigMap stays in effect while the new one has an error.
    await cluster.configure(CONFIG | {"cpuReclaimThresholdPercent": -1})
    await eventually(cluster.controller.metrics, until=_has_an_error, saying="the error is counted")
    assert (await cluster.offered())["colocated-001"] == formula(100)
    await cluster.configure({"enable": False})
    await cluster.offers(lambda _: None)

    await _nothing_else_can_be_written(target)
    await api.delete(NODES, "colocated-007")
    await eventually(
        lambda: api.find(NODE_METRICS, "colocated-007"),
        until=lambda found: found is None,
        within=WITHIN,
        saying="the NodeMetric of a Node that is gone goes",
    )


def _has_an_error(found: Mapping[str, float]) -> bool:
    return found['dra_reserve_slo_config_errors{key="colocation-config"}'] == 1


async def _nothing_else_can_be_written(target: Target) -> None:
    """Try with the controller's own token what a thief would try."""
    huge = {"capacity": {"cpu": "640"}, "allocatable": {"cpu": "640"}}
    half = {"capacity": {BATCH[0]: "640"}}
    attempts = [
        (NODES, {"status": huge}, "status", "batch-cpu and batch-memory, and nothing else"),
        (NODES, {"status": half}, "status", "equal in capacity and allocatable"),
        (NODES, {"metadata": {"labels": {"a": "b"}}}, "status", "and nothing else"),
        (NODE_METRICS, {"metadata": {"labels": {"a": "b"}}}, None, "it writes the owner"),
        (NODE_METRICS, {"status": {"updateTime": "2026-01-01T00:00:00Z"}}, "status", "forbidden"),
    ]
    async with kubernetes.connect(target.controller) as thief:
        for resource, patch, subresource, text in attempts:
            with pytest.raises(ApiError, match=text):
                await thief.patch(resource, "colocated-001", patch, subresource=subresource)
