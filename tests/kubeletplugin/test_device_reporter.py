"""How the Device of a node is kept, and the labels of the Node."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest
import yaml

from dra.cli.crd_manifests import CRDS_FOLDER
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import MERGE_PATCH
from kubeletplugin.change_broadcaster import ChangeBroadcaster
from kubeletplugin.device_reporter import CHECK_INTERVAL, REPEAT_INTERVAL, DeviceReporter
from kubeletplugin.drivers.gpu.device_report import device_report
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, seeded
from tests.kubeletplugin.drivers.gpu.test_device_report import H100, claim
from tests.localplane.components import User, running

VIRTUAL_TIME = True
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
MODEL, VERSION, VENDOR = (f"node.koordinator.sh/gpu-{each}" for each in ("model", "driver-version", "vendor"))
LABELS = {MODEL: "NVIDIA-H100-80GB-HBM3", VERSION: "535.129.03", VENDOR: "nvidia"}
OURS = {"app.kubernetes.io/managed-by": "dra-reserve"}


class Node:
    """A Node with a driver, its preparer, and an API server."""

    def __init__(self):
        clock = LoopClock()
        self.user = User(ApiServer(clock=clock, random=seeded(1)))
        self.gpus = [H100]
        self.knows = True
        self.preparer = SimpleNamespace(prepared_claims=())
        self.broadcaster = ChangeBroadcaster(self)
        self.transport = LocalTransport(self.user.server)
        client = Client(self.transport, RateLimiter(1e6, 1e6, clock=clock), clock=clock)
        self.reporter = DeviceReporter(client, self, node="n1", preparer=self.preparer, changes=self.broadcaster)

    def device_report(self, prepared):
        return device_report(self.gpus, prepared) if self.knows else None

    async def define(self):
        body = yaml.safe_load((CRDS_FOLDER / "devices.scheduling.koordinator.sh.yaml").read_text())
        await self.user.request("POST", DEFINITIONS, body=body, content_type="application/json")

    async def device(self):
        return await self.user.request("GET", f"{DEVICES}/n1")

    async def devices(self):
        return (await self.user.request("GET", DEVICES))["items"]

    async def labels(self):
        return (await self.user.request("GET", "/api/v1/nodes/n1"))["metadata"].get("labels", {})

    async def notify(self):
        self.broadcaster.notify()
        await asyncio.sleep(0.5)


@pytest.fixture
async def node():
    node = Node()
    node.made = await node.user.create("nodes", {"metadata": {"name": "n1", "labels": {"a": "b"}}})
    return node


@pytest.fixture
async def reporting(node):
    await node.define()
    async with running(node.reporter):
        await asyncio.sleep(0.5)
        yield node


async def test_the_device_and_the_node_of_a_name_are_written(reporting):
    found = await reporting.device()
    assert found["metadata"]["labels"] == {**OURS, **LABELS}
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n1", reporting.made["metadata"]["uid"])
    assert [each["id"] for each in found["spec"]["devices"]] == ["GPU-4a1d"]
    assert found["status"] == {"allocations": []}
    assert await reporting.labels() == {"a": "b", **LABELS}


async def test_a_prepared_claim_is_reported_and_so_is_its_end(reporting):
    reporting.preparer.prepared_claims = (claim("train", "gpu-3"),)
    await asyncio.sleep(CHECK_INTERVAL + 1)
    ((allocation,), version) = await allocations(reporting)
    assert allocation["entries"] == [{"namespace": "ml", "name": "train", "uuid": "uid-train", "minors": [3]}]
    await asyncio.sleep(3 * CHECK_INTERVAL)
    assert (await allocations(reporting))[1] == version
    reporting.preparer.prepared_claims = ()
    await asyncio.sleep(CHECK_INTERVAL + 1)
    assert (await allocations(reporting))[0] == []


async def allocations(node):
    found = await node.device()
    return found["status"]["allocations"], found["metadata"]["resourceVersion"]


async def test_a_change_of_the_gpus_is_reported_at_once(reporting):
    reporting.gpus = []
    await reporting.notify()
    found = await reporting.device()
    assert found["spec"]["devices"] == []
    assert found["metadata"]["labels"] == OURS
    assert await reporting.labels() == {"a": "b"}


async def test_gpus_that_are_unknown_change_nothing(reporting):
    before = await reporting.device()
    reporting.knows = False
    await reporting.notify()
    assert await reporting.device() == before


async def test_a_deleted_device_is_written_again(reporting):
    await reporting.user.request("DELETE", f"{DEVICES}/n1")
    await asyncio.sleep(REPEAT_INTERVAL + 2 * CHECK_INTERVAL)
    assert (await reporting.device())["metadata"]["labels"] == {**OURS, **LABELS}


async def test_a_node_without_gpus_gets_no_device(node):
    await node.define()
    node.gpus = []
    async with running(node.reporter):
        await asyncio.sleep(0.5)
        assert await node.devices() == []


async def test_the_device_of_another_component_stays_as_it_is(node):
    await node.define()
    body = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": "n1"}}
    made = await node.user.request("POST", DEVICES, body=body, content_type="application/json")
    async with running(node.reporter):
        await asyncio.sleep(0.5)
        assert await node.device() == made
        assert await node.labels() == {"a": "b"}


async def test_where_the_kind_is_not_served_the_log_names_the_manifests_until_it_is(node, caplog):
    async with running(node.reporter):
        await asyncio.sleep(0.5)
        assert "CRD and rights: component koordinator-devices" in caplog.text
        await node.define()
        await asyncio.sleep(60)
        assert [each["metadata"]["name"] for each in await node.devices()] == ["n1"]


async def test_a_device_that_another_component_takes_over_before_the_write_stays_as_it_is(reporting):
    """It was made by this plugin when it was read."""
    send = reporting.transport.send

    async def taken_over(request):
        if request.method == "PATCH" and request.path.endswith("/devices/n1"):
            reporting.transport.send = send
            body = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "another"}}, "spec": {"devices": []}}
            await reporting.user.request("PATCH", f"{DEVICES}/n1", body=body, content_type=MERGE_PATCH)
        return await send(request)

    reporting.transport.send = taken_over
    reporting.gpus = [H100, msgspec.structs.replace(H100, minor=4, uuid="GPU-other")]
    await reporting.notify()
    await asyncio.sleep(REPEAT_INTERVAL)
    found = await reporting.device()
    assert (found["metadata"]["labels"]["app.kubernetes.io/managed-by"], found["spec"]["devices"]) == ("another", [])
