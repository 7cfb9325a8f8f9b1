"""The loops of colocation on a server: NodeMetrics, batch resources, Events, and what is written."""

import asyncio
import contextlib
import dataclasses
import json
from datetime import timedelta

import pytest

from controller.colocation.loops import colocation_loops
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from dra.api.colocation import node_metric_crd
from dra.kube.transport import MERGE_PATCH
from dra.model import quantities
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User

CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
NAMESPACE, NAME = "koordinator-system", "slo-controller-config"
CONFIG = {"enable": True, "cpuReclaimThresholdPercent": 65, "memoryReclaimThresholdPercent": 65}
ALL = (25000, 33 * 10**9)
SOON = 2.0


class Place:
    """An API server with a node and the ConfigMap, and the loops before it."""

    def __init__(self, runtime_of, clock):
        self.clock = clock
        self.user = User(ApiServer(clock=clock, random=seeded(1)))
        self.writes = []
        self.transport = LocalTransport(self.user.server)
        self.runtime = runtime_of(self)
        self.restart()

    def restart(self):
        self.writes.clear()
        self.runtime = dataclasses.replace(self.runtime, metrics=ControllerMetrics())
        self.informers = ControllerInformers(self.runtime.client, clock=self.clock)
        self.loops = colocation_loops(self.runtime, self.informers)

    async def send(self, request):
        if request.method in {"PATCH", "POST"} and "/events" not in request.path:
            self.writes.append((request.method, request.path))
        return await self.transport.send(request)

    def stream(self, request):
        return self.transport.stream(request)

    async def set_up(self, config=CONFIG):
        await self.user.create("customresourcedefinitions", node_metric_crd.custom_resource_definition())
        await self.user.create("namespaces", {"metadata": {"name": NAMESPACE}})
        await self.user.create(
            "configmaps",
            {"metadata": {"name": NAME}, "data": {"colocation-config": json.dumps(config)}},
            namespace=NAMESPACE,
        )
        await self.node()

    async def node(self):
        amounts = {"cpu": "100", "memory": "120G"}
        await self.user.create("nodes", {"metadata": {"name": "n1"}})
        await self.user.patch(
            "nodes", "n1", {"status": {"capacity": amounts, "allocatable": amounts}}, subresource="status"
        )

    async def configure(self, text):
        await self.user.patch("configmaps", NAME, {"data": {"colocation-config": text}}, namespace=NAMESPACE)

    async def report(self, cpu="7", memory="12G"):
        status = {
            "updateTime": (self.clock.wall() - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "nodeMetric": {"systemUsage": {"resources": {"cpu": cpu, "memory": memory}}},
            "podsMetric": [
                {"namespace": "default", "name": "gone", "podUsage": {"resources": {"cpu": "33", "memory": "33G"}}}
            ],
        }
        await self.user.patch("nodemetrics", "n1", {"status": status}, subresource="status")

    async def batch_pod(self, cpu):
        amounts = {CPU: str(cpu), MEMORY: "0"}
        container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
        labels = {"koordinator.sh/qosClass": "BE"}
        await self.user.create(
            "pods",
            {"metadata": {"name": "b", "labels": labels}, "spec": {"nodeName": "n1", "containers": [container]}},
            namespace="default",
        )
        await self.user.patch(
            "pods",
            "b",
            {"status": {"phase": "Running", "startTime": "2026-11-28T07:00:00Z"}},
            namespace="default",
            subresource="status",
        )

    async def offered(self):
        await asyncio.sleep(SOON)
        status = (await self.user.get("nodes", "n1"))["status"]
        found = [(status[part].get(CPU), status[part].get(MEMORY)) for part in ("capacity", "allocatable")]
        assert found[0] == found[1]
        return tuple(None if text is None else int(quantities.parse(text)) for text in found[0])

    async def events(self):
        await asyncio.sleep(SOON)
        found = [each for name in ("default", NAMESPACE) for each in await self.user.list("events", namespace=name)]
        return sorted((each["regarding"]["kind"], each["reason"]) for each in found)


@pytest.fixture
async def place(runtime_of, clock):
    made = Place(runtime_of, clock)
    await made.set_up()
    return made


@contextlib.asynccontextmanager
async def running(place):
    parts = (place.informers.run, place.runtime.recorder.run, *(loop.run for loop in place.loops))
    tasks = [asyncio.create_task(part()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_each_node_has_a_node_metric_that_it_owns_and_that_says_how_to_report(place):
    async with running(place):
        await asyncio.sleep(SOON)
        found = await place.user.get("nodemetrics", "n1")
        node = await place.user.get("nodes", "n1")
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n1", node["metadata"]["uid"])
        assert found["spec"]["metricCollectPolicy"] == {
            "aggregateDurationSeconds": 300,
            "reportIntervalSeconds": 60,
            "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
        }
        await place.configure(json.dumps(CONFIG | {"metricReportIntervalSeconds": 20}))
        await asyncio.sleep(SOON)
        found = await place.user.get("nodemetrics", "n1")
        assert found["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 20
        assert found["metadata"]["ownerReferences"] == [owner]
        assert await place.offered() == (None, None)


async def test_batch_resources_follow_the_report_in_one_write_each(place):
    async with running(place):
        await asyncio.sleep(SOON)
        place.writes.clear()
        await place.report()
        assert await place.offered() == ALL
        await place.report(cpu="8")
        assert await place.offered() == ALL  # 4 percent less
        await place.report(cpu="17")
        assert await place.offered() == (15000, 33 * 10**9)
        assert place.writes == [("PATCH", "/api/v1/nodes/n1/status")] * 2


async def test_nothing_is_offered_below_what_is_held_when_reports_stop_or_the_feature_is_off(place):
    async with running(place):
        await asyncio.sleep(SOON)
        await place.report()
        await place.batch_pod(1700)
        assert await place.offered() == ALL
        await asyncio.sleep(901)
        assert await place.offered() == (1700, 0)
        assert ("Node", "BatchResourcesDegraded") in await place.events()
        await place.report()
        assert await place.offered() == ALL
        await place.configure(json.dumps({"enable": False}))
        assert await place.offered() == (1700, 0)
        await place.user.delete("configmaps", NAME, namespace=NAMESPACE)
        assert await place.offered() == (1700, 0)


async def test_what_a_kubelet_zeroes_is_written_at_once(place):
    async with running(place):
        await asyncio.sleep(SOON)
        await place.report()
        await place.offered()
        zero = {CPU: "0", MEMORY: "0"}
        await place.user.request(
            "PATCH",
            "/api/v1/nodes/n1/status",
            body={"status": {"capacity": zero, "allocatable": zero}},
            content_type=MERGE_PATCH,
        )
        assert await place.offered() == ALL


async def test_an_error_of_the_config_map_is_told_there_and_the_last_good_content_stays(place):
    async with running(place):
        await asyncio.sleep(SOON)
        await place.report()
        await place.offered()
        await place.configure("{")
        assert await place.offered() == ALL
        assert await place.events() == [("ConfigMap", "ColocationConfigInvalid")]
        text = place.runtime.metrics.render().decode()
        assert 'dra_reserve_slo_config_errors{key="colocation-config"} 1.0' in text
        assert "dra_reserve_batch_cpu_cores 25.0" in text
        await place.configure(json.dumps(CONFIG))
        await asyncio.sleep(SOON)
        text = place.runtime.metrics.render().decode()
        assert 'dra_reserve_slo_config_errors{key="colocation-config"} 0.0' in text


async def test_node_configs_that_overlap_on_many_nodes_are_told_once(place, caplog):
    for number in range(2, 7):
        await place.user.create("nodes", {"metadata": {"name": f"n{number}"}})
    both = [
        {"name": name, "nodeSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}
        for name in ("one", "two")
    ]
    await place.configure(json.dumps(CONFIG | {"nodeConfigs": both}))
    async with running(place):
        assert await place.events() == [("ConfigMap", "NodeConfigsOverlap")]
    assert [record.message for record in caplog.records if "match the same nodes" in record.message][1:] == []


async def test_a_restarted_controller_writes_nothing_that_is_right(place):
    async with running(place):
        await asyncio.sleep(SOON)
        await place.report()
        await place.offered()
    place.restart()
    async with running(place):
        await asyncio.sleep(SOON)
        assert place.writes == []
