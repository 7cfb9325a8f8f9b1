import asyncio
import contextlib
import json

import pytest

from dra.kube.transport import Response
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.change_broadcaster import ChangeBroadcaster
from kubeletplugin.slices.publisher import FOREIGN_CHANGE_DELAY, ResourceSlicePublisher
from tests.dra.kube.virtual import seeded
from tests.kubeletplugin.driver import SmallDriver, device
from tests.localplane.components import Plane, running

VIRTUAL_TIME = True

TAINT = DeviceTaint(key="example.com/sick", effect="NoSchedule")


class Refusing:
    """Stands before a server: answers some requests itself, and may change what it is asked."""

    def __init__(self, server):
        self.server = server
        self.answer = {}
        """Method → Response, instead of the server's."""
        self.drops = ()
        """Fields of devices that are let fall, as by a server whose features are off."""
        self.lag = 0.0
        """Seconds by which the answer to a write comes after its event."""
        self.seen = []

    async def handle(self, request):
        if "resourceslices" in request.path:
            self.seen.append((request.method, dict(request.query)))
            if request.method in self.answer:
                return self.answer[request.method]
        if request.body and self.drops:
            body = json.loads(request.body)
            for each in body.get("spec", {}).get("devices", ()):
                for field in self.drops:
                    each.pop(field, None)
            request = type(request)(
                **{**{n: getattr(request, n) for n in request.__slots__}, "body": json.dumps(body).encode()}
            )
        answer = await self.server.handle(request)
        if request.method != "GET":
            await asyncio.sleep(self.lag)
        return answer

    def count(self, *methods):
        return sum(1 for method, _ in self.seen if method in methods)


class Scene:
    def __init__(self, *devices):
        self.plane = Plane()
        self.user = self.plane.user
        self.front = self.plane.server = Refusing(self.plane.server)
        self.driver = SmallDriver(*devices)
        self.changes = ChangeBroadcaster(self.driver)
        self.publisher = self.another()

    def another(self, *, node="n1"):
        return ResourceSlicePublisher(
            self.plane.client(), self.driver, node=node, changes=self.changes, clock=self.plane.clock, random=seeded(1)
        )

    async def node(self, name="n1"):
        return await self.user.create("nodes", {"metadata": {"name": name}})

    async def slices(self):
        return await self.user.list("resourceslices")

    async def until(self, condition, *, within=60.0):
        async with asyncio.timeout(within):
            while not (found := condition(await self.slices())):  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.05)
        return found

    async def wipe(self):
        for each in await self.slices():
            await self.user.delete("resourceslices", each["metadata"]["name"])


@contextlib.asynccontextmanager
async def publishing(scene, *others):
    async with running(scene.changes, scene.publisher, *others):
        yield scene


@pytest.fixture
async def scene():
    found = Scene()
    await found.node()
    return found


