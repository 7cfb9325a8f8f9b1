"""A whole plane plays reservations, in virtual time, with the extender and the controller of real clusters."""

import asyncio
import contextlib

import pytest

from controller.application import Application
from dra.api.configuration import ControllerConfiguration
from dra.cli.local import plane_extender
from dra.cli.local.controller_process import CONTROLLER_CONFIGURATION
from dra.kube.transport import MERGE_PATCH, Request
from localplane.fault_injection import Fault, FaultRule
from localplane.objects import decode, encode
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, seeded

VIRTUAL_TIME = True

PODS = "/api/v1/namespaces/default/pods"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
SILENT = {**CONTROLLER_CONFIGURATION, "reservations": True, "probes": None, "metrics": None}


class Site:
    """A plane of two nodes, and who uses it."""

    def __init__(self):
        self.plane = LocalPlane(PlaneOptions(nodes=2, devices=0), clock=LoopClock(), random=seeded(1))
        self.extender = plane_extender.add_extender(self.plane)
        self.plane.add_component("controller", self._control)

    async def _control(self):
        transport = LocalTransport(self.plane.handler_for("controller"))
        await Application(ControllerConfiguration.model_validate(SILENT), transport, clock=self.plane.clock).run()

    async def ask(self, method, path, body=None):
        raw = None if body is None else encode(body)
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        request = Request(method=method, path=path, body=raw, content_type=kind, agent="kubectl/1", timeout=30.0)
        answer = await self.plane.handle(request)
        assert answer.status < 300, answer.body
        return decode(answer.body)

    async def reserve(self, name, cpu, **spec):
        whole = {
            "template": {"spec": {"containers": [container(cpu)]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
            **spec,
        }
        metadata = {"kind": "Reservation", "apiVersion": "scheduling.koordinator.sh/v1alpha1"}
        await self.ask("POST", RESERVATIONS, {**metadata, "metadata": {"name": name}, "spec": whole})

    async def pod(self, name, cpu, *, app="", **spec):
        body = {"metadata": {"name": name, "labels": {"app": app}}, "spec": {"containers": [container(cpu)], **spec}}
        await self.ask("POST", PODS, body)

    async def reservation(self, name):
        return await self.ask("GET", f"{RESERVATIONS}/{name}")

    async def node(self, name):
        return (await self.ask("GET", f"{PODS}/{name}"))["spec"].get("nodeName", "")

    async def why(self, name):
        conditions = (await self.ask("GET", f"{PODS}/{name}"))["status"].get("conditions", ())
        return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


def container(cpu):
    return {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}


@pytest.fixture
async def site():
    made = Site()
    running = asyncio.ensure_future(made.plane.run())
    await made.plane.wait_ready()
    await made.extender.wait_ready()
    try:
        yield made
        if running.done():
            running.result()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_an_owner_gets_what_is_held_and_nobody_else_does(site):
    allocatable = (await site.ask("GET", "/api/v1/nodes/node-1"))["status"]["allocatable"]["cpu"]
    most = str(int(allocatable) - 1)
    await site.reserve("held", most)
    await asyncio.sleep(5)
    held = (await site.reservation("held"))["status"]
    assert held["phase"] == "Available"

    await site.pod("stranger", "2", nodeSelector={"kubernetes.io/hostname": held["nodeName"]})
    await site.pod("owner", most, app="held")
    await asyncio.sleep(5)
    assert await site.node("owner") == held["nodeName"]
    assert await site.node("stranger") == ""
    assert "Insufficient cpu" in await site.why("stranger")
    over = (await site.reservation("held"))["status"]
    assert (over["phase"], over["allocated"]) == ("Succeeded", {"cpu": most})


async def test_pods_go_where_something_is_held_for_them(site):
    await site.reserve("held", "2", template={"spec": {"containers": [container("2")], "nodeName": "node-2"}})
    await asyncio.sleep(5)
    await site.pod("other", "1", nodeSelector={"kubernetes.io/hostname": "node-2"})
    await site.pod("owner", "2", app="held")
    await asyncio.sleep(5)
    assert await site.node("owner") == "node-2"


async def test_a_pod_that_was_refused_is_looked_at_again_when_a_reservation_ends(site):
    allocatable = (await site.ask("GET", "/api/v1/nodes/node-1"))["status"]["allocatable"]["cpu"]
    await site.reserve("short", allocatable, ttl="10s")
    await asyncio.sleep(5)
    node = (await site.reservation("short"))["status"]["nodeName"]
    await site.pod("patient", "2", nodeSelector={"kubernetes.io/hostname": node})
    await asyncio.sleep(2)
    assert "Insufficient cpu by node" in await site.why("patient")
    await asyncio.sleep(20)
    assert (await site.reservation("short"))["status"]["phase"] == "Failed"
    assert await site.node("patient") == node


async def test_pods_wait_while_the_extender_is_down_and_go_on_after_it(site):
    assert site.plane.supervisor.crash(plane_extender.EXTENDER_COMPONENT)
    await asyncio.sleep(0.01)
    await site.pod("waits", "1")
    await asyncio.sleep(0.9)
    assert await site.node("waits") == ""
    await site.extender.wait_ready()
    await asyncio.sleep(2)
    assert await site.node("waits")


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(
            FaultRule(fault=Fault.LOST, component="extender", resource="pods/binding", times=2), id="never-there"
        ),
        pytest.param(
            FaultRule(fault=Fault.LOST, component="extender", resource="pods/binding", times=1, after=True),
            id="no-answer",
        ),
        pytest.param(
            FaultRule(fault=Fault.CONFLICT, component="extender", resource="reservations*", times=2),
            id="somebody-faster",
        ),
        pytest.param(
            FaultRule(fault=Fault.ERROR, component="extender", resource="reservations*", times=3), id="errors"
        ),
        pytest.param(FaultRule(fault=Fault.CRASH, component="extender", resource="pods/binding", times=1), id="crash"),
    ],
)
async def test_a_bind_that_goes_wrong_ends_in_one_place_all_the_same(site, rule):
    await site.reserve("held", "2")
    await asyncio.sleep(5)
    site.plane.faults.set([rule])
    await site.pod("owner", "2", app="held")
    await asyncio.sleep(90)
    held = await site.reservation("held")
    assert await site.node("owner") == held["status"]["nodeName"]
    assert [each["name"] for each in held["status"]["currentOwners"]] == ["owner"]


async def test_a_snapshot_is_gone_on_with(site):
    await site.reserve("held", "2")
    await asyncio.sleep(5)
    raw = site.plane.snapshot()
    await site.ask("DELETE", f"{RESERVATIONS}/held")
    site.plane.restore(raw)
    await asyncio.sleep(30)
    await site.pod("owner", "2", app="held")
    await asyncio.sleep(5)
    assert (await site.reservation("held"))["status"]["currentOwners"][0]["name"] == "owner"
