"""The agents of emulated nodes report what pods and systems use, in virtual time."""

import asyncio

import pytest

from localplane.nodes.kubelets import SILENT, Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.nodes.usage.demand import USAGE
from localplane.nodes.usage.node_agents import NodeAgents
from tests.localplane.components import Plane, pod, running

VIRTUAL_TIME = True

NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
POLICY = {"aggregateDurationSeconds": 10, "reportIntervalSeconds": 2}
GI = 2**30


def definition():
    names = {"kind": "NodeMetric", "listKind": "NodeMetricList", "plural": "nodemetrics", "singular": "nodemetric"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodemetrics.slo.koordinator.sh"},
        "spec": {
            "group": "slo.koordinator.sh",
            "scope": "Cluster",
            "names": names,
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


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
        body=definition(),
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