async def test_slices_are_published_with_their_node_as_owner(scene):
    async with publishing(scene):
        (found,) = await scene.until(lambda slices: slices)
        node = await scene.user.get("nodes", "n1")
    assert found["metadata"]["generateName"] == "000-gpu.example.com-n1-"
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
        "Node",
        "n1",
        node["metadata"]["uid"],
        True,
    )
    assert found["spec"]["pool"] == {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    assert [d["name"] for d in found["spec"]["devices"]] == ["gpu-0", "gpu-1"]


async def test_only_own_slices_are_looked_at(scene):
    async with publishing(scene):
        await scene.until(lambda slices: slices)
    queries = [query["fieldSelector"] for method, query in scene.front.seen if method == "GET"]
    assert set(queries) == {"spec.nodeName=n1,spec.driver=gpu.example.com"}


async def test_a_change_of_the_driver_is_published_at_once(scene):
    async with publishing(scene):
        await scene.until(lambda slices: slices)
        scene.driver.devices = (Device(name="gpu-0", taints=[TAINT]), device("gpu-1"))
        scene.driver.tell()
        await scene.until(lambda slices: "taints" in slices[0]["spec"]["devices"][0], within=1)
        assert scene.publisher.synced


async def test_while_it_is_being_written_it_is_not_published():
    scene = Scene(*(device(f"gpu-{i}") for i in range(300)))
    await scene.node()
    scene.front.lag = 1.0
    async with publishing(scene):
        await scene.until(lambda slices: slices)
        assert not scene.publisher.synced
        await scene.until(lambda slices: len(slices) == 3)
        await asyncio.sleep(1.5)
        assert scene.publisher.synced


async def test_events_that_overtake_the_answers_to_our_own_writes_are_not_taken_for_somebody_elses():
    scene = Scene(*(device(f"gpu-{i}") for i in range(300)))
    await scene.node()
    async with publishing(scene):
        await scene.until(lambda slices: len(slices) == 3)
        await asyncio.sleep(1.0)
        scene.front.lag = 1.0
        scene.driver.devices = (Device(name="gpu-0", taints=[TAINT]),)
        scene.driver.tell()
        await scene.until(lambda slices: len(slices) == 1)
        await asyncio.sleep(4.0)
        assert scene.publisher.synced
        writes = scene.front.count("POST", "PATCH", "DELETE")
        scene.driver.devices = (device("gpu-0"),)
        scene.driver.tell()
        await asyncio.sleep(4.0)
        assert scene.publisher.synced
        assert scene.front.count("POST", "PATCH", "DELETE") == writes + 1


async def test_nothing_is_written_while_nothing_changes(scene):
    async with publishing(scene):
        await scene.until(lambda slices: slices)
        for _ in range(10):
            scene.driver.tell()
            await asyncio.sleep(100)
    assert scene.front.count("POST", "PATCH", "DELETE") == 1


async def test_after_a_wipe_by_the_kubelet_all_is_published_within_two_seconds():
    scene = Scene(*(device(f"gpu-{i}") for i in range(300)))
    await scene.node()
    async with publishing(scene):
        await scene.until(lambda slices: len(slices) == 3)
        for _ in range(3):
            await scene.wipe()
            await scene.until(lambda slices: len(slices) == 3, within=2)
            await asyncio.sleep(1000)
    assert scene.front.count("POST") == 12


async def test_whoever_wipes_again_and_again_is_answered_slower_and_slower(scene):
    async with publishing(scene):
        await scene.until(lambda slices: slices)
        for _ in range(3000):
            await scene.wipe()
            await asyncio.sleep(1)
    assert scene.front.count("POST") < 100


async def test_a_change_by_somebody_else_is_put_right_later(scene):
    async with publishing(scene):
        (found,) = await scene.until(lambda slices: slices)
        await asyncio.sleep(60)
        await scene.user.patch("resourceslices", found["metadata"]["name"], {"spec": {"devices": []}})
        await asyncio.sleep(FOREIGN_CHANGE_DELAY - 1)
        assert not (await scene.slices())[0]["spec"].get("devices")
        await scene.until(lambda slices: slices[0]["spec"].get("devices"), within=2)


async def test_two_instances_of_a_rolling_update_agree(scene):
    async with publishing(scene, scene.another()):
        await asyncio.sleep(300)
        (found,) = await scene.slices()
    assert found["spec"]["pool"]["resourceSliceCount"] == 1
    assert scene.front.count("POST", "PATCH", "DELETE") < 10


async def test_a_node_that_is_not_there_yet_is_waited_for():
    scene = Scene()
    async with publishing(scene):
        await asyncio.sleep(20)
        assert scene.publisher.not_ready_reasons() == [
            'driver gpu.example.com on node n1: ResourceSlices are not published: Node n1: nodes "n1" not found'
        ]
        await scene.node()
        await scene.until(lambda slices: slices, within=40)
        assert scene.publisher.not_ready_reasons() == []


async def test_slices_of_a_node_that_was_made_anew_get_its_uid(scene):
    async with publishing(scene):
        await scene.until(lambda slices: slices)
        await scene.user.delete("nodes", "n1")
        node = await scene.node()
        await scene.wipe()  # as the garbage collector does
        (found,) = await scene.until(lambda slices: slices)
    assert found["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_a_refusal_is_told_and_tried_again(scene, caplog):
    scene.front.answer["POST"] = Response(403, {}, b'{"kind":"Status","reason":"Forbidden","message":"no right"}')
    async with publishing(scene):
        await asyncio.sleep(300)
        assert "no right" in scene.publisher.not_ready_reasons()[0]
        assert 5 < scene.front.count("POST") < 30
        scene.front.answer.clear()
        await scene.until(lambda slices: slices)
        await asyncio.sleep(1)
        assert scene.publisher.not_ready_reasons() == []
    assert sum("no right" in r.message for r in caplog.records if r.levelname == "ERROR") == 1


async def test_a_pool_that_cannot_be_published_leaves_what_was_there(scene):
    async with publishing(scene):
        before = await scene.until(lambda slices: slices)
        scene.driver.devices = (device("GPU"),)
        scene.driver.tell()
        await asyncio.sleep(100)
        assert await scene.slices() == before
        assert "device GPU: name: must be a DNS label" in scene.publisher.not_ready_reasons()[0]
        scene.driver.devices = (device("gpu-7"),)
        scene.driver.tell()
        await scene.until(lambda slices: slices[0]["spec"]["devices"][0]["name"] == "gpu-7", within=1)


async def test_a_driver_that_fails_does_not_end_the_plugin(scene, monkeypatch):
    def broken():
        raise RuntimeError("nvml is gone")

    async with publishing(scene):
        await scene.until(lambda slices: slices)
        monkeypatch.setattr(scene.driver, "pools", broken)
        scene.driver.tell()
        await asyncio.sleep(10)
        assert "nvml is gone" in scene.publisher.not_ready_reasons()[0]
        monkeypatch.undo()
        await asyncio.sleep(40)
        assert scene.publisher.not_ready_reasons() == []


async def test_fields_that_the_server_drops_are_told_and_not_sent_for_ever(scene, caplog):
    scene.front.drops = ("taints", "allowMultipleAllocations")
    scene.driver.devices = (Device(name="gpu-0", taints=[TAINT], allow_multiple_allocations=True),)
    async with publishing(scene):
        await scene.until(lambda slices: slices)
        await asyncio.sleep(300)
        assert scene.front.count("POST", "PATCH") == 1
        assert scene.publisher.synced
    told = [r.getMessage() for r in caplog.records if "dropped" in r.message]
    assert len(told) == 2
    assert (
        "device gpu-0: the API server has dropped the field taints; its feature gate DRADeviceTaints is disabled"
        in told[0]
    )
