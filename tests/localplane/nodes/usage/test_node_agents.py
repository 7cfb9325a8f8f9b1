"""The agents of emulated nodes report what pods and systems use, in virtual time."""

import asyncio
import json

import pytest

from dra.api.colocation.node_metric_crd import custom_resource_definition
from localplane.nodes.kubelets import SILENT, Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.nodes.usage.demand import USAGE
from localplane.nodes.usage.node_agents import NodeAgents
from tests.localplane.components import Plane, pod, running

VIRTUAL_TIME = True

NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
POLICY = {"aggregateDurationSeconds": 10, "reportIntervalSeconds": 2}
GI = 2**30


class Site:
    """A plane of two nodes with kubelets and agents."""

    def __init__(self, plane):
        self.plane = plane
        self.user = plane.user

    async def collect(self, name="n1"):
        """Create the NodeMetric of a node, as the controller does."""
        body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": name}}
        body["spec"] = {"metricCollectPolicy": POLICY}
        await self.user.request("POST", NODE_METRICS, body=body, content_type="application/json")

    async def status(self, name="n1"):
        return (await self.user.request("GET", f"{NODE_METRICS}/{name}")).get("status")

    async def run(self, name, *, usage=None, requests=None, labels=None):
        body = pod(name, node="n1")
        body["metadata"] |= {"labels": labels or {}, "annotations": {USAGE: usage} if usage else {}}
        body["spec"]["containers"][0] |= {"command": ["sleep", "infinity"], "resources": {"requests": requests or {}}}
        return await self.user.create("pods", body)


@pytest.fixture
async def site():
    plane = Plane()
    specs = [EmulatedNode(name=name) for name in ("n1", "n2")]
    kubelets = Kubelets(plane.client(), nodes=specs, clock=plane.clock, random=plane.random)
    agents = NodeAgents(plane.client(), nodes=["n1", "n2"], clock=plane.clock)
    await plane.user.request(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        body=custom_resource_definition(),
        content_type="application/json",
    )
    async with running(kubelets), running(agents):
        await asyncio.sleep(1)
        yield Site(plane)


async def test_a_node_reports_its_use_that_of_its_system_and_of_each_pod(site):
    await site.collect()
    await site.run("web", usage="cpu=5,memory=20Gi", labels={"koordinator.sh/qosClass": "LS"})
    await site.run("worker", requests={"kubernetes.io/batch-cpu": "3k"}, labels={"koordinator.sh/qosClass": "BE"})
    await asyncio.sleep(30)
    status = await site.status()
    used = {name: status["nodeMetric"][name]["resources"] for name in ("nodeUsage", "systemUsage")}
    assert used == {
        "nodeUsage": {"cpu": "7500m", "memory": str(22 * GI)},
        "systemUsage": {"cpu": "1000m", "memory": str(2 * GI)},
    }
    pods = {
        each["name"]: (each["qos"], each["priority"], each["podUsage"]["resources"]["cpu"])
        for each in status["podsMetric"]
    }
    assert pods == {"web": ("LS", "koord-prod", "5000m"), "worker": ("BE", "koord-batch", "1500m")}


async def test_a_node_whose_nodemetric_does_not_exist_reports_nothing(site):
    await site.collect("n1")
    await asyncio.sleep(30)
    assert await site.status("n1")
    listed = await site.user.request("GET", NODE_METRICS)
    assert [each["metadata"]["name"] for each in listed["items"]] == ["n1"]


async def test_a_silent_node_stops_to_report(site):
    await site.collect()
    await asyncio.sleep(30)
    await site.user.patch("nodes", "n1", {"metadata": {"annotations": {SILENT: "true"}}})
    await asyncio.sleep(2)
    before = await site.status()
    await asyncio.sleep(60)
    assert await site.status() == before
    await site.user.patch("nodes", "n1", {"metadata": {"annotations": {SILENT: None}}})
    await asyncio.sleep(60)
    assert await site.status() != before


async def test_the_first_report_waits_until_half_of_the_window_is_sampled(site):
    await site.collect()
    await asyncio.sleep(4)
    assert await site.status() is None
    await asyncio.sleep(6)
    assert await site.status()


async def test_an_annotation_that_cannot_be_read_is_told_and_the_default_counts(site):
    await site.collect()
    await site.run("web", usage="cpu=much", requests={"cpu": "2"})
    await asyncio.sleep(30)
    (pod_metric,) = (await site.status())["podsMetric"]
    assert pod_metric["podUsage"]["resources"]["cpu"] == "1000m"
    (event,) = await site.user.list("events")
    assert event["reason"] == "InvalidUsage"
    assert event["note"].startswith(f"{USAGE}: cpu: 'much' is not a quantity")


async def test_batch_pods_use_less_while_the_configmap_asks_for_it(site):
    threshold = {"clusterStrategy": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}}
    config = {
        "metadata": {"name": "slo-controller-config"},
        "data": {"resource-threshold-config": json.dumps(threshold)},
    }
    await site.user.create("namespaces", {"metadata": {"name": "koordinator-system"}})
    await site.user.create("configmaps", config, namespace="koordinator-system")
    await site.collect()
    await site.run("web", usage="cpu=36,memory=1Gi", requests={"cpu": "1"})
    await site.run("worker", usage="cpu=20,memory=1Gi", labels={"koordinator.sh/qosClass": "BE"})

    async def used():
        await asyncio.sleep(20)
        return {each["name"]: each["podUsage"]["resources"]["cpu"] for each in (await site.status())["podsMetric"]}

    assert await used() == {"web": "36000m", "worker": "4600m"}
    await site.user.delete("configmaps", "slo-controller-config", namespace="koordinator-system")
    assert await used() == {"web": "36000m", "worker": "20000m"}
