"""Which CPUs a Node keeps, as schedulers get to know it."""

import asyncio
import logging
from pathlib import Path

import pytest
import yaml

from dra.engine.cpus.cpusets import NO_CPUS, parse
from dra.engine.reservations.node_reservation import reserved_cpus
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from kubeletplugin.node_topology import CHECK_INTERVAL, NodeTopologyReporter
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.dra.kube.virtual import LoopClock, seeded
from tests.localplane.components import User, running

VIRTUAL_TIME = True
DEPLOY = Path(__file__).parents[2] / "deploy" / "node-topology"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
MACHINE = uniform_topology(sockets=2, cores=2, threads=2)
"""CPUs 0-3 | 4-7."""
ANNOTATION = "node.koordinator.sh/reservation"


class Driver:
    def __init__(self):
        self.annotations = {}

    def topology_annotations(self):
        return self.annotations


class Place:
    def __init__(self, *drivers):
        clock = LoopClock()
        self.user = User(ApiServer(clock=clock, random=seeded(1)))
        client = Client(LocalTransport(self.user.server), RateLimiter(1e6, 1e6, clock=clock), clock=clock)
        self.topology = NodeTopologyReporter(client, node="n1", drivers=drivers)
        self.uid = ""

    async def define(self):
        body = yaml.safe_load((DEPLOY / "definition.yaml").read_text())
        await self.user.request("POST", DEFINITIONS, body=body, content_type="application/json")

    async def keeps(self, cpus):
        self.topology.report(reserved_cpus(parse(cpus) if cpus else NO_CPUS, MACHINE), uid=self.uid)
        await asyncio.sleep(1.0)

    async def all(self):
        return (await self.user.request("GET", TOPOLOGIES))["items"]


@pytest.fixture
async def place():
    place = Place()
    node = await place.user.create("nodes", {"metadata": {"name": "n1"}})
    place.uid = node["metadata"]["uid"]
    async with running(place.topology):
        yield place


async def test_the_cpus_are_named_in_an_object_that_goes_with_its_node(place):
    await place.define()
    await place.keeps("0-3")
    (made,) = await place.all()
    metadata = made["metadata"]
    assert (metadata["name"], metadata["annotations"]) == ("n1", {ANNOTATION: '{"reservedCPUs":"0-3"}'})
    assert metadata["labels"] == {"app.kubernetes.io/managed-by": "dra-reserve"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n1", place.uid)
    await place.keeps("2")
    assert (await place.all())[0]["metadata"]["annotations"] == {ANNOTATION: '{"reservedCPUs":"2"}'}
    await place.keeps("")
    assert not (await place.all())[0]["metadata"].get("annotations")


async def test_of_an_object_of_somebody_else_only_the_annotation_is_ours(place):
    await place.define()
    metadata = {"name": "n1", "annotations": {"a": "b"}, "labels": {"app.kubernetes.io/managed-by": "Koordinator"}}
    zones = [{"name": "node-0", "type": "Node"}]
    body = {"kind": "NodeResourceTopology", "apiVersion": "topology.node.k8s.io/v1alpha1", "metadata": metadata}
    body |= {"topologyPolicies": ["SingleNUMANodePodLevel"], "zones": zones}
    await place.user.request("POST", TOPOLOGIES, body=body, content_type="application/json")
    await place.keeps("0-3")
    (found,) = await place.all()
    assert found["metadata"]["annotations"] == {"a": "b", ANNOTATION: '{"reservedCPUs":"0-3"}'}
    assert found["metadata"]["labels"] == metadata["labels"]
    assert (found["topologyPolicies"], found["zones"]) == (["SingleNUMANodePodLevel"], zones)


async def test_each_numa_node_has_less_by_what_is_kept_of_it(place):
    def cpus(found):
        return {zone["name"]: zone["resources"] for zone in found["zones"]}

    def zone(capacity, allocatable):
        return [{"name": "cpu", "capacity": capacity, "allocatable": allocatable, "available": allocatable}]

    await place.define()
    for kept_, first, second in (("0-2,4", "1", "3"), ("0", "3", "4"), ("", "4", "4")):
        await place.keeps(kept_)
        (found,) = await place.all()
        assert cpus(found) == {"node-0": zone("4", first), "node-1": zone("4", second)}


async def test_a_node_that_keeps_nothing_has_no_object_made(place):
    await place.define()
    await place.keeps("")
    assert await place.all() == []


async def test_where_the_kind_is_not_served_it_says_how_to_have_it_and_goes_on(place, caplog):
    caplog.set_level(logging.INFO)
    await place.keeps("0-3")
    assert "CRD and rights: component node-topology" in caplog.text
    await place.define()
    await place.keeps("0-2")
    assert len(await place.all()) == 1


def test_the_plugin_is_allowed_what_it_does_and_no_more():
    role, binding = yaml.safe_load_all((DEPLOY / "rights.yaml").read_text())
    (rule,) = role["rules"]
    assert (rule["resources"], sorted(rule["verbs"])) == (["noderesourcetopologies"], ["create", "patch"])
    (plugin,) = yaml.safe_load_all((DEPLOY.parent / "kubelet-plugin" / "service-account.yaml").read_text())
    (subject,) = binding["subjects"]
    assert (subject["name"], binding["roleRef"]["name"]) == (plugin["metadata"]["name"], role["metadata"]["name"])


async def test_drivers_describe_the_cpus_and_each_change_is_written():
    driver = Driver()
    place = Place(driver)
    await place.define()
    place.uid = (await place.user.create("nodes", {"metadata": {"name": "n1"}}))["metadata"]["uid"]
    async with running(place.topology):
        await place.keeps("")
        assert await place.all() == []
        for pools in ("first", "second"):
            driver.annotations = {"pools": pools}
            await asyncio.sleep(CHECK_INTERVAL + 1.0)
            (found,) = await place.all()
            assert found["metadata"]["annotations"] == {"pools": pools}
        await place.keeps("0-3")
        (found,) = await place.all()
        assert found["metadata"]["annotations"] == {"pools": "second", ANNOTATION: '{"reservedCPUs":"0-3"}'}


async def test_descriptions_of_koordinators_agent_are_left_to_it():
    place = Place(driver := Driver())
    await place.define()
    place.uid = (await place.user.create("nodes", {"metadata": {"name": "n1"}}))["metadata"]["uid"]
    metadata = {"name": "n1", "annotations": {"pools": "theirs"}}
    body = {"kind": "NodeResourceTopology", "apiVersion": "topology.node.k8s.io/v1alpha1", "metadata": metadata}
    body |= {"topologyPolicies": ["None"], "zones": []}
    await place.user.request("POST", TOPOLOGIES, body=body, content_type="application/json")
    driver.annotations = {"pools": "ours"}
    async with running(place.topology):
        await place.keeps("0-3")
    (found,) = await place.all()
    assert found["metadata"]["annotations"] == {"pools": "theirs", ANNOTATION: '{"reservedCPUs":"0-3"}'}
