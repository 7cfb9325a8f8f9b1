"""What a Node keeps, as its drivers get to know it."""

import asyncio

import pytest

from dra.api.reservations.well_known import MalformedAnnotationError
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.model.quantities import NANOS_PER_UNIT
from kubeletplugin.node_events import NodeEventRecorder
from kubeletplugin.node_reservation import NodeReservationWatcher
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, seeded
from tests.localplane.components import User, running

VIRTUAL_TIME = True
ANNOTATION = "node.koordinator.sh/reservation"


class Driver:
    def __init__(self):
        self.kept = []
        self.fails = None

    def apply_node_reservation(self, annotation, *, allocatable):
        if annotation == "malformed":
            raise MalformedAnnotationError(f"annotation {ANNOTATION}: reservedCPUs: 9-8 runs backwards")
        self.kept.append((annotation, allocatable))
        if self.fails is not None:
            raise self.fails


class LabelledDriver(Driver):
    def __init__(self):
        super().__init__()
        self.labels = []

    def apply_node_labels(self, labels):
        self.labels.append(dict(labels))
        return ("label l: 'x' is not valid",) if labels.get("l") == "x" else ()


class Place:
    def __init__(self, driver=None):
        self.clock = LoopClock()
        self.user = User(ApiServer(clock=self.clock, random=seeded(1)))
        self.driver = driver or Driver()
        client = Client(LocalTransport(self.user.server), RateLimiter(1e6, 1e6, clock=self.clock), clock=self.clock)
        self.events = NodeEventRecorder(client, node="n1", clock=self.clock)
        self.own = NodeReservationWatcher(client, [self.driver], node="n1", events=self.events, clock=self.clock)

    async def annotate(self, text, *, node="n1"):
        await self.user.patch("nodes", node, {"metadata": {"annotations": {ANNOTATION: text}}})
        await asyncio.sleep(1.0)

    async def notes(self):
        return [event["note"] for event in await self.user.list("events")]


@pytest.fixture
async def place():
    place = Place()
    for name in ("n1", "n2"):
        await place.user.create("nodes", {"metadata": {"name": name}})
        await place.user.patch("nodes", name, {"status": {"allocatable": {"cpu": "8"}}}, subresource="status")
    async with running(place.own, place.events):
        await place.own.seen()
        yield place


async def test_drivers_are_told_what_the_own_node_keeps_and_each_change(place):
    await place.annotate("other", node="n2")
    await place.annotate("first")
    await place.annotate(None)
    assert place.driver.kept == [(text, {"cpu": 8 * NANOS_PER_UNIT}) for text in (None, "first", None)]
    assert place.own.not_ready_reasons() == []


async def test_what_cannot_be_read_is_told_once_however_often_the_node_is_written(place):
    await place.annotate("first")
    await place.annotate("malformed")
    for number in range(20):
        await place.user.patch("nodes", "n1", {"metadata": {"labels": {"beat": str(number)}}})
        await asyncio.sleep(300.0)
    fault = f"annotation {ANNOTATION}: reservedCPUs: 9-8 runs backwards; the last valid value stays in effect"
    assert await place.notes() == [f"node n1: {fault}"]
    assert place.driver.kept[-1][0] == "first"


async def test_what_will_not_be_remembered_is_told(place):
    place.driver.fails = OSError("no space left on device")
    await place.annotate("first")
    (note,) = await place.notes()
    assert note.endswith("is in effect, but cannot be stored, so a restart loses it: no space left on device")


async def test_a_node_that_is_not_there_is_not_waited_for_long():
    place = Place()
    async with running(place.own, place.events), asyncio.timeout(6.0):
        await place.own.seen()
    assert place.driver.kept == []


async def test_a_driver_follows_the_labels_and_a_wrong_value_is_told_once():
    place = Place(LabelledDriver())
    await place.user.create("nodes", {"metadata": {"name": "n1", "labels": {"l": "x"}}})
    async with running(place.own, place.events):
        await place.own.seen()
        for number in range(5):
            await place.user.patch("nodes", "n1", {"metadata": {"annotations": {"beat": str(number)}}})
            await asyncio.sleep(300.0)
        await place.user.patch("nodes", "n1", {"metadata": {"labels": {"l": "y"}}})
        await asyncio.sleep(1.0)
    (event,) = await place.user.list("events")
    assert (event["reason"], event["note"]) == ("InvalidNodeLabel", "node n1: label l: 'x' is not valid")
    assert (place.driver.labels[0], place.driver.labels[-1]) == ({"l": "x"}, {"l": "y"})
